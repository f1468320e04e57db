"""The interpreter runs any program made of its pieces, and tells what is wrong with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hptp.errors import DeviceError, PlanError
from hptp.sim import Deadlock, HardwareLimit, run_program
from hptp.sim.iron import (
    NPU1,
    Kernel,
    NPU1Col1,
    NPU1Col2,
    ObjectFifo,
    Program,
    Runtime,
    TensorAccessPattern,
    Tile,
    Worker,
    range_,
)

i16, i32 = np.dtype[np.int16], np.dtype[np.int32]
line = np.ndarray[(16,), i32]
Array = np.ndarray[Any, Any]


def data(size: int, dtype: Any = np.int32) -> Array:
    return np.arange(1, size + 1, dtype=dtype)


def copy_line(fifo_in: Any, fifo_out: Any) -> None:
    source, target = fifo_in.acquire(1), fifo_out.acquire(1)
    for i in range_(16):
        target[i] = source[i]
    fifo_in.release(1)
    fifo_out.release(1)


def through_a_worker(core_fn: Callable[..., None], length: int, **options: Any) -> Any:
    """One worker between the host's input and output of `length` elements, in lines of 16."""
    fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    worker = Worker(core_fn, [fifo_in.cons(), fifo_out.prod()], **options)
    rt = Runtime()
    with rt.sequence(np.ndarray[(length,), i32], np.ndarray[(length,), i32]) as (a, b):
        rt.start(worker)
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    return Program(NPU1Col1(), rt).resolve_program()


# --- Programs that work ----------------------------------------------------------------------


def test_passthrough_without_a_worker() -> None:
    fifo_in, rt = ObjectFifo(line, name="in"), Runtime()
    fifo_out = fifo_in.cons().forward(name="out")
    with rt.sequence(np.ndarray[(4096,), i32], np.ndarray[(4096,), i32]) as (a, b):
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    program = Program(NPU1Col1(), rt).resolve_program()
    source, target = data(4096), np.zeros(4096, np.int32)
    run_program(program, [source, target])
    assert target.tolist() == source.tolist()


def test_vector_scalar_add() -> None:
    """A worker that computes, with a second input that it keeps for the whole run."""
    fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    scalar = np.ndarray[(1,), i32]
    fifo_scalar = ObjectFifo(scalar, name="scalar")

    def add(lines: Any, results: Any, scalars: Any) -> None:
        summand = scalars.acquire(1)
        for _ in range_(4):
            source, target = lines.acquire(1), results.acquire(1)
            for i in range_(16):
                target[i] = source[i] + summand[0]
            lines.release(1)
            results.release(1)
        scalars.release(1)

    worker = Worker(add, [fifo_in.cons(), fifo_out.prod(), fifo_scalar.cons()])
    rt = Runtime()
    vector = np.ndarray[(64,), i32]
    with rt.sequence(vector, scalar, vector) as (a, b, c):
        rt.start(worker)
        rt.fill(fifo_in.prod(), a)
        rt.fill(fifo_scalar.prod(), b)
        rt.drain(fifo_out.cons(), c, wait=True)
    program = Program(NPU1Col1(), rt).resolve_program()
    result = np.zeros(64, np.int32)
    for summand in (5, -7):
        run_program(program, [data(64), np.array([summand], np.int32), result])
        assert result.tolist() == (data(64) + summand).tolist()


