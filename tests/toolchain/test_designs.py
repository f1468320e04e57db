"""Chosen designs through the real compiler: the recorded ones, whole devices, an example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aie_design import combined_transpose, frontend
from aie_design.examples import transpose_and_scale
from aie_design.instructions import assemble
from aie_design.plan import TransposePlan
from tests.toolchain import compiler
from tests.toolchain.checks import check_configuration, check_sequence, lower
from tests.toolchain.recorded import recorded
from tests.toolchain.registers import descriptors
from tests.unit.test_instructions import DESIGNS, name_of, plan_of, words_of

compiler.require()


@pytest.mark.parametrize("design", DESIGNS, ids=name_of)
def test_recorded_designs_lower_as_recorded(design: dict[str, Any]) -> None:
    """This compiler says what the one behind tests/data/lowered.json said."""
    lowered = lower(plan_of(design))
    assert list(lowered.sequence) == words_of(design)
    found = sorted(descriptors(lowered.configuration), key=lambda d: d.bd)
    for kind in ("memtile", "core"):
        if kind in design:
            assert [recorded(d) for d in found if d.kind == kind] == design[kind]


BASE = TransposePlan(64, 96, 16, 32, 4, 2)
SHAPES = {
    "as large as one task can be": replace(BASE, M=64 * 16, N=4096),
    "inside larger tensors": replace(BASE, ld_in=200, ld_out=104),
    "a batch, column by column": replace(BASE, batch=5, order="cols"),
    "several tasks, one at a time": replace(BASE, tasks=4, in_flight=1),
}


@pytest.mark.parametrize("plan", SHAPES.values(), ids=SHAPES)
def test_one_array_serves_every_shape(plan: TransposePlan) -> None:
    """The configuration and the cores' code are those of the representative, word for word."""
    ours, representative = lower(plan), lower(plan.representative())
    assert ours.sequence != representative.sequence
    assert ours.configuration == representative.configuration
    assert core_code(ours.mlir) == core_code(representative.mlir)


def core_code(mlir: str) -> str:
    """The text of the first core in a placed module."""
    start = mlir.index("aie.core(")
    return mlir[start : mlir.index("\n    }", start)]


@pytest.mark.parametrize("device, columns", [("npu", 4), ("npu2", 8)])
def test_every_column_and_channel(device: str, columns: int) -> None:
    plan = TransposePlan(128, 512, 32, 32, 8, 1, device=device, columns=columns, channels=2)
    lowered = lower(plan)
    assert list(lowered.sequence) == assemble(plan)
    check_sequence(plan, lowered)
    check_configuration(plan, lowered)


PROBLEMS = [
    ((20, 12, 1), {}),
    ((3136, 64, 1), {"batch": 2}),
    ((7, 13, 4), {"ld_in": 20}),
    ((2, 6, 8), {"batch": 100, "device": "npu2"}),
]


@pytest.mark.parametrize("shape, options", PROBLEMS)
def test_chosen_plans(shape: tuple[int, int, int], options: dict[str, Any]) -> None:
    plan = TransposePlan.for_problem(*shape, **options)
    lowered = lower(plan)
    assert list(lowered.sequence) == assemble(plan)
    check_sequence(plan, lowered)
    check_configuration(plan, lowered)


@pytest.mark.parametrize("kernel", ["transpose", "copy"])
def test_the_kernel_changes_nothing_but_the_call(kernel: str) -> None:
    module = combined_transpose.build(BASE, frontend.load("iron"), kernel)
    symbol = combined_transpose.kernel_symbol(BASE, kernel)
    assert f"call @{symbol}(" in str(module)
    lowered = compiler.lower(str(module))
    assert f"llvm.call @{symbol}(" in compiler.lower_cores(lowered)
    assert lowered.sequence == lower(BASE).sequence
    assert lowered.configuration == lower(BASE).configuration


def test_the_example_lowers() -> None:
    plan = TransposePlan(64, 32, 16, 16, 4, elem_bytes=4)
    module = transpose_and_scale.build(plan, frontend.load("iron"), factor=3)
    assert module.operation.verify()
    lowered = compiler.lower(str(module))
    assert list(lowered.sequence) == assemble(plan)
    assert lowered.configuration == lower(plan).configuration
    code = compiler.lower_cores(lowered)
    assert "llvm.call @transpose_4x4(" in code
    assert "llvm.mul" in code
