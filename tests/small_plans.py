"""Seeded random plans small enough to move every element in a test."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from aie_design.plan import DEVICES, TransposePlan


def small_plans(seed: int) -> Iterator[TransposePlan]:
    """Endless legal plans of a few thousand elements, with everything a plan can say."""
    rng = Random(seed)
    while True:
        device = rng.choice(tuple(DEVICES))
        s = rng.choice((4, 8, 1))
        m, n = s * rng.randint(1, 4), s * rng.randint(1, 4)
        M, N = m * rng.randint(1, 5), n * rng.randint(1, 5)
        batch = rng.choice((1, 1, 2, 3, 7))
        ld_in, ld_out = N + 4 * rng.randint(0, 3), M + 4 * rng.randint(0, 3)
        apart = rng.random() < 0.5
        plan = TransposePlan(
            M,
            N,
            m,
            n,
            s,
            rng.choice((4, 8, 12) if s == 1 else (1, 2, 4, 8)),
            device=device,
            ld_in=rng.choice((None, ld_in)),
            ld_out=rng.choice((None, ld_out)),
            batch=batch,
            batch_stride_in=M * ld_in + 8 if apart else None,
            batch_stride_out=N * ld_out + 4 if apart else None,
            columns=rng.randint(1, DEVICES[device].columns),
            channels=rng.choice((1, 2)),
            order=rng.choice(("rows", "cols")),
            depth=rng.choice((1, 2)),
            tasks=rng.choice((None, 1, 2, 3)),
            in_flight=rng.randint(1, 4),
        )
        if not plan.violations():
            yield plan