def test_two_columns() -> None:
    """Two workers in two columns, each with its half of the data, in one task group."""
    rt, ends, workers = Runtime(), [], []
    for col in range(2):
        fifo_in = ObjectFifo(line, name=f"in_{col}")
        tiles = fifo_in.cons().forward(name=f"tiles_{col}", tile=Tile(col, 1))
        fifo_out = ObjectFifo(line, name=f"out_{col}")
        workers.append(Worker(copy_line, [tiles.cons(), fifo_out.prod()], tile=Tile(col, 3)))
        ends.append((fifo_in.prod(), fifo_out.cons(), Tile(col, 0)))
    with rt.sequence(np.ndarray[(128,), i32], np.ndarray[(128,), i32]) as (a, b):
        rt.start(*workers)
        group = rt.task_group()
        for col, (producer, consumer, shim) in enumerate(ends):
            half = TensorAccessPattern((128,), 64 * col, [1, 1, 1, 64], [0, 0, 0, 1])
            other_half = TensorAccessPattern((128,), 64 * (1 - col), [1, 1, 1, 64], [0, 0, 0, 1])
            rt.fill(producer, a, half, group, tile=shim)
            rt.drain(consumer, b, other_half, group, wait=True, tile=shim)
        rt.finish_task_group(group)
    program = Program(NPU1Col2(), rt).resolve_program()
    assert [core.tile for core in program.cores] == [Tile(0, 3), Tile(1, 3)]
    result = np.zeros(128, np.int32)
    run_program(program, [data(128), result])
    assert result.tolist() == [*range(65, 129), *range(1, 65)]


@pytest.mark.parametrize(
    ("tiles", "home"),
    [
        ((Tile(0, 2), Tile(0, 3)), Tile(0, 2)),
        ((Tile(0, 3), Tile(1, 3)), Tile(0, 3)),
        ((Tile(1, 3), Tile(0, 3)), Tile(0, 3)),
        ((Tile(0, 2), Tile(0, 5)), None),
    ],
    ids=["above", "east", "west", "far apart"],
)
def test_a_pipeline_of_two_workers(tiles: tuple[Tile, Tile], home: Tile | None) -> None:
    """Neighbours pass objects in the memory of one, others by DMA; the result is the same."""

    def double(fifo_in: Any, fifo_out: Any) -> None:
        source, target = fifo_in.acquire(1), fifo_out.acquire(1)
        target[:] = source * 2
        fifo_in.release(1)
        fifo_out.release(1)

    names = ("in", "middle", "out")
    fifo_in, middle, fifo_out = (ObjectFifo(line, name=name) for name in names)
    first = Worker(double, [fifo_in.cons(), middle.prod()], tile=tiles[0])
    second = Worker(double, [middle.cons(), fifo_out.prod()], tile=tiles[1])
    rt = Runtime()
    with rt.sequence(np.ndarray[(64,), i32], np.ndarray[(64,), i32]) as (a, b):
        rt.start(first, second)
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    program = Program(NPU1Col2(), rt).resolve_program()
    homes = [pool.tile for pool in program.pools if pool.fifo == "middle"]
    assert homes == ([home] if home else list(tiles))
    result = np.zeros(64, np.int32)
    run_program(program, [data(64), result])
    assert result.tolist() == (data(64) * 4).tolist()


def test_broadcast_reaches_every_consumer() -> None:
    rt, fifo_in = Runtime(), ObjectFifo(line, name="in")
    outputs = [ObjectFifo(line, name=f"out_{k}") for k in range(2)]
    workers = [Worker(copy_line, [fifo_in.cons(), fifo.prod()]) for fifo in outputs]
    vector = np.ndarray[(48,), i32]
    with rt.sequence(vector, vector, vector) as (a, *results):
        rt.start(*workers)
        rt.fill(fifo_in.prod(), a)
        for fifo, result in zip(outputs, results, strict=True):
            rt.drain(fifo.cons(), result, wait=True)
    arrays = [data(48), np.zeros(48, np.int32), np.zeros(48, np.int32)]
    run_program(Program(NPU1Col1(), rt).resolve_program(), arrays)
    assert arrays[1].tolist() == arrays[2].tolist() == data(48).tolist()


def test_layouts_change_on_the_way_in_and_out_of_a_memtile() -> None:
    """A 4×8 object is written transposed, and read back in its old order."""
    tile = np.ndarray[(4, 8), i32]
    transposed, back = [(4, 1), (8, 4)], [(4, 1), (8, 4)]
    vector = np.ndarray[(64,), i32]
    for dims_out, expected in (
        (None, [*data(64).reshape(2, 4, 8).transpose(0, 2, 1).ravel()]),
        (back, [*data(64)]),
    ):
        rt, fifo_in = Runtime(), ObjectFifo(tile, name="in")
        fifo_out = fifo_in.cons(dims_from_stream=transposed).forward(
            name="out", dims_to_stream=dims_out
        )
        with rt.sequence(vector, vector) as (a, b):
            rt.fill(fifo_in.prod(), a)
            rt.drain(fifo_out.cons(), b, wait=True)
        result = np.zeros(64, np.int32)
        run_program(Program(NPU1Col1(), rt).resolve_program(), [data(64), result])
        assert result.tolist() == expected


