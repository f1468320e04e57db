"""Plans that `violations` refuses, put to the compiler all the same.

Whatever it refuses too needs no word. Whatever it accepts is a limit that only the plan knows, and
each of those has its reason here: an acceptance without one fails.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from aie_design import combined_transpose, frontend
from aie_design.plan import TransposePlan
from tests.toolchain import compiler
from tests.toolchain.plans import refused_plans

compiler.require()

SEED, COUNT = 20260314, 60

# The limits that the compiler does not have, and why a plan has.
ONLY_THE_PLAN_KNOWS = {
    "kernel": "the kernel is an opaque symbol to the compiler",
    "tile": "the program moves whole tiles: what is left over would just stay undone",
    "granularity": "lowered to wrong words (test_mislowerings)",
    "queued tasks": "the hardware drops a fifth task, and the run hangs (mlir-aie #3734)",
    "output": "the compiler does not look for transfers that write the same memory",
    "ld_in": "rows that overlap are as good as any to the compiler",
    "ld_out": "rows that overlap are as good as any to the compiler",
}


def limit_of(violation: str) -> str:
    """The name a violation starts with: "shim d0: n*e/4 = 2048 > 1023" is about "shim d0"."""
    return violation.split(":")[0].split("=")[0].strip()


def accepted(plan: TransposePlan) -> bool:
    try:
        module = combined_transpose.build(plan, frontend.load("iron"))
        compiler.lower(str(module))
    except Exception:  # Whatever IRON or the compiler raises, it did not accept.
        return False
    return True


def test_every_acceptance_of_a_refused_plan_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = list(islice(refused_plans(SEED), COUNT))
    limits = {plan: sorted(set(map(limit_of, plan.violations()))) for plan in plans}
    monkeypatch.setattr(TransposePlan, "check", lambda self: None)
    taken = [plan for plan in plans if accepted(plan)]
    unexplained = [plan for plan in taken if not set(limits[plan]) <= set(ONLY_THE_PLAN_KNOWS)]
    with capsys.disabled():
        names = Counter(name for plan in taken for name in limits[plan])
        print(f"\n{COUNT} refused plans: the compiler accepts {len(taken)}, {dict(names)}")
    assert not [(plan, limits[plan]) for plan in unexplained]
