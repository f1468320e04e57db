"""Plans that `violations` refuses, put to the compiler all the same.

What it refuses too needs no word. What it accepts is a limit that only the plan knows, and each of
those has its reason here: an acceptance without one fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import pytest

from aie_design.plan import DEVICES, TransposePlan
from tests.toolchain import compiler
from tests.toolchain.checks import lower
from tests.toolchain.plans import refused_plans

compiler.require()

SEED, COUNT = 20260314, 100


class Reason(NamedTuple):
    """Why the compiler does not mind what the plan refuses, and for which plans that is so."""

    text: str
    holds: Callable[[TransposePlan], bool] = lambda plan: True


_TWO_BUFFERS = Reason(
    "a core that acquires one tile at a time is given two buffers at most, the plan counts more",
    lambda plan: plan.depth > 2,
)
ONLY_THE_PLAN_KNOWS = {
    "kernel": Reason("the kernel is an opaque symbol to the compiler"),
    "elem_bytes": Reason("the kernel is an opaque symbol to the compiler"),
    "tile": Reason("whole tiles are moved: what is left over would silently stay undone"),
    "granularity": Reason(
        "rows of blocks finer than a word are lowered to wrong words, see test_mislowerings",
        lambda plan: plan.s * plan.elem_bytes % 4 != 0,
    ),
    "queued tasks": Reason("the hardware drops a fifth task and the run hangs (mlir-aie #3734)"),
    "output": Reason("the compiler does not look for transfers that write the same memory"),
    "ld_in": Reason("rows that overlap are as good as any to the compiler"),
    "ld_out": Reason("rows that overlap are as good as any to the compiler"),
    "input bytes": Reason("offsets beyond 4 GiB are cut to 32 bits, see test_mislowerings"),
    "output bytes": Reason("offsets beyond 4 GiB are cut to 32 bits, see test_mislowerings"),
    "L1": _TWO_BUFFERS,
    "core BDs": _TWO_BUFFERS,
}


def limit_of(violation: str) -> str:
    """The name a violation starts with: "shim d0: n*e/4 = 2048 > 1023" is about "shim d0"."""
    return violation.split(":")[0].split("=")[0].strip()


def expressible(plans: Iterator[TransposePlan]) -> Iterator[TransposePlan]:
    """Those that a program can be written for: columns that exist, descriptors, work for everyone.

    More than three workers would only add the time it takes to route their streams.
    """
    for plan in plans:
        on_device = plan.columns <= DEVICES[plan.device].columns
        if on_device and len(plan.workers()) <= 3 and plan.M // plan.m and plan.N // plan.n:
            tasks = [len(plan.tasks_of(*worker)) for worker in plan.workers()]
            if all(tasks) and sum(tasks) <= 32 and 2 * plan.channels * plan.in_flight <= 16:
                yield plan


def test_every_acceptance_of_a_refused_plan_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = list(islice(expressible(refused_plans(SEED)), COUNT))
    limits = {plan: sorted(set(map(limit_of, plan.violations()))) for plan in plans}
    monkeypatch.setattr(TransposePlan, "check", lambda self: None)
    accepted = [plan for plan in plans if compiles(plan)]
    with capsys.disabled():
        names = Counter(name for plan in accepted for name in limits[plan])
        print(f"\n{COUNT} refused plans: the compiler accepts {len(accepted)}, {dict(names)}")
    for plan in accepted:
        for name in limits[plan]:
            assert name in ONLY_THE_PLAN_KNOWS, f"{name}: accepted by the compiler: {plan}"
            reason = ONLY_THE_PLAN_KNOWS[name]
            assert reason.holds(plan), f"{name}: accepted, but not because {reason.text}: {plan}"


def compiles(plan: TransposePlan) -> bool:
    try:
        lower(plan)
    except (compiler.CompilerError, ValueError):  # IRON's own checks are ValueErrors.
        return False
    return True
