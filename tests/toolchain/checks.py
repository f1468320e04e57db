"""A lowered plan against the plan: every transfer of the sequence, every ring of descriptors."""

from __future__ import annotations

from aie_design import combined_transpose, frontend
from aie_design.plan import Finish, Tap, TransposePlan
from tests.toolchain import compiler
from tests.toolchain.registers import (
    Descriptor,
    Loop,
    Task,
    Wait,
    descriptors,
    events,
    joined,
    loops,
)


def lower(plan: TransposePlan) -> compiler.Lowered:
    """The plan's program, made with mlir-aie's own IRON, verified and lowered.

    Raises:
        compiler.CompilerError: the compiler refuses it.
    """
    module = combined_transpose.build(plan, frontend.load("iron"))
    assert module.operation.verify()
    return compiler.lower(str(module))


def check_sequence(plan: TransposePlan, lowered: compiler.Lowered) -> None:
    """Every transfer and every wait of the schedule, in order, and nothing else."""
    told = events(lowered.sequence)
    for step in plan.schedule():
        if isinstance(step, Finish):
            for drain in step.drains:
                assert next(told) == Wait(drain.column, "drain", drain.channel)
            continue
        task = next(told)
        assert isinstance(task, Task)
        assert (task.column, task.channel) == (step.column, step.channel)
        assert (task.direction, task.token) == (step.direction, step.direction == "drain")
        assert task.descriptor.bd == step.bd
        assert task.argument == (0 if step.direction == "fill" else 1)
        assert task.offset_bytes == step.tap.offset * plan.elem_bytes
        assert loops(task.descriptor, task.runs) == loops_of(step.tap, plan.elem_bytes)
    assert next(told, None) is None


def check_configuration(plan: TransposePlan, lowered: compiler.Lowered) -> None:
    """The descriptors of every memtile and core: a ring per channel, linear but for the way in.

    A core that acquires one tile at a time is never given more than two, whatever the depth.
    """
    found = descriptors(lowered.configuration)
    into_l2 = loops_of(plan.taps().into_l2, plan.elem_bytes)
    linear = [Loop(plan.tile_bytes // 4, 1)]
    linear = [loop for loop in linear if loop.count > 1]
    workers = len(plan.workers())
    for kind, first, depth in (
        ("memtile", into_l2, plan.depth),
        ("core", linear, min(plan.depth, 2)),
    ):
        rings = rings_of([d for d in found if d.kind == kind])
        assert len(rings) == 2 * workers
        assert all(len(ring) == depth for ring in rings)
        assert all(d.length == plan.tile_bytes // 4 for ring in rings for d in ring)
        patterns = sorted(loops(d) for ring in rings for d in ring)
        assert patterns == sorted([first, linear] * depth * workers)


def rings_of(found: list[Descriptor]) -> list[list[Descriptor]]:
    """Descriptors that follow one another for ever, ring by ring."""
    left = {(d.column, d.row, d.bd): d for d in found}
    rings = []
    while left:
        place, descriptor = next(iter(left.items()))
        ring = []
        while place in left:
            ring.append(descriptor := left.pop(place))
            assert descriptor.next is not None
            place = descriptor.column, descriptor.row, descriptor.next
        assert (place, len({d.address for d in ring})) == (
            (ring[0].column, ring[0].row, ring[0].bd),
            len(ring),
        )
        rings.append(ring)
    return rings


def loops_of(tap: Tap, elem_bytes: int) -> list[Loop]:
    """An access pattern in words, in the same form as `registers.loops`."""
    inner = Loop(tap.sizes[-1] * elem_bytes // 4, 1)
    outer = zip(tap.sizes[:-1], tap.strides[:-1], strict=True)
    return joined([*(Loop(size, stride * elem_bytes // 4) for size, stride in outer), inner])
