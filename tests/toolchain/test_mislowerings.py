"""What the compiler accepts and gets wrong without a word, and why no plan of ours gets there.

Each test shows the compiler doing it (a version that has learnt to refuse skips that part, saying
so) and then that the plan refuses, by name, or cannot express the same thing.
"""

from __future__ import annotations

from itertools import islice

import pytest

from aie_design import combined_transpose, frontend
from aie_design.operations import BufferDescriptor
from aie_design.plan import Transfer, TransposePlan
from hptp.errors import PlanError
from tests.toolchain import compiler
from tests.toolchain.checks import check_configuration
from tests.toolchain.plans import legal_plans
from tests.toolchain.registers import Loop, Task, descriptors, events, loops

compiler.require()

# A copy through one tile: shim → memtile or core → shim, with room for one odd access pattern.
COPY = """
module {{
  aie.device(npu1_1col) {{
    %shim = aie.tile(0, 0)
    %tile = aie.tile(0, {row})
    aie.objectfifo @in(%shim, {{%tile {from_stream}}}, 2 : i32)
      : !aie.objectfifo<memref<{size}x{dtype}>>
    {back}
    aie.runtime_sequence(%a: memref<{tensor}x{dtype}>) {{
      %task = aiex.dma_configure_task_for @in {{
        aie.dma_bd(%a : memref<{tensor}x{dtype}>, 0, {length}, {pattern})
        aie.end
      }} {{issue_token = true}}
      aiex.dma_start_task(%task)
      aiex.dma_await_task(%task)
    }}
  }}
}}
"""
BACK = """
    aie.objectfifo @out(%tile, {{%shim}}, 2 : i32) : !aie.objectfifo<memref<{size}x{dtype}>>
    aie.objectfifo.link [@in] -> [@out] ([] [0])
"""


def copy(
    *,
    row: int = 1,
    from_stream: list[tuple[int, int]] | None = None,
    size: int = 256,
    dtype: str = "i32",
    tensor: int = 1 << 20,
    pattern: list[tuple[int, int]] | None = None,
) -> compiler.Lowered:
    """The lowered copy of one object of `size` elements; patterns are (size, stride), outer first.

    Skips the rest of the test if the compiler refuses it.
    """
    text = COPY.format(
        row=row,
        from_stream="dimensionsFromStream " + pairs(from_stream) if from_stream else "",
        size=size,
        dtype=dtype,
        back=BACK.format(size=size, dtype=dtype) if row == 1 else "",
        tensor=tensor,
        length=size,
        pattern=pairs(pattern or [(1, 0), (1, 0), (1, 0), (size, 1)]),
    )
    return lower(text)


def pairs(pattern: list[tuple[int, int]]) -> str:
    return "[" + ", ".join(f"<size = {size}, stride = {stride}>" for size, stride in pattern) + "]"


def lower(text: str) -> compiler.Lowered:
    try:
        return compiler.lower(text)
    except compiler.CompilerError as error:
        pytest.skip(f"this compiler refuses it: {str(error).splitlines()[0]}")


def lower_unchecked(plan: TransposePlan, monkeypatch: pytest.MonkeyPatch) -> compiler.Lowered:
    monkeypatch.setattr(TransposePlan, "check", lambda self: None)
    return lower(str(combined_transpose.build(plan, frontend.load("iron"))))


SUB_WORD = {
    "2 bytes of a block's row": (TransposePlan(64, 64, 16, 16, 2, 1), "granularity: s*e = 2 B"),
    "1 element of 2 bytes": (TransposePlan(64, 64, 16, 16, 1, 2), "elem_bytes=2 is no multiple"),
}


