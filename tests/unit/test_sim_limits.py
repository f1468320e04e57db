"""Every limit of the hardware is met where the hardware has it, whatever a plan believes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aie_design import combined_transpose, frontend
from aie_design.operations import BufferDescriptor, Dim
from aie_design.plan import TransposePlan
from hptp.errors import PlanError
from hptp.sim import HardwareLimit
from hptp.sim.hardware import CORE, MEMTILE, SHIM, TileKind, check_descriptor
from hptp.sim.iron import (
    NPU1,
    NPU1Col1,
    NPU1Col2,
    ObjectFifo,
    Program,
    Runtime,
    TensorAccessPattern,
    Tile,
    Worker,
)

i8, i16, i32 = np.dtype[np.int8], np.dtype[np.int16], np.dtype[np.int32]


def descriptor(length: int, *dims: tuple[int, int], iteration: Any = (1, 1)) -> BufferDescriptor:
    return BufferDescriptor(length, tuple(Dim(*dim) for dim in dims), Dim(*iteration))


@pytest.mark.parametrize(
    "kind, largest",
    [
        (SHIM, descriptor(1 << 31, (1023, 1 << 20), (1023, 1 << 20), (0, 1 << 20))),
        (MEMTILE, descriptor(131_071, (1023, 1 << 17), (1023, 1 << 17), (1023, 1 << 17), (0, 1))),
        (CORE, descriptor(16_383, (255, 1 << 13), (255, 1 << 13), (0, 1 << 13))),
        (SHIM, descriptor(4, (0, 1), iteration=(64, 1 << 20))),
    ],
)
def test_the_largest_descriptors_pass(kind: TileKind, largest: BufferDescriptor) -> None:
    check_descriptor(largest, kind, "here")


@pytest.mark.parametrize(
    "kind, too_much, message",
    [
        (SHIM, descriptor(4, (1024, 1), (0, 1)), "d0 wrap 1024 > 1023"),
        (SHIM, descriptor(4, (4, 1), (1024, 4), (0, 1)), "d1 wrap 1024 > 1023"),
        (SHIM, descriptor(4, (4, 1), (4, 4), (0, (1 << 20) + 1)), "d2 step 1048577"),
        (SHIM, descriptor(4, (4, 1), (4, 4), (4, 1), (0, 1)), "4 dimensions, a BD has 3"),
        (SHIM, descriptor(4, (0, 1), iteration=(65, 1)), "iteration 65 > 64"),
        (SHIM, descriptor(4, (0, 1), iteration=(2, (1 << 20) + 1)), "iteration step 1048577"),
        (SHIM, descriptor(0, (0, 1)), "length 0 words"),
        (MEMTILE, descriptor(131_072, (0, 1)), "length 131072 words"),
        (MEMTILE, descriptor(4, (4, (1 << 17) + 1), (0, 1)), "d0 step 131073"),
        (MEMTILE, descriptor(4, (4, 1), (4, 1), (1024, 1), (0, 1)), "d2 wrap 1024"),
        (CORE, descriptor(16_384, (0, 1)), "length 16384 words"),
        (CORE, descriptor(4, (256, 1), (0, 1)), "d0 wrap 256 > 255"),
        (CORE, descriptor(4, (4, (1 << 13) + 1), (0, 1)), "d0 step 8193"),
    ],
)
def test_one_more_does_not(kind: TileKind, too_much: BufferDescriptor, message: str) -> None:
    with pytest.raises(HardwareLimit, match=f"here: {message}"):
        check_descriptor(too_much, kind, "here")


def passthrough(
    object_type: Any,
    sizes: list[int],
    strides: list[int],
    *,
    length: int = 1 << 22,
    depth: int = 2,
    dims: Any = None,
) -> Any:
    """The host's data in one pattern, through a memtile that may write it in another."""
    dtype = object_type.__args__[1]
    fifo_in, rt = ObjectFifo(object_type, depth, "in"), Runtime()
    fifo_out = fifo_in.cons(dims_from_stream=dims).forward(name="out")
    linear = TensorAccessPattern((length,), 0, [1, 1, 1, int(np.prod(sizes))], [0, 0, 0, 1])
    with rt.sequence(np.ndarray[(length,), dtype], np.ndarray[(length,), dtype]) as (a, b):
        rt.fill(fifo_in.prod(), a, TensorAccessPattern((length,), 0, sizes, strides))
        rt.drain(fifo_out.cons(), b, linear, wait=True)
    return Program(NPU1Col1(), rt).resolve_program()


tile16 = np.ndarray[(16,), i32]


