"""Slabs: the split of a problem between NPU and CPU, executed here by the plan's own transfers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aie_design.instructions import decode, from_bytes
from aie_design.operations import PatchAddress, WriteDescriptor
from aie_design.plan import Transfer, TransposePlan
from hptp._core import Plan, Problem
from hptp.errors import PlanError
from hptp.npu import slabs as slabs_module
from hptp.npu.artifacts import Design
from hptp.npu.slabs import Slabs, plan_slabs, windows
from tests.reference import assert_same_bits, random_array


def problem_of(x: np.ndarray, perm: Sequence[int]) -> Problem:
    return Problem(x.dtype.itemsize, x.shape, perm, x.strides)


def run(slabs: Slabs, x: np.ndarray, out: np.ndarray) -> None:
    """Execute the slabs: pack, move every tile along its taps and transpose it, unpack; edges."""
    plan = slabs.transpose
    packed = np.zeros(slabs.npu_bytes // plan.elem_bytes, f"V{plan.elem_bytes}")
    result = np.zeros_like(packed)
    src, dst = x.__array_interface__["data"][0], out.ctypes.data
    Plan(slabs.load, 1).execute(src, packed.ctypes.data)
    with slabs.edges_meanwhile(src, dst, 1):
        for origin_in, origin_out in slabs.origins:
            for fill, drain in transfers(plan):
                elements = [origin_in + i for i in fill.tap.indices()]
                tiles = packed[elements].reshape(-1, plan.m, plan.n).transpose(0, 2, 1)
                result[[origin_out + i for i in drain.tap.indices()]] = tiles.reshape(-1)
    Plan(slabs.unload, 1).execute(result.ctypes.data, dst)


def transfers(plan: TransposePlan) -> list[tuple[Transfer, Transfer]]:
    """The fills of a plan, each with the drain that takes its tiles."""
    steps = [step for step in plan.schedule() if isinstance(step, Transfer)]
    fills = [step for step in steps if step.direction == "fill"]
    drains = [step for step in steps if step.direction == "drain"]
    return list(zip(fills, drains, strict=True))


def check(x: np.ndarray, perm: Sequence[int], device: str = "npu") -> Slabs:
    """Split, execute, compare with NumPy; the parts must make up the whole."""
    slabs = plan_slabs(problem_of(x, perm), device)
    expected = x.transpose(perm).copy()
    out = random_array(expected.shape, x.dtype, seed=1)
    run(slabs, x, out)
    assert_same_bits(out, expected)
    assert slabs.npu_bytes + sum(e.problem.nbytes for e in slabs.edges) == slabs.total_bytes
    assert slabs.npu_bytes > 0
    return slabs


@pytest.mark.parametrize("device", ["npu", "npu2"])
def test_random_problems_are_exact(device: str) -> None:
    rng = random.Random(6)
    kinds = set()
    refused = 0
    for seed in range(250):
        ndim = rng.randint(1, 6)
        shape = [rng.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 33]) for _ in range(ndim)]
        if math.prod(shape) > 20_000:
            continue
        perm = rng.sample(range(ndim), ndim)
        x = random_array(shape, f"V{rng.choice([1, 2, 4, 8, 16])}", seed)
        if rng.random() < 0.3:
            x = x[::-1]
        if rng.random() < 0.3 and shape[-1] > 3:
            x = x[..., 1:-1]
        try:
            slabs = check(x, perm, device)
        except PlanError:
            refused += 1
            continue
        kinds.add((slabs.kernel, len(slabs.edges), len(slabs.origins) > 1))
    assert refused < 60
    assert {("transpose", 0, False), ("transpose", 2, False), ("copy", 1, False)} <= kinds
    assert ("transpose", 0, True) in kinds
    assert ("copy", 0, True) in kinds


@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(
    "shape, perm",
    [
        ((8, 12, 20), (0, 2, 1)),
        ((8, 12, 20), (1, 0, 2)),
        ((8, 12, 20), (1, 2, 0)),
        ((8, 12, 20), (2, 0, 1)),
        ((8, 12, 20), (2, 1, 0)),
        ((2, 8, 3, 12), (0, 2, 3, 1)),
        ((2, 3, 12, 8), (0, 3, 1, 2)),
        ((2, 12, 4, 64), (0, 2, 1, 3)),
        ((2, 2, 3, 2, 2, 2, 4, 4), (7, 5, 3, 1, 0, 2, 4, 6)),
    ],
)
def test_where_sizes_divide_the_npu_does_everything(
    shape: tuple[int, ...], perm: tuple[int, ...], elem_bytes: int
) -> None:
    slabs = check(random_array(shape, f"V{elem_bytes}"), perm)
    assert slabs.npu_bytes == slabs.total_bytes
    assert slabs.edges == ()
    assert "(100.0 %)" in slabs.describe()


@pytest.mark.parametrize("shape", [(37, 22), (36, 21), (39, 40), (5, 7), (4, 131)])
@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8])
def test_what_fills_no_tile_is_the_cpus(shape: tuple[int, int], elem_bytes: int) -> None:
    slabs = check(random_array(shape, f"V{elem_bytes}"), (1, 0))
    rows, cols = (size // 4 * 4 for size in shape)
    assert slabs.npu_bytes == rows * cols * elem_bytes
    assert len(slabs.edges) == (rows < shape[0]) + (cols < shape[1])
    assert "CPU meanwhile" in slabs.describe()


def test_axes_between_rows_and_columns_become_the_batch() -> None:
    slabs = check(random_array((8, 5, 12), "f4"), (2, 1, 0))
    plan = slabs.transpose
    assert (plan.M, plan.N, plan.batch) == (8, 12, 5)
    assert (plan.row_pitch_in, plan.row_pitch_out) == (60, 40)
    assert (plan.batch_stride_in, plan.batch_stride_out) == (12, 8)
    assert slabs.origins == ((0, 0),)


def test_further_axes_become_origins() -> None:
    slabs = check(random_array((8, 2, 5, 3, 12), "f4"), (4, 3, 2, 1, 0))
    assert slabs.transpose.batch == 5
    assert len(slabs.origins) == 6
    assert slabs.origins[:3] == ((0, 0), (180, 8), (12, 80))


def test_short_rows_are_elements() -> None:
    plan = check(random_array((6, 10, 5), "f4"), (1, 0, 2)).transpose
    assert (plan.M, plan.N, plan.elem_bytes, plan.s) == (6, 10, 20, 1)


def test_long_rows_are_moved_in_pieces() -> None:
    slabs = check(random_array((3, 2, 3000), "f4"), (1, 0, 2))
    plan = slabs.transpose
    assert (plan.M, plan.N * plan.elem_bytes) == (1, 12_000 // 64 * 64)
    assert plan.elem_bytes > 512
    assert slabs.npu_bytes == 6 * (12_000 // 64 * 64)


def test_a_row_of_odd_bytes_leaves_its_end_to_the_cpu() -> None:
    slabs = check(random_array((6, 10, 333), "u1"), (1, 0, 2))
    assert slabs.npu_bytes == 60 * 332
    (edge,) = slabs.edges
    assert edge.src_offset_bytes == edge.dst_offset_bytes == 332


def test_a_slice_that_moves_nothing_is_still_a_copy() -> None:
    check(random_array((64, 40), "f4")[:, 4:36], (0, 1))


def test_a_destination_of_other_strides() -> None:
    x, frame = random_array((64, 32), "i4"), random_array((40, 80), "i4", seed=1)
    expected = frame.copy()
    expected[4:36, 8:72] = x.T
    out = frame[4:36, 8:72]
    slabs = plan_slabs(Problem(4, x.shape, (1, 0), x.strides, out.strides), "npu")
    run(slabs, x, out)
    assert_same_bits(frame, expected)


DESIGN = Design("npu", 4, 16, 8, 4, 1, 1, 2, "transpose_4x4")


def test_a_given_design_keeps_its_tile() -> None:
    x = random_array((40, 20), "i4")
    slabs = plan_slabs(problem_of(x, (1, 0)), "npu", DESIGN)
    assert (slabs.transpose.m, slabs.transpose.n) == (16, 8)
    assert slabs.npu_bytes == 32 * 16 * 4
    assert Design.of(slabs.transpose, "transpose_4x4") == DESIGN
    out = np.zeros((20, 40), "i4")
    run(slabs, x, out)
    assert_same_bits(out, x.T.copy())


def test_a_design_of_single_rows_moves_rows_of_any_length() -> None:
    mover = Design("npu", 64, 1, 2, 1, 2, 2, 2, "copy")
    for length, kept in ((1000, 992), (96, 96), (40, 32)):
        x = random_array((6, 10, length), "f4")
        slabs = plan_slabs(problem_of(x, (1, 0, 2)), "npu", mover)
        assert slabs.npu_bytes == 60 * kept * 4
        out = np.zeros((10, 6, length), "f4")
        run(slabs, x, out)
        assert_same_bits(out, x.transpose(1, 0, 2).copy())
    with pytest.raises(PlanError, match="fills a tile"):
        plan_slabs(Problem(4, (6, 10, 31), (1, 0, 2)), "npu", mover)
    with pytest.raises(PlanError, match="M=1 is not a multiple of m=2"):
        plan_slabs(Problem(4, (6, 10, 64), (1, 0, 2)), "npu", replace(mover, m=2))


@pytest.mark.parametrize(
    "shape, perm, elem_bytes, device",
    [
        ((40, 20), (1, 0), 2, "npu"),  # another width
        ((40, 20), (1, 0), 4, "npu2"),  # another device
        ((40, 20, 4), (1, 0, 2), 4, "npu"),  # rows that only move
        ((12, 20), (1, 0), 4, "npu"),  # too few rows for the tile
    ],
)
def test_a_design_for_something_else_is_refused(
    shape: tuple[int, ...], perm: tuple[int, ...], elem_bytes: int, device: str
) -> None:
    with pytest.raises(PlanError, match="npu-4B-m16-n8-s4"):
        plan_slabs(Problem(elem_bytes, shape, perm), device, DESIGN)


@pytest.mark.parametrize("perm, shape", [((1, 0), (64, 64)), ((1, 0, 2), (8, 8, 64))])
def test_a_design_that_only_copies_is_never_used(
    perm: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    shows_the_data_flow = Design("npu", 4, 4, 4, 4, 1, 1, 2, "copy")
    with pytest.raises(PlanError, match="npu-4B-m4-n4-s4"):
        plan_slabs(Problem(4, shape, perm), "npu", shows_the_data_flow)


@pytest.mark.parametrize(
    "shape, perm, elem_bytes, reason",
    [
        ((8, 8), (1, 0), 3, "3-byte"),
        ((8, 3), (1, 0), 1, "8x3"),
        ((2, 8), (1, 0), 2, "2x8"),
        ((6, 10, 3, 1), (1, 0, 2, 3), 1, "3-byte"),
        ((1, 1), (1, 0), 4, "nothing to do"),
        ((0, 4), (1, 0), 4, "nothing to do"),
    ],
)
def test_nothing_for_the_npu_is_refused_with_the_reason(
    shape: tuple[int, ...], perm: tuple[int, ...], elem_bytes: int, reason: str
) -> None:
    with pytest.raises(PlanError, match=reason):
        plan_slabs(Problem(elem_bytes, shape, perm), "npu")


def test_runs_hold_as_many_origins_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    slabs = plan_slabs(Problem(4, (8, 2, 5, 3, 12), (4, 3, 2, 1, 0)), "npu")
    (run_of_all,) = slabs.runs()
    assert run_of_all == slabs.origins
    whole = decode(from_bytes(slabs.instructions(run_of_all))).operations
    monkeypatch.setattr(slabs_module, "MAX_RUN_OPERATIONS", len(whole) // 3)
    assert [len(run) for run in slabs.runs()] == [2, 2, 2]
    parts = [decode(from_bytes(slabs.instructions(run))).operations for run in slabs.runs()]
    assert tuple(operation for part in parts for operation in part) == whole
    monkeypatch.setattr(slabs_module, "MAX_RUN_BYTES", 1)
    assert [len(run) for run in slabs.runs()] == [1] * 6


def test_every_transfer_moves_with_its_origin() -> None:
    slabs = plan_slabs(Problem(4, (8, 2, 5, 12), (3, 2, 1, 0)), "npu")
    first, second = (slabs.instructions([origin]) for origin in slabs.origins)
    origin = slabs.origins[1]
    at_zero, moved = (decode(from_bytes(words)).operations for words in (first, second))
    argument = 0
    for before, after in zip(at_zero, moved, strict=True):
        if isinstance(before, PatchAddress):
            argument = before.argument
            assert isinstance(after, PatchAddress)
            assert after.offset_bytes - before.offset_bytes == 4 * origin[argument]
        elif not isinstance(before, WriteDescriptor):
            assert before == after


@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (1000, 7), (5, 5, 500), (130, 130)])
def test_windows_make_up_the_problem(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs_module, "MAX_PACKED_BYTES", 20_000)
    x = random_array(shape, "f4")[::-1]
    perm = tuple(range(len(shape)))[::-1]
    boxes = windows(problem_of(x, perm))
    assert len(boxes) > 1
    assert max(box.problem.nbytes for box in boxes) <= 20_000
    assert sum(box.problem.nbytes for box in boxes) == x.nbytes
    expected = x.transpose(perm).copy()
    out = np.zeros_like(expected)
    src, dst = x.__array_interface__["data"][0], out.ctypes.data
    for box in boxes:
        Plan(box.problem, 1).execute(src + box.src_offset_bytes, dst + box.dst_offset_bytes)
    assert_same_bits(out, expected)


def test_windows_are_cut_where_tiles_divide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs_module, "MAX_PACKED_BYTES", 1 << 16)
    boxes = windows(Problem(4, (520, 96), (1, 0)))
    assert [box.problem.nbytes // 384 for box in boxes] == [128, 128, 128, 136]


def test_a_small_problem_is_one_window() -> None:
    problem = Problem(4, (64, 32), (1, 0))
    (box,) = windows(problem)
    assert (box.problem, box.src_offset_bytes, box.dst_offset_bytes) == (problem, 0, 0)


def test_an_edge_that_fails_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    slabs = plan_slabs(Problem(4, (37, 32), (1, 0)), "npu")

    def fail(*_: object) -> None:
        raise RuntimeError("edge failed")

    monkeypatch.setattr(slabs_module, "Plan", fail)
    with pytest.raises(RuntimeError, match="edge failed"), slabs.edges_meanwhile(0, 0, 1):
        pass
