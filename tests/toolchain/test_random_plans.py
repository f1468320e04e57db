"""A hundred plans through the real compiler: the hardware is told exactly what the plan says.

Each plan becomes MLIR by way of mlir-aie's own IRON, is verified and lowered. The words of its
runtime sequence must equal the assembled ones, and what a second reader (`registers`) makes of them
and of the array's configuration must be the plan's access patterns.
"""

from __future__ import annotations

from itertools import islice

import pytest

from aie_design.instructions import assemble
from aie_design.plan import DEVICES, TransposePlan
from tests.toolchain import compiler
from tests.toolchain.checks import check_configuration, check_sequence, lower
from tests.toolchain.plans import legal_plans

compiler.require()

SEED, COUNT = 20260313, 100
PLANS = list(islice(legal_plans(SEED), COUNT))


@pytest.mark.parametrize("plan", PLANS, ids=range(COUNT))
def test_the_hardware_is_told_what_the_plan_says(plan: TransposePlan) -> None:
    lowered = lower(plan)
    assert list(lowered.sequence) == assemble(plan)
    check_sequence(plan, lowered)
    check_configuration(plan, lowered)


def test_the_plans_cover_what_a_plan_can_say() -> None:
    """A corner that no plan reaches would be one that nobody has checked."""
    tasks = {p: max(len(p.tasks_of(*worker)) for worker in p.workers()) for p in PLANS}
    corners = {
        "bytes": lambda p: p.elem_bytes == 1,
        "8-byte elements": lambda p: p.elem_bytes == 8 and p.s > 1,
        "whole elements of 12 bytes": lambda p: p.elem_bytes == 12,
        "npu2": lambda p: p.device == "npu2",
        "several columns": lambda p: p.columns > 1,
        "all columns": lambda p: p.columns == DEVICES[p.device].columns,
        "both channels": lambda p: p.channels == 2,
        "several tasks": lambda p: tasks[p] > 1,
        "more tasks than a queue holds": lambda p: tasks[p] > 4,
        "strided input": lambda p: p.row_pitch_in > p.N,
        "strided output": lambda p: p.row_pitch_out > p.M,
        "a batch": lambda p: p.batch > 1,
        "column by column": lambda p: p.order == "cols",
        "one buffer": lambda p: p.depth == 1,
        "three buffers": lambda p: p.depth == 3,
        "m = s": lambda p: p.m == p.s > 1,
        "n = s": lambda p: p.n == p.s > 1,
    }
    missing = [name for name, holds in corners.items() if not any(map(holds, PLANS))]
    assert not missing
