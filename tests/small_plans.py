"""Seeded random plans small enough to move every element in a test, and what spoils them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

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


def busy_plans(seed: int) -> Iterator[TransposePlan]:
    """Those of them that give every worker something to do, as an array's own program must."""
    for plan in small_plans(seed):
        if all(plan.tasks_of(*worker) for worker in plan.workers()):
            yield plan


def spoilt_plans(seed: int) -> Iterator[TransposePlan]:
    """Endless small plans with one to three values replaced; most of them are illegal."""
    rng = Random(seed)
    for plan in small_plans(seed):
        big = rng.choice((1 << 17, 1 << 18, (1 << 20) - 4, 1 << 20, (1 << 20) + 4, 1 << 22))
        near = rng.choice((60, 64, 65, 120))
        changes: list[dict[str, Any]] = [
            {"s": rng.choice((2, 3, 4, 8, 12, 16))},
            {"elem_bytes": rng.choice((1, 2, 3, 4, 6, 8, 16))},
            {"M": plan.M + rng.randint(1, 3)},
            {"N": plan.N + rng.randint(1, plan.n)},
            {"m": plan.m + rng.randint(1, 8)},
            {"n": plan.n * rng.choice((2, 3)), "N": plan.N * rng.choice((2, 3))},
            {"m": plan.m * 32, "M": plan.m * 32 * rng.randint(1, 2)},
            {"m": 8 * near, "M": 16 * near, "n": 8, "N": 16, "s": 8},
            {"n": 8 * near, "N": 16 * near, "m": 8, "M": 16, "s": 8},
            {"M": plan.m * near, "tasks": rng.choice((None, 1, 2))},
            {"N": plan.n * near, "tasks": rng.choice((None, 1, 2))},
            {"batch": near, "tasks": rng.choice((None, 1, 2))},
            {"ld_in": rng.choice((plan.N - 1, plan.N + 1, plan.N + 2, plan.N + 4, big))},
            {"ld_out": rng.choice((plan.M - 4, plan.M + 1, plan.M + 2, plan.M + 4, big))},
            {"batch": 3, "batch_stride_in": rng.choice((1, 4, plan.N, big, 4 * big))},
            {"batch": 3, "batch_stride_out": rng.choice((1, plan.M, plan.M * plan.N, big))},
            {"columns": rng.randint(1, 9), "channels": rng.randint(1, 3)},
            {"depth": rng.randint(1, 14)},
            {"in_flight": rng.randint(1, 5)},
            {"batch": 3000, "batch_stride_in": 1 << 19},
        ]
        for change in rng.sample(changes, rng.randint(1, 3)):
            plan = replace(plan, **change)
        yield plan