def test_several_objects_are_held_at_once() -> None:
    """A sliding window: two objects acquired, one released."""

    def sums(fifo_in: Any, fifo_out: Any) -> None:
        for _ in range_(3):
            older, newer = fifo_in.acquire(2)
            fifo_out.acquire(1)[:] = older + newer
            fifo_out.release(1)
            fifo_in.release(1)
        fifo_in.release(1)

    fifo_in, fifo_out = ObjectFifo(line, depth=3, name="in"), ObjectFifo(line, name="out")
    worker = Worker(sums, [fifo_in.cons(), fifo_out.prod()])
    rt = Runtime()
    with rt.sequence(np.ndarray[(64,), i32], np.ndarray[(48,), i32]) as (a, b):
        rt.start(worker)
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    result = np.zeros(48, np.int32)
    run_program(Program(NPU1Col1(), rt).resolve_program(), [data(64), result])
    assert result.tolist() == (data(64)[:48] + data(64)[16:]).tolist()


def test_tasks_in_turn_reuse_descriptors() -> None:
    """Twenty fills and drains, each awaited: more than a shim has BDs."""
    fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    worker = Worker(copy_line, [fifo_in.cons(), fifo_out.prod()])
    rt, producer = Runtime(), fifo_in.prod()
    with rt.sequence(np.ndarray[(320,), i32], np.ndarray[(320,), i32]) as (a, b):
        rt.start(worker)
        for k in range(20):
            tap = TensorAccessPattern((320,), 16 * k, [1, 1, 1, 16], [0, 0, 0, 1])
            group = rt.task_group()
            rt.fill(producer, a, tap, group)
            rt.drain(fifo_out.cons(), b, tap, group, wait=True)
            rt.finish_task_group(group)
    result = np.zeros(320, np.int32)
    run_program(Program(NPU1Col1(), rt).resolve_program(), [data(320), result])
    assert result.tolist() == data(320).tolist()


def test_a_repeat_without_a_stride_sends_the_same_data_again() -> None:
    fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    worker = Worker(copy_line, [fifo_in.cons(), fifo_out.prod()])
    rt = Runtime()
    with rt.sequence(np.ndarray[(16,), i32], np.ndarray[(48,), i32]) as (a, b):
        rt.start(worker)
        rt.fill(fifo_in.prod(), a, TensorAccessPattern((16,), 0, [3, 1, 1, 16], [0, 0, 0, 1]))
        rt.drain(fifo_out.cons(), b, wait=True)
    result = np.zeros(48, np.int32)
    run_program(Program(NPU1Col1(), rt).resolve_program(), [data(16), result])
    assert result.tolist() == [*data(16)] * 3


def test_every_object_a_worker_produces_can_be_observed() -> None:
    seen: list[tuple[str, int, list[int]]] = []
    program = through_a_worker(copy_line, 48)
    run_program(
        program,
        [data(48), np.zeros(48, np.int32)],
        observe=lambda fifo, number, array: seen.append((fifo, number, array.tolist())),
    )
    assert seen == [("out", k, [*range(16 * k + 1, 16 * k + 17)]) for k in range(3)]


def test_memory_on_a_core_is_not_cleared() -> None:
    def forget_to_write(fifo_in: Any, fifo_out: Any) -> None:
        fifo_in.acquire(1)
        fifo_in.release(1)
        fifo_out.acquire(1)
        fifo_out.release(1)

    result = np.zeros(16, np.int32)
    run_program(through_a_worker(forget_to_write, 16), [data(16), result])
    assert set(result.view(np.uint8)) == {0xA5}


def test_a_program_is_printable() -> None:
    text = str(through_a_worker(copy_line, 32))
    assert "fifo 'in': shim 0 MM2S 0 -> core (0, 2) S2MM 0" in text
    assert "core (0, 2): 2 × 64 B for fifo 'out'" in text
    assert "shim 0 S2MM 0: wait for a token" in text


