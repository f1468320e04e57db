"""Instruction words, executed: the same result as the program's own sequence, the same dangers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from aie_design import combined_transpose, frontend
from aie_design.instructions import Instructions, RawOperation, assemble, encode, sequence
from aie_design.operations import (
    AwaitTask,
    Direction,
    Operation,
    PatchAddress,
    PushTask,
    WriteDescriptor,
)
from aie_design.plan import TransposePlan
from hptp.errors import DeviceError, PlanError
from hptp.sim import Deadlock, HardwareLimit, run_program, run_words
from hptp.sim.lower import Design, RingChannel
from tests.small_plans import busy_plans, small_plans
from tests.unit.test_combined_transpose import bits, random_elements, slabs
from tests.unit.test_instructions import DESIGNS, LOWERED, name_of, plan_of, words_of

SIM = frontend.load("sim")
PLAN = TransposePlan(64, 32, 16, 16, 4, 4)
MOST_BYTES = 1 << 20  # of a recorded design to execute here; the larger ones run as programs


def program_of(plan: TransposePlan) -> Design:
    program = combined_transpose.build(plan.representative(), SIM)
    assert isinstance(program, Design)
    return program


def memories(plan: TransposePlan) -> tuple[Any, Any]:
    """Random bytes for the input and the output."""
    rng = np.random.default_rng(3)
    sizes = plan.size_in * plan.elem_bytes, plan.size_out * plan.elem_bytes
    source, target = (rng.integers(0, 256, size, np.uint8) for size in sizes)
    return source, target


# --- Agreement -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "design",
    [d for d in DESIGNS if d["M"] * d["N"] * 8 <= MOST_BYTES],
    ids=name_of,
)
def test_the_compilers_words_transpose(design: dict[str, Any]) -> None:
    """The words as the compiler emitted them, on the interpreted array."""
    plan = plan_of(design)
    source, target = memories(plan)
    run_words(words_of(design), program_of(plan), [source, target])
    expected = slabs(plan, source.view(f"V{plan.elem_bytes}")).transpose(0, 2, 1)
    assert bits(slabs(plan, target.view(f"V{plan.elem_bytes}"), output=True)) == bits(expected)


def check_words(plan: TransposePlan) -> Any:
    """Run the assembled words, compare with NumPy, and return (source, output before, after)."""
    source = random_elements(plan.size_in, plan.elem_bytes)
    target = random_elements(plan.size_out, plan.elem_bytes)
    before, expected = target.copy(), target.copy()
    slabs(plan, expected, output=True)[:] = slabs(plan, source).transpose(0, 2, 1)
    run_words(assemble(plan), program_of(plan), [source, target])
    assert bits(target) == bits(expected), plan
    return source, before, expected


def test_words_and_program_agree_with_numpy() -> None:
    """300 random plans, with everything that a plan can say among them."""
    seen: set[Any] = set()
    for plan in islice(busy_plans(seed=5), 300):
        source, target, expected = check_words(plan)
        run_program(combined_transpose.build(plan, SIM), [source, target])
        assert bits(target) == bits(expected), plan
        num_tasks = len(plan.tasks_of(0, 0))
        seen |= {("bytes", plan.elem_bytes), ("s", plan.s), ("device", plan.device)}
        seen |= {("columns", plan.columns > 1), ("channels", plan.channels), ("order", plan.order)}
        seen |= {("batch", plan.batch > 1), ("tasks", num_tasks > 1), ("depth", plan.depth)}
        seen |= {("input", plan.row_pitch_in > plan.N), ("output", plan.row_pitch_out > plan.M)}
    assert len(seen) == 5 + 3 + 9 * 2  # each of these with each of its values


def test_words_leave_workers_idle() -> None:
    """What no program of its own can be built for: shapes with fewer tiles than workers."""
    plans = (p for p in small_plans(seed=8) if not all(p.tasks_of(*w) for w in p.workers()))
    for plan in islice(plans, 60):
        check_words(plan)


def test_the_programs_own_sequence_is_the_assembled_one() -> None:
    for plan in islice(busy_plans(seed=6), 30):
        assert combined_transpose.build(plan, SIM).operations == tuple(sequence(plan)), plan


def test_one_array_serves_every_shape() -> None:
    """The program is built for one shape and runs the words of others."""
    program = program_of(PLAN)
    for plan in (PLAN, replace(PLAN, M=128, N=16), replace(PLAN, batch=3, ld_in=48, order="cols")):
        source, target = memories(plan)
        run_words(assemble(plan), program, [source, target])
        expected = target.copy()
        run_program(combined_transpose.build(plan, SIM), [source, expected])
        assert target.tobytes() == expected.tobytes()


# --- Descriptors in the array ----------------------------------------------------------------


def recorded_fields(ring: RingChannel) -> dict[str, Any]:
    """A ring's descriptor as lowered.json writes it, without the numbers of its BDs."""
    *outer, last = ring.descriptor.dims
    fields: dict[str, Any] = {"col": ring.tile.col, "length": ring.descriptor.length}
    if ring.tile.row > 1:
        fields["row"] = ring.tile.row
    fields |= {f"d{number}": list(dim) for number, dim in enumerate(outer)}
    return fields | {f"d{len(outer)}_step": last.step}


