"""One program, every generation: the stand-ins record the transfers that the plan schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aie_design import combined_transpose, frontend
from aie_design.plan import Finish, TransposePlan
from hptp.errors import DeviceError, PlanError
from tests.standins import g1, g2, g3, g3_patterns
from tests.standins.recording import Move, Recording, Tile

GENERATIONS = {"g1": g1, "g2": g2, "g3": g3, "g3 with patterns": g3_patterns}
PLANS = {
    "one task": TransposePlan(64, 32, 16, 16, 4, 4),
    "several tasks": TransposePlan(4160, 64, 64, 32, 8, 2, tasks=2),
    "more tasks than fit a queue": TransposePlan(64, 64, 8, 8, 4, 4, tasks=8),
    "all of npu": TransposePlan(256, 512, 64, 32, 8, 4, columns=4, channels=2),
    "all of npu2": TransposePlan(
        512, 512, 32, 32, 8, 1, device="npu2", columns=8, channels=2, batch=3, order="cols"
    ),
    "tile of one block": TransposePlan(16, 8, 8, 8, 8, 8),
    "wide elements": TransposePlan(12, 10, 6, 5, 1, 12),
    "inside larger tensors": TransposePlan(64, 48, 32, 16, 4, 2, ld_in=80, ld_out=96),
}


def build(plan: TransposePlan, generation: Any) -> Recording:
    recording = combined_transpose.build(plan, frontend.Iron(generation))
    assert isinstance(recording, Recording)
    return recording


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_sequence_is_the_schedule(plan: TransposePlan, generation: Any) -> None:
    lanes = plan.elem_bytes // 4 if plan.elem_bytes == 12 else 1
    expected: list[Move | int] = []
    for step in plan.schedule():
        if isinstance(step, Finish):
            expected.append(step.group)
            continue
        filling = step.direction == "fill"
        name = f"{'in' if filling else 'out'}_{step.column}_{step.channel}"
        pattern = (step.tap.widened(lanes).offset, *step.tap.widened(lanes)[1:])
        expected.append(
            Move(
                step.direction,
                name,
                Tile(step.column, 0),
                0 if filling else 1,
                pattern,
                step.group,
                not filling,
            )
        )
    assert build(plan, generation).steps == expected


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
def test_the_array_is_placed_and_typed(generation: Any) -> None:
    plan = TransposePlan(64, 64, 32, 16, 8, 8, columns=2, channels=2)
    recording = build(plan, generation)
    assert recording.device == "NPU1Col2"
    tile_type = np.ndarray[(32, 16), np.dtype[np.int64]]
    assert [worker.tile for worker in recording.workers] == [
        Tile(0, 2),
        Tile(0, 3),
        Tile(1, 2),
        Tile(1, 3),
    ]
    for column, worker in zip((0, 0, 1, 1), recording.workers, strict=True):
        tiles_in, tiles_out, kernel = worker.fn_args
        assert tiles_in.fifo.obj_type == tiles_out.fifo.obj_type == tile_type
        assert tiles_in.fifo.producer.user == Tile(column, 1)
        assert (kernel.name, kernel.object_file_name) == ("transpose_8x8", "transpose.o")
        assert kernel.arg_types == [tile_type, tile_type]
    assert recording.buffer_types == [np.ndarray[(64 * 64,), np.dtype[np.int64]]] * 2


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
@pytest.mark.parametrize(
    "device, columns, name",
    [("npu", 1, "NPU1Col1"), ("npu", 4, "NPU1"), ("npu2", 7, "NPU2Col7"), ("npu2", 8, "NPU2")],
)
def test_the_device_has_the_plans_columns(
    device: str, columns: int, name: str, generation: Any
) -> None:
    plan = TransposePlan(16, 16 * columns, 16, 16, 4, 4, device=device, columns=columns)
    assert build(plan, generation).device == name


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
def test_the_way_into_l2_is_the_plans(generation: Any) -> None:
    """It is given to the memtile's end, as pairs or as a pattern; no stride is zero."""
    plan = TransposePlan(64, 32, 32, 16, 8, 2)
    tiles_in = build(plan, generation).workers[0].fn_args[0].fifo
    tap = plan.taps().into_l2
    assert tiles_in.source.fifo.name == "in_0_0"
    assert tiles_in.source.layout == list(zip(tap.sizes, tap.strides, strict=True))
    assert min(tap.strides) > 0


def test_refusals_of_the_generations_are_real() -> None:
    """The stand-ins can fail: a keyword of another generation is a TypeError."""
    line = np.ndarray[(16,), np.dtype[np.int32]]
    with pytest.raises(TypeError, match="placement"):
        g2.Worker(None, [], placement=Tile(0, 2))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="tile"):
        g1.Worker(None, [], tile=Tile(0, 2))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="dims_from_stream"):
        g3_patterns.ObjectFifo(line).cons(dims_from_stream=[(1, 1)])  # type: ignore[call-arg]
    runtime = g1.Runtime()
    with runtime.sequence(line):
        runtime.start(g1.Worker(None))
    with pytest.raises(ValueError, match="Must place Worker"):
        g1.Program(g1.NPU1(), runtime).resolve_program()
    with pytest.raises(ValueError, match="uint64"):
        g1.ObjectFifo(np.ndarray[(16,), np.dtype[np.uint64]])


def test_missing_backends_are_named() -> None:
    with pytest.raises(DeviceError, match="no IRON backend 'xdna'"):
        frontend.load("xdna")
    if not frontend_has_mlir_aie():
        with pytest.raises(DeviceError, match="mlir-aie cannot be imported"):
            frontend.load("iron")


def frontend_has_mlir_aie() -> bool:
    try:
        import aie.iron  # noqa: F401
    except ImportError:
        return False
    return True


def test_illegal_plans_and_idle_workers_are_refused() -> None:
    with pytest.raises(PlanError, match="M=66 is not a multiple of m=16"):
        build(TransposePlan(66, 32, 16, 16, 4, 4), g2)
    idle = TransposePlan(16, 16, 16, 16, 4, 4, columns=2)
    assert idle.violations() == []
    with pytest.raises(PlanError, match=r"idle workers .*\(1, 0\)"):
        build(idle, g2)
    assert len(build(idle.representative(), g2).workers) == 2
    with pytest.raises(PlanError, match="kernel='scale'"):
        combined_transpose.build(PLANS["one task"], frontend.Iron(g2), "scale")