# --- Deadlocks -------------------------------------------------------------------------------


def test_acquiring_more_than_arrives_is_a_deadlock_with_names() -> None:
    def two_for_one(fifo_in: Any, fifo_out: Any) -> None:
        for _ in range_(2):
            fifo_in.acquire(1)
            fifo_in.release(1)
        fifo_out.acquire(1)
        fifo_out.release(1)

    with pytest.raises(Deadlock) as caught:
        run_program(through_a_worker(two_for_one, 48), [data(48), np.zeros(48, np.int32)])
    report = str(caught.value)
    assert "the runtime sequence waits for a token of shim 0 S2MM 0 (fifo 'out')" in report
    assert "the worker of 'in', 'out', waits for a full buffer of fifo 'in'" in report
    assert "(fifo 'out') waits for 32 words to come into argument 1 by BD 1" in report
    assert "shim 0 MM2S 0 (fifo 'in') waits for a task in its queue" in report


def fork_and_join(depth: int) -> Any:
    """One branch sums three objects before it passes anything on, the other waits in a fifo."""

    def sum_of_three(fifo_in: Any, fifo_out: Any) -> None:
        total = np.zeros(16, np.int32)
        for _ in range_(3):
            total += fifo_in.acquire(1)
            fifo_in.release(1)
        fifo_out.acquire(1)[:] = total
        fifo_out.release(1)

    def subtract(totals: Any, objects: Any, fifo_out: Any) -> None:
        total = totals.acquire(1)
        for _ in range_(3):
            fifo_out.acquire(1)[:] = total - objects.acquire(1)
            objects.release(1)
            fifo_out.release(1)
        totals.release(1)

    names = ("in", "totals", "out")
    fifo_in, totals, fifo_out = (ObjectFifo(line, name=name) for name in names)
    first = Worker(sum_of_three, [fifo_in.cons(), totals.prod()])
    second = Worker(subtract, [totals.cons(), fifo_in.cons(depth), fifo_out.prod()])
    rt = Runtime()
    with rt.sequence(np.ndarray[(96,), i32], np.ndarray[(96,), i32]) as (a, b):
        rt.start(first, second)
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    return Program(NPU1Col1(), rt).resolve_program()


def test_a_fifo_shorter_than_the_other_branch_is_late_deadlocks() -> None:
    source, result = data(96), np.zeros(96, np.int32)
    run_program(fork_and_join(depth=3), [source, result])
    triples = source.reshape(2, 3, 16)
    assert result.tolist() == (triples.sum(1, keepdims=True) - triples).ravel().tolist()
    with pytest.raises(Deadlock) as caught:
        run_program(fork_and_join(depth=2), [source, result])
    report = str(caught.value)
    assert "core (0, 3) S2MM 0 (fifo 'in') waits for a free buffer of fifo 'in'" in report
    assert "core (0, 2) S2MM 0 (fifo 'in') waits for 16 words to come into" in report
    assert "the worker of 'totals', 'in', 'out', waits for a full buffer of fifo 'totals'" in report


def test_more_objects_are_acquired_than_a_fifo_has() -> None:
    def all_then_all(fifo_in: Any, fifo_out: Any) -> None:
        for source in fifo_in.acquire(4):
            fifo_out.acquire(1)[:] = source
            fifo_out.release(1)
        fifo_in.release(4)

    def program(depth: int) -> Any:
        fifo_in, fifo_out = ObjectFifo(line, depth, "in"), ObjectFifo(line, name="out")
        worker = Worker(all_then_all, [fifo_in.cons(), fifo_out.prod()])
        rt = Runtime()
        with rt.sequence(np.ndarray[(128,), i32], np.ndarray[(128,), i32]) as (a, b):
            rt.start(worker)
            rt.fill(fifo_in.prod(), a)
            rt.drain(fifo_out.cons(), b, wait=True)
        return Program(NPU1Col1(), rt).resolve_program()

    result = np.zeros(128, np.int32)
    run_program(program(depth=4), [data(128), result])
    assert result.tolist() == data(128).tolist()
    with pytest.raises(PlanError, match=r"acquire\(4\) of a fifo of 2 objects"):
        run_program(program(depth=2), [data(128), result])