@pytest.mark.parametrize("design", LOWERED["designs"], ids=name_of)
def test_memtile_and_core_descriptors_equal_the_compilers(design: dict[str, Any]) -> None:
    """Both BDs of both directions; which numbers they get depends on the names of the fifos."""
    rings = list(program_of(plan_of(design)).rings())
    assert all(len(ring.bds) == 2 for ring in rings)
    for kind in ("memtile", "core"):
        recorded = [{k: v for k, v in bd.items() if k not in ("bd", "next")} for bd in design[kind]]
        ours = [recorded_fields(ring) for ring in rings if ring.tile.kind.name == kind] * 2
        assert sorted(map(str, map(sorted_items, ours))) == sorted(
            map(str, map(sorted_items, recorded))
        )


def sorted_items(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(fields.items())


# --- Streams that would go wrong -------------------------------------------------------------


def run_changed(change: Callable[[list[Operation]], Any], plan: TransposePlan = PLAN) -> None:
    """Run the stream of `plan` after `change` has had its way with the operations."""
    operations = list(sequence(plan))
    changed = change(operations)
    words = encode(Instructions(plan.device, plan.columns, tuple(changed or operations)))
    run_words(words, program_of(plan), list(memories(plan)))


def pick(operations: list[Operation], kind: type, number: int = 0) -> int:
    """The index of the `number`-th operation of a kind."""
    return [k for k, operation in enumerate(operations) if isinstance(operation, kind)][number]


def test_a_wait_too_many_is_a_deadlock() -> None:
    def change(operations: list[Operation]) -> None:
        operations.append(operations[-1])

    with pytest.raises(Deadlock, match="the runtime sequence waits for a token of shim 0 S2MM 0"):
        run_changed(change)


def test_a_missing_wait_is_reported() -> None:
    with pytest.raises(DeviceError, match="ends without waiting for the last drain"):
        run_changed(lambda operations: operations[:-1])


def test_a_missing_fill_is_a_deadlock() -> None:
    def change(operations: list[Operation]) -> None:
        del operations[pick(operations, PushTask)]

    with pytest.raises(Deadlock, match=r"shim 0 MM2S 0 \(fifo 'in_0_0'\) waits for a task in its"):
        run_changed(change)


def test_a_shorter_drain_is_reported() -> None:
    def change(operations: list[Operation]) -> None:
        drain = pick(operations, PushTask, 1)
        operations[drain] = replace(operations[drain], runs=3)  # type: ignore[type-var]

    with pytest.raises(DeviceError, match="after the run"):
        run_changed(change)


def test_tasks_that_are_not_awaited_in_time_are_reported() -> None:
    """Eight tasks with nothing awaited in between, which no plan does: the fifth reuses a BD."""
    plan = replace(PLAN, M=128, tasks=8)

    def change(operations: list[Operation]) -> list[Operation]:
        waits = [o for o in operations if isinstance(o, AwaitTask)]
        return [o for o in operations if not isinstance(o, AwaitTask)] + waits

    run_changed(lambda operations: None, plan)
    with pytest.raises(HardwareLimit, match="BD 0 is overwritten while it is queued"):
        run_changed(change, plan)


def test_an_unpatched_descriptor_is_reported() -> None:
    def change(operations: list[Operation]) -> None:
        del operations[pick(operations, PatchAddress)]

    with pytest.raises(DeviceError, match="BD 0 is queued before it is written and patched"):
        run_changed(change)


def test_an_odd_address_is_reported() -> None:
    def change(operations: list[Operation]) -> None:
        operations[pick(operations, PatchAddress)] = PatchAddress(0, 0, 0, 2)

    with pytest.raises(HardwareLimit, match="the address is not a multiple of 4 B"):
        run_changed(change)


def test_memory_outside_the_arguments_is_not_touched() -> None:
    def change(operations: list[Operation]) -> None:
        operations[pick(operations, PatchAddress, 1)] = PatchAddress(0, 1, 1, 4)

    with pytest.raises(DeviceError, match="reaches word 2048 of argument 1, which has 2048"):
        run_changed(change)


def test_a_missing_argument_is_reported() -> None:
    def change(operations: list[Operation]) -> None:
        operations[pick(operations, PatchAddress)] = PatchAddress(0, 0, 2, 0)

    with pytest.raises(DeviceError, match="there are only 2 arguments"):
        run_changed(change)


def test_channels_the_program_does_not_use_are_refused() -> None:
    with pytest.raises(PlanError, match="S2MM 1: wait for a token: no fifo of the program uses"):
        run_changed(lambda operations: [AwaitTask(0, Direction.S2MM, 1)])
    with pytest.raises(PlanError, match="shim 3 is not on a device of 1 column"):
        run_changed(lambda operations: [AwaitTask(3, Direction.S2MM, 0)])


def test_operations_that_mean_nothing_here_are_refused() -> None:
    with pytest.raises(PlanError, match="cannot execute: shim 0 lock 0 = 0x00000001"):
        run_changed(lambda operations: [RawOperation((0, 0, 0x14000, 0, 1, 24))])


def test_words_for_another_device_are_refused() -> None:
    words = assemble(replace(PLAN, device="npu2"))
    with pytest.raises(PlanError, match=r"for 1 column\(s\) of npu2, the program for 1 of npu"):
        run_words(words, program_of(PLAN), list(memories(PLAN)))


def test_the_iteration_counter_starts_again_when_a_descriptor_is_written() -> None:
    """A BD pushed twice without being written goes on where it was; after 4 of 4 runs that is 0."""
    seen: list[bytes] = []

    def run(operations: list[Operation]) -> bytes:
        source, target = memories(PLAN)
        words = encode(Instructions("npu", 1, tuple(operations)))
        run_words(words, program_of(PLAN), [source, target])
        return bytes(target)

    operations = list(sequence(PLAN))
    fill, drain = pick(operations, PushTask), pick(operations, PushTask, 1)
    halves = [
        replace(operation, runs=2) if isinstance(operation, PushTask) else operation
        for operation in operations
    ]
    again = [halves[fill], halves[drain], halves[-1]]
    seen += [run(operations), run(halves + again)]
    assert seen[0] == seen[1]
    rewritten = [o for o in halves if isinstance(o, WriteDescriptor | PatchAddress)]
    assert run(halves + rewritten + again) != seen[0]
