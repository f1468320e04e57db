"""TransposePlan: its patterns move every element once and rightly, and no limit is missed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from aie_design.plan import DEVICES, Finish, Tap, Transfer, TransposePlan
from hptp.errors import PlanError
from tests.small_plans import small_plans, spoilt_plans

GOLDEN = json.loads((Path(__file__).parent.parent / "data" / "lowered.json").read_text())
ELEM_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}


def plan_of(entry: dict[str, Any], **changes: Any) -> TransposePlan:
    """The plan of an entry of lowered.json."""
    optional = ("device", "ld_in", "ld_out", "batch", "columns", "channels", "order")
    values = {name: entry[name] for name in ("M", "N", "m", "n", "s", *optional) if name in entry}
    return TransposePlan(elem_bytes=ELEM_BYTES[entry["dtype"]], **(values | changes))


def golden_plan(entry: dict[str, Any]) -> TransposePlan:
    """As above, with the tasks lowered.json states: one a slab, each awaited before the next."""
    return plan_of(entry, in_flight=1, tasks=entry.get("batch"))


# --- Moving data by the patterns ------------------------------------------------------------------


def indices(tap: Tap) -> Any:
    result = np.array(tap.offset)
    for size, stride in zip(tap.sizes, tap.strides, strict=True):
        result = result[..., None] + np.arange(size) * stride
    return result.reshape(-1)


def transfers(plan: TransposePlan) -> list[Transfer]:
    return [step for step in plan.schedule() if isinstance(step, Transfer)]


def run(plan: TransposePlan, source: Any) -> tuple[Any, Any, Any]:
    """(output, reads of each input element, writes of each output element) of the whole path."""
    output = np.full(plan.size_out, -1)
    reads, writes = np.zeros(plan.size_in, int), np.zeros(plan.size_out, int)
    into_l2, linear = indices(plan.taps().into_l2), indices(plan.taps().l2_to_l1)
    fills, drains = transfers(plan)[::2], transfers(plan)[1::2]
    for fill, drain in zip(fills, drains, strict=True):
        assert (fill.direction, drain.direction) == ("fill", "drain")
        assert (fill.column, fill.channel) == (drain.column, drain.channel)
        taken, put = indices(fill.tap), indices(drain.tap)
        np.add.at(reads, taken, 1)
        np.add.at(writes, put, 1)
        tiles = source[taken].reshape(-1, plan.m * plan.n)
        l2 = np.empty_like(tiles)
        l2[:, into_l2] = tiles
        s, shape = plan.s, (-1, plan.n // plan.s, plan.s, plan.m // plan.s, plan.s)
        l1 = l2[:, linear].reshape(shape).transpose(0, 1, 4, 3, 2).reshape(tiles.shape)
        assert s in (1, 4, 8)
        output[put] = l1.reshape(-1)
    return output, reads, writes


def layout(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return indices(Tap(0, sizes, strides)).reshape(sizes)


def check_moves(plan: TransposePlan) -> None:
    """Every element is read once, written once, and lands where the transpose puts it."""
    assert plan.violations() == []
    source = np.random.default_rng(0).permutation(plan.size_in)
    output, reads, writes = run(plan, source)
    slab_in = layout((plan.batch, plan.M, plan.N), (plan.slab_pitch_in, plan.row_pitch_in, 1))
    slab_out = layout((plan.batch, plan.N, plan.M), (plan.slab_pitch_out, plan.row_pitch_out, 1))
    assert np.array_equal(output[slab_out], source[slab_in].transpose(0, 2, 1))
    assert (writes[slab_out] == 1).all()
    assert writes.sum() == plan.batch * plan.M * plan.N  # nothing between the rows
    np.add.at(reads, slab_in.reshape(-1), -1)
    assert not reads.any()


def test_every_pattern_visits_each_element_once() -> None:
    seen: set[Any] = set()
    for plan in islice(small_plans(seed=1), 300):
        check_moves(plan)
        seen |= {("s", plan.s), ("e", plan.elem_bytes), ("order", plan.order)}
        seen |= {("columns", plan.columns), ("channels", plan.channels), ("batch", plan.batch)}
        seen.add(("several tasks", len(plan.tasks_of(0, 0)) > 1))
    assert len(seen) >= 3 + 5 + 2 + 8 + 2 + 4 + 2  # all of it occurred


def test_slabs_woven_into_each_other() -> None:
    """dst[c, b, a] = src[a, b, c]: rows of one slab lie between those of the others."""
    A, B, C = 16, 6, 8
    plan = TransposePlan(
        A, C, 4, 4, 4, 4, ld_in=B * C, ld_out=B * A, batch=B, batch_stride_in=C, batch_stride_out=A
    )
    check_moves(plan)
    source = np.arange(A * B * C)
    output = run(plan, source)[0]
    assert np.array_equal(output.reshape(C, B, A), source.reshape(A, B, C).transpose(2, 1, 0))


# --- The compiler's own numbers -------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry", GOLDEN["designs"] + GOLDEN["more"]["designs"], ids=lambda e: e.get("name", "")
)
def test_patterns_are_what_the_compiler_lowers(entry: dict[str, Any]) -> None:
    plan = golden_plan(entry)
    assert plan.violations() == []
    moves = transfers(plan)
    assert [(move.column, move.bd) for move in moves] == [
        (bd["col"], bd["bd"]) for bd in entry["shim"]
    ]
    for move, bd in zip(moves, entry["shim"], strict=True):
        (repeats, outer, middle, inner), strides = move.tap.sizes, move.tap.strides

        def words(elements: int) -> int:
            return elements * plan.elem_bytes // 4

        assert bd["length"] == words(outer * middle * inner)
        assert bd["d0"] == [words(inner), 1]
        assert bd["d1"] == [middle, words(strides[2])]
        assert bd["d2_step"] == (words(strides[1]) if outer > 1 else 1)
        assert bd["iteration"] == [repeats, words(strides[0]) if repeats > 1 else 1]


@pytest.mark.parametrize("entry", GOLDEN["refused"], ids=lambda e: e["limit"])
def test_what_the_compiler_refuses_as_one_task(entry: dict[str, Any]) -> None:
    """The limit named there, with its number; the first five run when the plan is free."""
    one_task = plan_of(entry, tasks=1)
    named = entry["limit"].split(" (")[0].replace(" > 1048576 words", "")
    assert any(named in message for message in one_task.violations())
    if entry is GOLDEN["refused"][-1]:
        assert len(one_task.violations()) == 3  # the kernel's s, and two granularities
        return
    free = TransposePlan.for_problem(entry["M"], entry["N"], 4)
    assert free.violations() == []
    same_tile = plan_of(entry, depth=1 if "L1" in named else 2)
    assert same_tile.violations() == []


def test_folded_strides_stay_exact() -> None:
    """Where a stride is too long for a BD, tasks of one tile row or column take its place."""
    tall = TransposePlan(8, 1 << 19, 4, 1 << 8, 4, 8, ld_in=1 << 19)  # m*ld_in is 2^22 words
    assert [len(box.rows) for box in tall.tasks_of(0, 0)] == [1, 1]
    assert {len(box.cols) for box in tall.tasks_of(0, 0)} == {1 << 11}
    wide = TransposePlan(1 << 19, 8, 4, 4, 4, 8, order="cols")
    assert {(len(box.rows), len(box.cols)) for box in wide.tasks_of(0, 0)} == {(1 << 17, 1)}
    both = TransposePlan(16, 16, 4, 4, 4, 4, ld_in=(1 << 18) + 1, ld_out=(1 << 18) + 1)
    assert {(len(box.rows), len(box.cols)) for box in both.tasks_of(0, 0)} == {(1, 1)}
    starts = [move.tap.offset for move in transfers(both)[::2]]
    assert starts == [4 * r * both.row_pitch_in + 4 * c for r in range(4) for c in range(4)]


# --- The schedule ---------------------------------------------------------------------------------


def test_queues_and_descriptors_are_never_overrun() -> None:
    for plan in islice(small_plans(seed=2), 200):
        queued: dict[tuple[int, int, str], int] = {}
        busy: dict[int, set[int]] = {column: set() for column in range(plan.columns)}
        groups: dict[int, list[Transfer]] = {}
        for step in plan.schedule():
            if isinstance(step, Finish):
                issued = groups.pop(step.group)
                assert step.drains == tuple(t for t in issued if t.direction == "drain")
                assert step.group == min([step.group, *groups])  # the oldest first
                for transfer in issued:
                    queued[transfer.column, transfer.channel, transfer.direction] -= 1
                    busy[transfer.column].remove(transfer.bd)
                continue
            channel = (step.column, step.channel, step.direction)
            queued[channel] = queued.get(channel, 0) + 1
            assert queued[channel] <= plan.in_flight <= 4
            assert step.bd == min(set(range(16)) - busy[step.column])
            busy[step.column].add(step.bd)
            groups.setdefault(step.group, []).append(step)
        assert not groups


def test_bytes_are_balanced() -> None:
    """No worker has more than one tile row times one tile column over its fair share."""
    for plan in islice(small_plans(seed=3), 200):
        loads = []
        for worker in plan.workers():
            slabs, rows, cols = map(len, plan.share(*worker))
            loads.append(slabs * rows * cols)
        tiles = plan.batch * (plan.M // plan.m) * (plan.N // plan.n)
        assert sum(loads) == tiles
        even = TransposePlan(
            plan.m * 2 * plan.channels, plan.n * 3 * plan.columns, plan.m, plan.n, plan.s,
            plan.elem_bytes, device=plan.device, columns=plan.columns, channels=plan.channels,
        )  # fmt: skip
        assert {len(even.share(*w).rows) * len(even.share(*w).cols) for w in even.workers()} == {6}


def test_columns_share_the_batch_where_that_is_more_even() -> None:
    plan = TransposePlan(32, 32, 16, 32, 4, 4, batch=8, columns=4, channels=2)
    shares = [plan.share(*worker) for worker in plan.workers()]
    assert [(len(b), len(r), len(c)) for b, r, c in shares] == [(2, 1, 1)] * 8
    check_moves(plan)


# --- Limits ---------------------------------------------------------------------------------------

GOOD = TransposePlan(64, 64, 16, 16, 4, 4)

LIMITS: list[tuple[dict[str, Any], str]] = [
    ({"M": 66}, "tile: M=66 is not a multiple of m=16"),
    ({"N": 72}, "tile: N=72 is not a multiple of n=16"),
    ({"m": 12, "s": 8, "M": 72}, "tile: m=12 is not a multiple of s=8"),
    ({"n": 4, "s": 8}, "tile: n=4 is not a multiple of s=8"),
    ({"s": 2}, "kernel: s must be 4 or 8 (1: a copy), not 2"),
    ({"s": 16}, "kernel: s must be 4 or 8 (1: a copy), not 16"),
    ({"elem_bytes": 3}, "elem_bytes=3 is none of 1, 2, 4, 8"),
    ({"elem_bytes": 6, "s": 1}, "elem_bytes=6 is no multiple of 4, as s=1 needs"),
    ({"M": 0}, "M=0 is not an integer of at least 1"),
    ({"n": -16}, "n=-16 is not an integer of at least 1"),
    ({"ld_in": 0}, "ld_in=0 is not an integer of at least 1"),
    ({"tasks": 1.5}, "tasks=1.5 is not an integer of at least 1"),
    ({"batch": True}, "batch=True is not an integer of at least 1"),
    ({"order": "diagonal"}, "order='diagonal' is neither 'rows' nor 'cols'"),
    ({"device": "npu3"}, "device='npu3' is none of npu, npu2"),
    ({"ld_in": 63}, "ld_in=63 is less than N=64"),
    ({"ld_out": 60}, "ld_out=60 is less than M=64"),
    ({"elem_bytes": 1, "ld_in": 66}, "granularity: ld_in*e = 66 B is not a multiple of 4 B"),
    ({"elem_bytes": 2, "ld_out": 65}, "granularity: ld_out*e = 130 B is not a multiple of 4 B"),
    ({"elem_bytes": 1, "m": 14, "M": 56}, "granularity: m*e = 14 B is not a multiple of 4 B"),
    ({"elem_bytes": 1, "n": 14, "N": 56}, "granularity: n*e = 14 B is not a multiple of 4 B"),
    ({"elem_bytes": 1, "s": 2}, "granularity: s*e = 2 B is not a multiple of 4 B"),
    (
        {"elem_bytes": 1, "batch": 2, "batch_stride_in": 4097},
        "granularity: batch_stride_in*e = 4097 B is not a multiple of 4 B",
    ),
    (
        {"elem_bytes": 1, "batch": 2, "batch_stride_out": 4098},
        "granularity: batch_stride_out*e = 4098 B is not a multiple of 4 B",
    ),
    (
        {"batch": 2, "batch_stride_out": 4032},
        "output: slabs at batch_stride_out=4032 overlap (ld_out=64)",
    ),
    (
        {"batch": 2, "batch_stride_out": 32},
        "output: slabs at batch_stride_out=32 overlap (ld_out=64)",
    ),
    ({"m": 64, "n": 64}, "L1: 4 buffers of 16384 B and the stack exceed 65536 B"),
    ({"m": 64, "n": 32, "depth": 4}, "L1: 8 buffers of 8192 B and the stack exceed 65536 B"),
    ({"depth": 9}, "core BDs: 2*depth = 18 > 16"),
    ({"depth": 13}, "memtile BDs of a channel pair: 2*depth = 26 > 24"),
    ({"columns": 5}, "columns = 5 > 4"),
    ({"columns": 9, "device": "npu2"}, "columns = 9 > 8"),
    ({"channels": 3}, "channels = 3 > 2"),
    ({"in_flight": 5}, "queued tasks: in_flight = 5 > 4"),
    ({"in_flight": 5, "channels": 2}, "shim BDs: 2*channels*in_flight = 20 > 16"),
    ({"M": 65 * 16, "tasks": 1}, "iteration: M/m = 65 > 64"),
    ({"N": 65 * 16, "tasks": 1, "order": "cols"}, "iteration: N/n = 65 > 64"),
    (
        {"M": 16, "batch": 65, "tasks": 1},
        "iteration: batch = 65 > 64",
    ),
    (
        {"batch": 2, "tasks": 1},
        "iteration: three tile loops, 2 (batch) x 4 (M/m) x 4 (N/n); a shim BD holds two",
    ),
    ({"ld_in": 1 << 17, "tasks": 1}, "shim stride: m*ld_in*e/4 = 2097152 words > 1048576"),
    ({"ld_out": 1 << 17, "tasks": 1}, "shim stride: n*ld_out*e/4 = 2097152 words > 1048576"),
    ({"ld_in": (1 << 20) + 1}, "shim stride: ld_in*e/4 = 1048577 words > 1048576"),
    ({"ld_out": (1 << 20) + 1}, "shim stride: ld_out*e/4 = 1048577 words > 1048576"),
    (
        {"M": 16, "batch": 2, "batch_stride_in": 1 << 21, "tasks": 1},
        "shim stride: batch_stride_in*e/4 = 2097152 words > 1048576",
    ),
    ({"n": 1024, "N": 1024, "m": 4, "depth": 1}, "shim d0: n*e/4 = 1024 > 1023"),
    ({"m": 1024, "M": 1024, "n": 4, "depth": 1}, "shim d0: m*e/4 = 1024 > 1023"),
    ({"n": 1024, "N": 1024, "m": 4, "elem_bytes": 1}, "shim d1: n = 1024 > 1023"),
    ({"m": 1024, "M": 1024, "n": 4, "elem_bytes": 1}, "shim d1: m = 1024 > 1023"),
    ({"s": 1, "m": 513, "M": 513, "n": 1}, "memtile dimension: m/s = 513 > 512"),
    ({"s": 1, "n": 513, "N": 513, "m": 1}, "memtile dimension: n/s = 513 > 512"),
    ({"s": 513, "m": 513, "n": 513, "M": 513, "N": 513}, "memtile dimension: s = 513 > 512"),
    (
        {"s": 1, "m": 1, "n": 1, "elem_bytes": 2052},
        "memtile dimension: s*e/4 = 513 > 512",
    ),
    ({"m": 32769, "M": 32769}, "memtile stride: s*m*e/4 = 131076 > 131072"),
    ({"m": 512, "n": 256, "M": 512, "N": 256}, "memtile BD length: m*n*e/4 = 131072 > 131071"),
    ({"m": 128, "n": 128, "M": 128, "N": 128}, "core BD length: m*n*e/4 = 16384 > 16383"),
    (
        {"m": 256, "n": 256, "M": 256, "N": 256, "channels": 2},
        "L2: channels*depth*m*n*e = 1048576 > 524288",
    ),
    ({"ld_in": 1 << 20, "batch": 17}, "input bytes = 4559208704 > 4294967296"),
    ({"ld_out": 1 << 20, "batch": 17}, "output bytes = 4559208704 > 4294967296"),
]  # fmt: skip


@pytest.mark.parametrize("changes, message", LIMITS, ids=[message for _, message in LIMITS])
def test_broken_limits_are_named(changes: dict[str, Any], message: str) -> None:
    assert GOOD.violations() == []
    broken = replace(GOOD, **changes)
    assert message in broken.violations()
    with pytest.raises(PlanError) as caught:
        broken.check()
    assert message in str(caught.value)


def test_at_the_limits() -> None:
    """One less than each limit is legal."""
    for plan in (
        replace(GOOD, M=64 * 16, tasks=1),
        replace(GOOD, N=64 * 16, tasks=1, order="cols"),
        replace(GOOD, m=32, n=124, M=64, N=124),  # 15,872 B: four buffers and the stack fit
        replace(GOOD, m=64, n=64, depth=1),
        replace(GOOD, m=4, n=1020, N=1020, elem_bytes=1),
        replace(GOOD, m=1020, n=4, M=1020, elem_bytes=4, depth=1),
        replace(GOOD, ld_in=1 << 16, tasks=1),
        replace(GOOD, ld_in=1 << 20, M=16, m=16),
        replace(GOOD, s=1, m=512, n=1, M=512, elem_bytes=4),
        replace(GOOD, columns=4, channels=2, in_flight=4),
        replace(GOOD, device="npu2", columns=8),
        replace(GOOD, batch=2, batch_stride_out=4096),
    ):
        assert plan.violations() == [], plan


def fits_the_device(plan: TransposePlan) -> bool:
    """Legality from the hardware's side: every descriptor's fields, every memory, every queue.

    Knows the transfers a plan makes, not the formulas of its limits.
    """
    e = plan.elem_bytes
    kernel = e % 4 == 0 if plan.s == 1 else plan.s in (4, 8) and e in (1, 2, 4, 8)
    divides = not (plan.m % plan.s or plan.n % plan.s or plan.M % plan.m or plan.N % plan.n)
    if not (kernel and divides):
        return False
    tasks = [plan.tasks_of(*worker) for worker in plan.workers()]
    boxes = [box for boxes in tasks for box in boxes[:10] + boxes[-10:]]  # the others are alike
    return (
        tile_fits(plan)
        and plan.columns <= DEVICES[plan.device].columns
        and plan.channels <= 2
        and plan.in_flight <= 4
        and plan.row_pitch_in >= plan.N
        and plan.row_pitch_out >= plan.M
        and max(plan.size_in, plan.size_out) * e <= 1 << 32
        and all(shim_descriptor_fits(tap, e) for box in boxes for tap in plan._l3_taps(box))
        and writes_once(plan)
    )


def tile_fits(plan: TransposePlan) -> bool:
    """One tile in the memtile's descriptors and in the core's memory."""
    e, (sizes, strides) = plan.elem_bytes, plan.taps().into_l2[1:]
    lengths = [size * e for size in (*strides[:-1], sizes[-1])]
    return (
        all(length % 4 == 0 and length // 4 <= 1 << 17 for length in lengths)
        and max(*sizes, lengths[-1] // 4) <= 512
        and 2 * plan.depth * plan.tile_bytes + 1024 <= 64 * 1024
        and plan.tile_bytes // 4 < 1 << 14
        and 2 * plan.depth <= 16
    )


def shim_descriptor_fits(tap: Tap, elem_bytes: int) -> bool:
    if len(tap.sizes) != 4:
        return False
    (repeats, _, middle, inner), strides = tap.sizes, tap.strides
    used = [s for k, s in zip(tap.sizes[:-1], strides[:-1], strict=True) if k > 1]
    return (
        repeats <= 64
        and middle <= 1023
        and inner * elem_bytes % 4 == 0
        and inner * elem_bytes // 4 <= 1023
        and all(s * elem_bytes % 4 == 0 and s * elem_bytes // 4 <= 1 << 20 for s in used)
        and tap.offset * elem_bytes % 4 == 0
    )


def writes_once(plan: TransposePlan) -> bool:
    """Whether no two rows of the output meet: they are sorted, and compared with the next."""
    slabs = np.arange(plan.batch) * plan.slab_pitch_out
    starts = np.sort(np.add.outer(slabs, np.arange(plan.N) * plan.row_pitch_out).reshape(-1))
    return bool((np.diff(starts) >= plan.M).all())


def test_refusals_are_the_devices() -> None:
    """More than 2,000 illegal parameter sets are refused by name and number, and no legal one."""
    names = ("tile:", "kernel:", "granularity:", "L1:", "L2:", "shim", "memtile", "core", "columns",
             "channels", "queued tasks:", "iteration:", "output", "input", "ld_in=", "ld_out=",
             "elem_bytes=")  # fmt: skip
    refused = 0
    for plan in islice(spoilt_plans(seed=5), 3000):
        messages = plan.violations()
        assert bool(messages) != fits_the_device(plan), (plan, messages)
        refused += bool(messages)
        for message in messages:
            assert message.startswith(names), message
            assert any(character.isdigit() for character in message), message
        if messages:
            with pytest.raises(PlanError):
                plan.schedule()
    assert 2000 <= refused < 2950


# --- What the compiler accepts and gets wrong -----------------------------------------------------


def test_silent_mislowerings_are_out_of_reach() -> None:
    """The five of them, checked on the patterns themselves."""
    for plan in islice(small_plans(seed=4), 200):
        e, into_l2 = plan.elem_bytes, plan.taps().into_l2
        taps = [step.tap for step in transfers(plan)]
        for tap in (*taps, into_l2):
            # 2: always four dimensions, or the first size becomes a repeat count.
            assert len(tap.sizes) == len(tap.strides) == 4
            # 3: no inner stride; 1: whole words, and no zero strides.
            assert tap.strides[-1] == 1
            assert tap.sizes[-1] * e % 4 == 0
            assert all(stride > 0 and stride * e % 4 == 0 for stride in tap.strides[:-1])
            assert tap.offset * e % 4 == 0
        # 4: sizes and lengths that would encode as 0.
        assert max(into_l2.sizes) <= 512
        assert plan.tile_bytes // 4 < 131_072
        # 5: within the buffers, and a BD's length is that of its dimensions.
        for step in transfers(plan):
            size = plan.size_in if step.direction == "fill" else plan.size_out
            assert 0 <= step.tap.offset <= step.tap.last < size
        assert np.prod(into_l2.sizes) == plan.m * plan.n


# --- Choosing -------------------------------------------------------------------------------------


def test_the_choice_is_legal_fast_and_says_why() -> None:
    plan = TransposePlan.for_problem(4096, 4096, 4, device="npu2")
    assert plan.violations() == []
    assert (plan.columns, plan.channels) == (8, 2)
    assert "ms predicted" in plan.reason
    assert "next: tiles" in plan.reason
    assert plan.reason in plan.describe()
    seed = TransposePlan(4096, 4096, 64, 32, 8, 4, device="npu2")
    assert plan.predicted_seconds() < seed.predicted_seconds() / 4


@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8])
def test_choices_move_every_element(elem_bytes: int) -> None:
    rng = Random(elem_bytes)
    for _ in range(12):
        M, N = 4 * rng.randint(1, 30), 4 * rng.randint(1, 30)
        plan = TransposePlan.for_problem(M, N, elem_bytes, batch=rng.choice((1, 3)))
        assert all(plan.tasks_of(*worker) for worker in plan.workers())
        check_moves(plan)


def test_the_choice_is_the_best_of_all_tiles() -> None:
    best = TransposePlan.for_problem(96, 80, 2)
    assert (best.columns, best.channels) == (2, 2)
    others = [
        replace(best, m=m, n=n, s=s)
        for s in (4, 8)
        for m in range(s, 97, s)
        for n in range(s, 81, s)
        if 96 % m == 0 and 80 % n == 0
    ]
    legal = [plan for plan in others if not plan.violations()]
    assert len(legal) > 40
    assert best.predicted_seconds() == min(plan.predicted_seconds() for plan in legal)


def test_sizes_with_few_divisors() -> None:
    """1004 = 4 x 251: the tile is as wide or as tall as the matrix, never both."""
    plan = TransposePlan.for_problem(1004, 1004, 1)
    assert {plan.m, plan.n} == {4, 1004}
    check_moves(replace(plan, M=plan.m, N=2 * plan.n, columns=1, channels=1))


def test_shapes_without_a_tile_are_refused() -> None:
    with pytest.raises(PlanError, match="M=66 is not a multiple of m=4"):
        TransposePlan.for_problem(66, 64, 2)
    with pytest.raises(PlanError, match="elem_bytes=3"):
        TransposePlan.for_problem(64, 64, 3)


@pytest.mark.parametrize("M, N, elem_bytes", [(66, 35, 4), (9, 64, 8), (16, 16, 12), (1, 7, 64)])
def test_dma_transposes_what_the_kernel_cannot(M: int, N: int, elem_bytes: int) -> None:
    plan = TransposePlan.for_problem(M, N, elem_bytes)
    assert plan.s == 1
    check_moves(plan)


def test_one_array_serves_every_shape() -> None:
    plan = TransposePlan(1024, 64, 16, 16, 4, 2, device="npu2", columns=8, channels=2, batch=9)
    small = plan.representative()
    assert (small.M, small.N, small.batch) == (32, 128, 1)
    assert all(small.tasks_of(*worker) for worker in small.workers())
    assert small.taps().into_l2 == plan.taps().into_l2
    assert small.representative() == small


def test_description_has_the_patterns() -> None:
    text = TransposePlan(64, 32, 16, 16, 4, 4).describe()
    assert "64x32 -> 32x64, 4-byte elements" in text
    assert "l3_to_l2  [4, 2, 16, 16] / [512, 16, 32, 1]" in text
    assert "into_l2   [4, 4, 4, 4] / [4, 16, 64, 1]" in text
    assert "l1_to_l3  [4, 2, 16, 16] / [16, 1024, 64, 1]" in text