def test_waiting_for_the_input_before_the_output_is_drained_deadlocks() -> None:
    fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    worker = Worker(copy_line, [fifo_in.cons(), fifo_out.prod()])
    rt = Runtime()
    with rt.sequence(np.ndarray[(128,), i32], np.ndarray[(128,), i32]) as (a, b):
        rt.start(worker)
        for move, end, buffer in ((rt.fill, fifo_in.prod(), a), (rt.drain, fifo_out.cons(), b)):
            group = rt.task_group()
            move(end, buffer, task_group=group, wait=True)
            rt.finish_task_group(group)
    program = Program(NPU1Col1(), rt).resolve_program()
    with pytest.raises(Deadlock) as caught:
        run_program(program, [data(128), np.zeros(128, np.int32)])
    assert "the runtime sequence waits for a token of shim 0 MM2S 0 (fifo 'in')" in str(
        caught.value
    )
    assert "waits for a free buffer of fifo 'out' in core (0, 2), which has 2" in str(caught.value)


def test_two_runs_give_the_same_report() -> None:
    program = through_a_worker(lambda a, b: a.acquire(1), 64)
    reports = []
    for _ in range(2):
        with pytest.raises(Deadlock) as caught:
            run_program(program, [data(64), np.zeros(64, np.int32)])
        reports.append(str(caught.value))
    assert reports[0] == reports[1]


# --- Runs that would go wrong on the device --------------------------------------------------


def test_input_that_nobody_takes_is_reported() -> None:
    fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    worker = Worker(copy_line, [fifo_in.cons(), fifo_out.prod()])
    rt = Runtime()
    with rt.sequence(np.ndarray[(64,), i32], np.ndarray[(16,), i32]) as (a, b):
        rt.start(worker)
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    program = Program(NPU1Col1(), rt).resolve_program()
    with pytest.raises(DeviceError, match=r"still has input nobody has taken|left in fifo"):
        run_program(program, [data(64), np.zeros(16, np.int32)])


def test_half_an_object_is_reported() -> None:
    fifo_in, rt = ObjectFifo(line, name="in"), Runtime()
    fifo_out = fifo_in.cons().forward(name="out")
    with rt.sequence(np.ndarray[(24,), i32], np.ndarray[(16,), i32]) as (a, b):
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    program = Program(NPU1Col1(), rt).resolve_program()
    with pytest.raises(DeviceError, match="cut short: 8 words to come into an object of fifo 'in'"):
        run_program(program, [data(24), np.zeros(16, np.int32)])


def test_a_drain_nobody_waits_for_is_reported() -> None:
    fifo_in, rt = ObjectFifo(line, name="in"), Runtime()
    fifo_out = fifo_in.cons().forward(name="out")
    with rt.sequence(line, line) as (a, b):
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b)
    program = Program(NPU1Col1(), rt).resolve_program()
    with pytest.raises(DeviceError, match=r"without waiting for the last drain by shim 0 S2MM 0"):
        run_program(program, [data(16), np.zeros(16, np.int32)])


def passthrough_of(tap: TensorAccessPattern, count: int = 1, wait: bool = True) -> Any:
    """`count` fills with `tap` at once, through a memtile."""
    fifo_in, rt = ObjectFifo(line, name="in"), Runtime()
    fifo_out = fifo_in.cons().forward(name="out")
    with rt.sequence(np.ndarray[(64,), i32], np.ndarray[(64,), i32]) as (a, b):
        for _ in range(count):
            rt.fill(fifo_in.prod(), a, tap)
        rt.drain(fifo_out.cons(), b, wait=wait)
    return Program(NPU1Col1(), rt).resolve_program()


def test_a_fifth_task_in_a_queue_is_reported() -> None:
    tap = TensorAccessPattern((64,), 0, [1, 1, 1, 16], [0, 0, 0, 1])
    run_program(passthrough_of(tap, 4), [data(64), np.zeros(64, np.int32)])
    with pytest.raises(HardwareLimit, match="a task is pushed while 4 are queued"):
        run_program(passthrough_of(tap, 5), [data(64), np.zeros(64, np.int32)])