@pytest.mark.parametrize("plan, violation", SUB_WORD.values(), ids=SUB_WORD)
def test_patterns_finer_than_a_word(
    plan: TransposePlan, violation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(text.startswith(violation) for text in plan.violations())
    lowered = lower_unchecked(plan, monkeypatch)
    # The very check that every legal plan passes does not hold.
    with pytest.raises(AssertionError):
        check_configuration(plan, lowered)


def test_a_4_byte_inner_stride_on_2_byte_elements() -> None:
    with pytest.raises(PlanError, match="innermost stride of 2 elements of 2 B would be read as 1"):
        BufferDescriptor.from_pattern((1, 1, 256), (0, 0, 2), elem_bytes=2, num_dims=3)
    lowered = copy(dtype="i16", pattern=[(1, 0), (1, 0), (1, 0), (256, 2)])
    (task,) = (event for event in events(lowered.sequence) if isinstance(event, Task))
    assert loops(task.descriptor) == [Loop(128, 1)]


def test_core_wrap_of_256() -> None:
    """A plan has no core pattern at all: L2 → L1 and L1 → L3 are linear on the core's side."""
    lowered = copy(row=2, size=512, from_stream=[(2, 1), (256, 2)])
    wraps = [d.dims[0] for d in descriptors(lowered.configuration) if d.kind == "core"]
    assert wraps
    assert all(wrap == Loop(0, 2) for wrap in wraps)


def test_memtile_length_of_131072_words() -> None:
    plan = TransposePlan(512, 256, 512, 256, 8, 4, depth=1)
    assert "memtile BD length: m*n*e/4 = 131072 > 131071" in plan.violations()
    lowered = lower(
        """
        module { aie.device(npu1_1col) {
          %tile = aie.tile(0, 1)
          %buffer = aie.buffer(%tile) {address = 0 : i32} : memref<131072xi32>
          %free = aie.lock(%tile, 0) {init = 1 : i32}
          %full = aie.lock(%tile, 1) {init = 0 : i32}
          aie.memtile_dma(%tile) {
            aie.dma_start(S2MM, 0, ^bd, ^end)
          ^bd:
            aie.use_lock(%free, AcquireGreaterEqual, 1)
            aie.dma_bd(%buffer : memref<131072xi32>, 0, 131072)
            aie.use_lock(%full, Release, 1)
            aie.next_bd ^bd
          ^end:
            aie.end
          }
          aie.runtime_sequence(%a: memref<4xi32>) {}
        } }
        """
    )
    assert [d.length for d in descriptors(lowered.configuration)] == [0]


def test_a_shim_pattern_beyond_the_tensor() -> None:
    for plan in islice(legal_plans(7), 200):
        for step in plan.schedule():
            if isinstance(step, Transfer):
                size = plan.size_in if step.direction == "fill" else plan.size_out
                assert step.tap.last < size
    lowered = copy(tensor=64, size=256)
    (task,) = (event for event in events(lowered.sequence) if isinstance(event, Task))
    assert task.descriptor.length == 256


def test_a_task_beyond_4_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TransposePlan(64, 64, 16, 16, 4, 4, ld_in=1 << 20, batch=17)
    assert plan.violations() == ["input bytes = 4559208704 > 4294967296"]
    lowered = lower_unchecked(plan, monkeypatch)
    offsets = [task.offset_bytes for task in events(lowered.sequence) if isinstance(task, Task)]
    assert all(offset < 1 << 32 for offset in offsets)
    assert 16 * plan.slab_pitch_in * plan.elem_bytes >= 1 << 32


def test_a_memtile_length_unlike_its_dimensions() -> None:
    """A plan's patterns cover the tile exactly once: see test_random_plans."""
    lowered = copy(size=256, from_stream=[(4, 64), (4, 16), (4, 4)])
    strided = [d for d in descriptors(lowered.configuration) if d.dims[0].count]
    assert strided
    assert all(d.length == 256 for d in strided)


def test_g1_repeats_a_pattern_of_fewer_than_four_dimensions() -> None:
    for plan in islice(legal_plans(8), 200):
        for step in plan.schedule():
            assert not isinstance(step, Transfer) or len(step.tap.sizes) == 4
    pytest.importorskip("aie.iron.placers", reason="this mlir-aie is not of generation G1")
    task = lowered_fill_of_rows(8)
    assert task.runs * task.descriptor.length == 8 * (8 * 32)


def lowered_fill_of_rows(rows: int) -> Task:
    """A fill of rows of 32 words with a two-dimensional pattern, as a user would write it."""
    import numpy as np
    from aie.helpers.taplib import TensorAccessPattern
    from aie.iron import ObjectFifo, Program, Runtime
    from aie.iron.device import NPU1Col1
    from aie.iron.placers import SequentialPlacer

    tensor = np.ndarray[(rows * 64,), np.dtype[np.int32]]
    fifo = ObjectFifo(np.ndarray[(rows * 32,), np.dtype[np.int32]], name="in")
    out = fifo.cons().forward()
    runtime = Runtime()
    with runtime.sequence(tensor, tensor) as (a, c):
        pattern = TensorAccessPattern((rows * 64,), 0, [rows, 32], [64, 1])
        runtime.fill(fifo.prod(), a, pattern)
        runtime.drain(out.cons(), c, wait=True)
    module = Program(NPU1Col1(), runtime).resolve_program(SequentialPlacer())
    fill, *_ = events(lower(str(module)).sequence)
    assert isinstance(fill, Task)
    return fill