def test_the_hosts_patterns_meet_the_shims_limits() -> None:
    passthrough(tile16, [64, 2, 2, 16], [64, 32, 16, 1])
    for sizes, strides, message in (
        ([65, 1, 1, 16], [16, 16, 16, 1], "iteration 65 > 64"),
        ([257, 1, 1, 16], [0, 0, 16, 1], "257 runs > 256"),
        ([1, 1, 2, 1024], [0, 0, 2048, 1], "d0 wrap 1024 > 1023"),
        ([1, 1, 1024, 16], [0, 0, 32, 1], "d1 wrap 1024 > 1023"),
        ([1, 1, 2, 16], [0, 0, (1 << 20) + 1, 1], "d1 step 1048577"),
        ([1, 2, 1, 16], [0, (1 << 20) + 1, 16, 1], "d2 step 1048577"),
        ([2, 1, 1, 16], [(1 << 20) + 1, 0, 16, 1], "iteration step 1048577"),
    ):
        with pytest.raises(HardwareLimit, match=message):
            passthrough(tile16, sizes, strides)
    passthrough(tile16, [256, 1, 1, 16], [0, 0, 16, 1])
    passthrough(tile16, [1, 1, 1, 4096], [0, 0, 0, 1])


def test_the_fields_count_words_not_elements() -> None:
    """Two bytes an element: twice the elements fit; eight bytes: half as many."""
    short = np.ndarray[(32,), i16]
    passthrough(short, [1, 1, 2, 2046], [0, 0, 4096, 1])
    with pytest.raises(HardwareLimit, match="d0 wrap 1024"):
        passthrough(short, [1, 1, 2, 2048], [0, 0, 4096, 1])
    wide = np.ndarray[(8,), np.dtype[np.int64]]
    passthrough(wide, [1, 1, 2, 511], [0, 0, 4096, 1])
    with pytest.raises(HardwareLimit, match="d0 wrap 1024"):
        passthrough(wide, [1, 1, 2, 512], [0, 0, 4096, 1])


def test_parts_of_words_are_refused() -> None:
    short = np.ndarray[(32,), i16]
    for object_type, sizes, strides, message in (
        (np.ndarray[(32,), i8], [1, 1, 4, 2], [0, 0, 4, 1], "size of 2 elements of 1 B"),
        (short, [1, 1, 4, 2], [0, 0, 3, 1], "stride of 3 elements of 2 B"),
        (short, [1, 1, 1, 4], [0, 0, 0, 2], "innermost stride of 2 elements of 2 B"),
        (short, [2, 1, 1, 4], [3, 0, 4, 1], "stride of 3 elements of 2 B"),
    ):
        with pytest.raises(PlanError, match=message):
            passthrough(object_type, sizes, strides)
    with pytest.raises(PlanError, match="objects of 6 B are no whole number of words"):
        passthrough(np.ndarray[(3,), i16], [1, 1, 1, 6], [0, 0, 0, 1])


def test_the_memtiles_layouts_meet_its_limits() -> None:
    def written(object_type: Any, dims: Any) -> Any:
        size = int(np.prod(object_type.__args__[0]))
        return passthrough(object_type, [1, 1, 1, size], [0, 0, 0, 1], dims=dims)

    square = np.ndarray[(32, 32), i32]
    written(square, [(32, 1), (32, 32)])
    written(np.ndarray[(32, 32), i16], [(32, 32), (32, 1)])
    for object_type, dims, message in (
        (np.ndarray[(1024, 2), i32], [(2, 1), (1024, 2)], "d0 wrap 1024 > 1023"),
        (square, [(2, 512), (2, 256), (2, 128), (2, 64), (64, 1)], "need 5 > 4"),
        (square, [(1, 0), (1024, 1)], r"strides \(0, 1\) must be positive"),
        (square, [(32, 32), (16, 1)], "dimensions of 512 words for an object of 1024"),
        (square, [(32, 33), (32, 1)], "element 1054 is outside an object of 1024"),
        (np.ndarray[(32, 32), i16], [(32, 1), (32, 32)], "innermost stride of 32"),
        (np.ndarray[(32, 32), i8], [(16, 2), (32, 32), (2, 1)], "2 elements of 1 B"),
    ):
        with pytest.raises(PlanError, match=message):
            written(object_type, dims)


def test_the_memtiles_memory_and_descriptors_are_finite() -> None:
    half = np.ndarray[(65_536,), i32]
    linear: list[list[int]] = [[1, 1, 1, 65_536], [0, 0, 0, 1]]
    passthrough(half, *linear)
    with pytest.raises(HardwareLimit, match="786432 B are needed with 3 × 262144 B of 'in'"):
        passthrough(half, *linear, depth=3)
    with pytest.raises(HardwareLimit, match="length 131072 words"):
        passthrough(np.ndarray[(131_072,), i32], [1, 1, 1, 131_072], [0, 0, 0, 1], depth=1)
    with pytest.raises(HardwareLimit, match="25 BDs are needed for channel 0, 24 are free"):
        passthrough(tile16, [1, 1, 1, 16], [0, 0, 0, 1], depth=25)


