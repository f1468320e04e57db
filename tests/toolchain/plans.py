"""Seeded random plans that reach into every corner of what a plan can say."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from aie_design.plan import DEVICES, TransposePlan

MAX_TRANSFERS = 64  # of one plan: enough to wrap the queues and descriptors, quick to compile


def legal_plans(seed: int) -> Iterator[TransposePlan]:
    """Endless plans that break no limit and have work for every worker.

    No data is moved, so the matrices may be huge.
    """
    rng = Random(seed)
    while True:
        plan = _plan(rng)
        if plan.violations():
            continue
        tasks = [len(plan.tasks_of(*worker)) for worker in plan.workers()]
        if all(tasks) and 2 * sum(tasks) <= MAX_TRANSFERS:
            yield plan


def refused_plans(seed: int) -> Iterator[TransposePlan]:
    """Endless plans that break a limit, each a random one with one or two values spoilt."""
    rng = Random(seed)
    while True:
        plan = _spoilt(_plan(rng), rng)
        if plan.violations():
            yield plan


def _plan(rng: Random) -> TransposePlan:
    device = rng.choice(tuple(DEVICES))
    s = rng.choice((4, 4, 8, 8, 1))
    elem_bytes = rng.choice((4, 8, 12, 16, 64) if s == 1 else (1, 2, 4, 8))
    depth = rng.choice((1, 2, 2, 2, 3))
    # The area of the tile, then its shape: square, flat or tall.
    area = rng.randint(1, max(1, 64_512 // (2 * depth * elem_bytes * s * s)))
    m = s * rng.randint(1, area)
    n = s * max(1, area * s // m)
    M = m * _count(rng)
    N = n * _count(rng)
    batch = rng.choice((1, 1, 1, 2, 3, 5))
    word = max(1, 4 // elem_bytes)
    ld_in = rng.choice((None, N, N + word * rng.randint(1, 40)))
    ld_out = rng.choice((None, M, M + word * rng.randint(1, 40)))
    gap_in, gap_out = (rng.choice((None, word * rng.randint(0, 300))) for _ in range(2))
    columns = rng.choice((1, 1, 2, DEVICES[device].columns, rng.randint(1, 8)))
    return TransposePlan(
        M,
        N,
        m,
        n,
        s,
        elem_bytes,
        device=device,
        ld_in=ld_in,
        ld_out=ld_out,
        batch=batch,
        batch_stride_in=None if gap_in is None else M * (ld_in or N) + gap_in,
        batch_stride_out=None if gap_out is None else N * (ld_out or M) + gap_out,
        columns=columns,
        channels=rng.choice((1, 2)),
        order=rng.choice(("rows", "cols")),
        depth=depth,
        tasks=rng.choice((None, None, 1, 2, 3, rng.randint(1, 9))),
        in_flight=rng.randint(1, 4),
    )


def _count(rng: Random) -> int:
    """How many tiles: one, a few, or about as many as one BD can iterate over."""
    return rng.choice((1, rng.randint(2, 6), rng.randint(2, 6), rng.randint(60, 200)))


def _spoilt(plan: TransposePlan, rng: Random) -> TransposePlan:
    values = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    changes = (
        lambda: {"s": rng.choice((2, 3, 16))},
        lambda: {"M": plan.M + rng.randint(1, plan.m)},
        lambda: {"N": plan.N + rng.randint(1, plan.n)},
        lambda: {"m": plan.m * rng.choice((2, 4, 16))},
        lambda: {"n": plan.n * rng.choice((2, 4, 16))},
        lambda: {"n": plan.n + rng.randint(1, 3)},
        lambda: {"depth": rng.randint(4, 30)},
        lambda: {"ld_in": plan.N + rng.randint(1, 3)},
        lambda: {"ld_in": rng.randint(1, plan.N)},
        lambda: {"ld_out": plan.M + (1 << 22)},
        lambda: {"batch": 3, "batch_stride_out": rng.randint(1, plan.M * plan.N)},
        lambda: {"columns": DEVICES[plan.device].columns + rng.randint(1, 4)},
        lambda: {"channels": 3},
        lambda: {"in_flight": rng.randint(5, 12)},
        lambda: {"tasks": 1, "M": plan.m * rng.randint(65, 300)},
        lambda: {"elem_bytes": 1, "s": 2},
    )
    for change in rng.sample(changes, rng.choice((1, 1, 2))):
        values.update(change())
    return TransposePlan(**values)