def test_a_descriptor_in_use_is_not_overwritten() -> None:
    """A group of fills alone can be finished, which frees its BD, while the fill still runs."""
    fifo_in, rt = ObjectFifo(line, name="in"), Runtime()
    fifo_out = fifo_in.cons().forward(name="out")
    with rt.sequence(np.ndarray[(64,), i32], np.ndarray[(64,), i32]) as (a, b):
        group = rt.task_group()
        rt.fill(fifo_in.prod(), a, task_group=group)
        rt.finish_task_group(group)
        group = rt.task_group()
        rt.drain(fifo_out.cons(), b, task_group=group, wait=True)
        rt.finish_task_group(group)
    program = Program(NPU1Col1(), rt).resolve_program()
    with pytest.raises(HardwareLimit, match="BD 0 is overwritten while it is queued"):
        run_program(program, [data(64), np.zeros(64, np.int32)])


def test_memory_outside_the_arguments_is_not_touched() -> None:
    tap = TensorAccessPattern((64,), 0, [1, 1, 4, 16], [0, 0, 32, 1])
    with pytest.raises(DeviceError, match="reaches word 111 of argument 0, which has 64"):
        run_program(passthrough_of(tap), [data(64), np.zeros(64, np.int32)])


def test_arguments_are_checked() -> None:
    program = through_a_worker(copy_line, 16)
    result = np.zeros(16, np.int32)
    with pytest.raises(DeviceError, match="2 buffers, 1 were given"):
        run_program(program, [result])
    with pytest.raises(DeviceError, match="argument 0 is not C-contiguous"):
        run_program(program, [data(32)[::2], result])
    result.flags.writeable = False
    with pytest.raises(DeviceError, match="argument 1 is read-only"):
        run_program(program, [data(16), result])


def test_an_error_in_a_worker_comes_out() -> None:
    def fail(fifo_in: Any, fifo_out: Any) -> None:
        fifo_in.acquire(1)
        raise ZeroDivisionError("in the core function")

    with pytest.raises(ZeroDivisionError, match="in the core function"):
        run_program(through_a_worker(fail, 16), [data(16), np.zeros(16, np.int32)])


def test_releasing_what_is_not_held_is_refused() -> None:
    with pytest.raises(PlanError, match=r"release\(1\) with 0 objects acquired"):
        run_program(
            through_a_worker(lambda a, b: a.release(1), 16), [data(16), np.zeros(16, np.int32)]
        )


# --- Programs that IRON or its compiler would refuse -----------------------------------------


def test_fifos_need_both_ends() -> None:
    rt, fifo = Runtime(), ObjectFifo(line, name="in")
    with rt.sequence(line) as a:
        rt.fill(fifo.prod(), a)
    with pytest.raises(PlanError, match="fifo 'in' has no consumer"):
        Program(NPU1Col1(), rt).resolve_program()
    fifo.cons()
    with pytest.raises(PlanError, match=r"fifo 'in'\.cons is used by nobody"):
        Program(NPU1Col1(), rt).resolve_program()


def test_workers_must_be_started() -> None:
    rt, fifo_in, fifo_out = Runtime(), ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
    Worker(copy_line, [fifo_in.cons(), fifo_out.prod()])
    with rt.sequence(line, line) as (a, b):
        rt.fill(fifo_in.prod(), a)
        rt.drain(fifo_out.cons(), b, wait=True)
    with pytest.raises(PlanError, match="the worker of 'in', 'out' is never started"):
        Program(NPU1Col1(), rt).resolve_program()