def copier(object_type: Any, *, depth: int = 2, fifos: int = 1, **options: Any) -> Any:
    """A worker with `fifos` inputs and one output."""
    size = int(np.prod(object_type.__args__[0]))
    inputs = [ObjectFifo(object_type, depth, f"in_{k}") for k in range(fifos)]
    output = ObjectFifo(object_type, depth, "out")
    ends = [fifo.cons(dims_from_stream=options.get("dims")) for fifo in inputs]
    worker = Worker(
        lambda *args: None, [*ends, output.prod()], stack_size=options.get("stack", 1024)
    )
    rt = Runtime()
    buffer = np.ndarray[(size,), object_type.__args__[1]]
    with rt.sequence(buffer, buffer) as (a, b):
        rt.start(worker)
        for fifo in inputs:
            rt.fill(fifo.prod(), a)
        rt.drain(output.cons(), b, wait=True)
    return Program(NPU1Col2(), rt).resolve_program()


def test_a_cores_memory_is_finite() -> None:
    copier(np.ndarray[(16_128,), i8])
    with pytest.raises(HardwareLimit, match=r"core \(0, 2\): 66560 B are needed .* it has 65536 B"):
        copier(np.ndarray[(64, 64), i32])
    copier(np.ndarray[(64, 64), i32], depth=1)
    with pytest.raises(HardwareLimit, match="65584 B are needed"):
        copier(np.ndarray[(16_128,), i8], stack=1072)


def test_a_cores_layouts_meet_its_limits() -> None:
    copier(np.ndarray[(255, 8), i32], dims=[(8, 1), (255, 8)])
    with pytest.raises(HardwareLimit, match="d0 wrap 256 > 255"):
        copier(np.ndarray[(256, 8), i32], dims=[(8, 1), (256, 8)])
    with pytest.raises(HardwareLimit, match="need 4 > 3"):
        copier(np.ndarray[(16, 16), i32], dims=[(2, 128), (2, 64), (2, 32), (32, 1)])


def test_channels_are_finite() -> None:
    with pytest.raises(HardwareLimit, match=r"core \(0, 2\): more than its 2 S2MM channels"):
        copier(tile16, fifos=3)
    rt, fifos = Runtime(), [ObjectFifo(tile16, name=f"in_{k}") for k in range(3)]
    outs = [fifo.cons().forward(name=f"out_{k}") for k, fifo in enumerate(fifos)]
    with rt.sequence(tile16, tile16) as (a, b):
        for fifo, out in zip(fifos, outs, strict=True):
            rt.fill(fifo.prod(), a)
            rt.drain(out.cons(), b, wait=True)
    program = Program(NPU1Col2(), rt).resolve_program()
    assert [route.source.tile for route in program.routes[:3]] == [Tile(0, 0)] * 2 + [Tile(1, 0)]
    with pytest.raises(HardwareLimit, match="no shim from column 0 on has a MM2S channel left"):
        Program(NPU1Col1(), rt).resolve_program()


def test_a_cores_descriptors_are_finite() -> None:
    copier(np.ndarray[(4,), i32], depth=8)
    with pytest.raises(HardwareLimit, match=r"core \(0, 2\): 9 BDs are needed .* 7 are free"):
        copier(np.ndarray[(4,), i32], depth=9)


def test_the_shims_descriptors_are_finite() -> None:
    fifo_in, rt = ObjectFifo(tile16, name="in"), Runtime()
    fifo_out = fifo_in.cons().forward(name="out")
    with rt.sequence(tile16, tile16) as (a, b):
        for _ in range(16):
            rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    with pytest.raises(HardwareLimit, match="shim 0: more than 16 BDs are in use at once"):
        Program(NPU1Col1(), rt).resolve_program()


def test_cores_are_finite() -> None:
    rt = Runtime()
    fifos = [ObjectFifo(tile16, name=f"chain_{k:02}") for k in range(18)]
    with rt.sequence(tile16, tile16):
        for source, target in pairwise(fifos):
            rt.start(Worker(lambda a, b: None, [source.cons(), target.prod()]))
    with pytest.raises(HardwareLimit, match="17 workers are more than there are cores"):
        Program(NPU1(), rt).resolve_program()


@pytest.mark.parametrize(
    "entry, message",
    [
        (0, "iteration 128 > 64"),
        (1, "iteration 65 > 64"),
        (2, "iteration step 1050624 words"),
        (3, "iteration step 16777216 words"),
        (4, "66560 B are needed"),
        (5, "size of 2 elements of 1 B"),
    ],
)
def test_what_the_compiler_refused_is_refused_without_the_plans_help(
    entry: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = json.loads((Path(__file__).parents[1] / "data" / "lowered.json").read_text())[
        "refused"
    ]
    shape = [refused[entry][name] for name in ("M", "N", "m", "n", "s")]
    plan = TransposePlan(*shape, {"i8": 1, "i32": 4}[refused[entry]["dtype"]], tasks=1)
    assert plan.violations()
    monkeypatch.setattr(TransposePlan, "check", lambda self: None)
    with pytest.raises(PlanError, match=message):
        combined_transpose.build(plan, frontend.load("sim"))