def test_misuse_of_handles_and_kernels_is_refused() -> None:
    rt, fifo = Runtime(), ObjectFifo(line, name="in")
    with pytest.raises(PlanError, match="give it a handle"):
        Worker(copy_line, [fifo])
    with pytest.raises(PlanError, match=r"fifo 'in'\.prod cannot be forwarded"):
        fifo.prod().forward()
    with pytest.raises(PlanError, match="can be acquired only by a worker"):
        fifo.prod().acquire(1)
    with pytest.raises(PlanError, match="can be released only by a worker"):
        fifo.prod().release(1)
    with pytest.raises(PlanError, match="'scale' can be called only by a worker"):
        Kernel("scale", "scale.o", [line])(1)
    with rt.sequence(line) as a:
        with pytest.raises(PlanError, match="cannot be filled"):
            rt.fill(fifo.cons(), a)
        with pytest.raises(PlanError, match="cannot be drained"):
            rt.drain(fifo.prod(), a)
        with pytest.raises(PlanError, match="has 2 dimensions; give 4"):
            rt.fill(fifo.prod(), a, TensorAccessPattern((16,), 0, [4, 4], [4, 1]))
    other = Runtime()
    with other.sequence(line) as b, pytest.raises(PlanError, match="not one of this sequence's"):
        rt.fill(fifo.prod(), b)
    Worker(copy_line, [fifo.prod()])
    with pytest.raises(PlanError, match="an end has one user"):
        Worker(copy_line, [fifo.prod()])
    with pytest.raises(PlanError, match="objects of 64 B, its forward 'in_fwd' of 32 B"):
        fifo.cons().forward(obj_type=np.ndarray[(16,), i16])


def test_types_and_patterns_are_checked() -> None:
    with pytest.raises(PlanError, match="no array type like"):
        ObjectFifo(np.int32)
    with pytest.raises(PlanError, match="uint64 becomes MLIR's index type"):
        ObjectFifo(np.ndarray[(16,), np.dtype[np.uint64]])
    with pytest.raises(PlanError, match="depth 0 is less than 1"):
        ObjectFifo(line, depth=0)
    with pytest.raises(PlanError, match="differ in length"):
        TensorAccessPattern((16,), 0, [4, 4], [1])
    with pytest.raises(PlanError, match="must be > 0"):
        TensorAccessPattern((16,), 0, [0, 4], [4, 1])
    with pytest.raises(PlanError, match="offset 16 is outside"):
        TensorAccessPattern((16,), 16, [4, 4], [4, 1])
    assert TensorAccessPattern((16,), 0, [1, 1, 2, 1], [9, 9, 9, 9]).strides == [0, 0, 9, 9]


def test_groups_are_checked() -> None:
    rt, fifo = Runtime(), ObjectFifo(line, name="in")
    with pytest.raises(PlanError, match="task groups 0 are never finished"), rt.sequence(line):
        rt.task_group()
    rt, fifo_out = Runtime(), fifo.cons().forward(name="out")
    with rt.sequence(line, line) as (a, b):
        group = rt.task_group()
        rt.fill(fifo.prod(), a, task_group=group)
        rt.drain(fifo_out.cons(), b, wait=True)
        rt.finish_task_group(group)
    with pytest.raises(PlanError, match="some moves are in task groups and some are not"):
        Program(NPU1Col1(), rt).resolve_program()


def test_placement_is_checked() -> None:
    def program(device: Any, **options: Any) -> Any:
        fifo_in, fifo_out = ObjectFifo(line, name="in"), ObjectFifo(line, name="out")
        worker = Worker(copy_line, [fifo_in.cons(), fifo_out.prod()], tile=options.get("core"))
        rt = Runtime()
        with rt.sequence(line, line) as (a, b):
            rt.start(*[worker] * options.get("starts", 1))
            rt.fill(fifo_in.prod(), a, tile=options.get("shim"))
            rt.drain(fifo_out.cons(), b, wait=True)
        return Program(device, rt).resolve_program()

    assert program(NPU1(), core=Tile(3, 5), shim=Tile(2, 0)).cores[0].tile == Tile(3, 5)
    with pytest.raises(PlanError, match=r"core \(1, 2\) is not on a device of 1 column"):
        program(NPU1Col1(), core=Tile(1, 2))
    with pytest.raises(PlanError, match="cannot run on memtile 0"):
        program(NPU1Col1(), core=Tile(0, 1))
    with pytest.raises(PlanError, match="by a shim tile, not memtile 0"):
        program(NPU1Col1(), shim=Tile(0, 1))
    with pytest.raises(PlanError, match="is started twice"):
        program(NPU1Col1(), starts=2)
