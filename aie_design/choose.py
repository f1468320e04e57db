"""Choosing a plan: of the tiles that fit, the one predicted to be fastest, with the reason.

The prediction (TransposePlan.predicted_seconds) orders the tiles; the work goes to as many columns
and channels as it divides among, in the order that needs fewer tasks.

    >>> plan = choose(4096, 4096, 4, device="npu2")
    >>> plan.m, plan.n, plan.columns, plan.channels
    (32, 64, 8, 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from aie_design.plan import DEVICES, TransposePlan

BLOCKS = (4, 8)
BANK_TILE_BYTES = 15_360  # a quarter of L1 less the stack: every buffer gets a bank of its own
LONGEST_RUN_BYTES = 1024  # longer runs than twice a full burst gain nothing


def choose(
    M: int,
    N: int,
    elem_bytes: int,
    *,
    device: str = "npu",
    ld_in: int | None = None,
    ld_out: int | None = None,
    batch: int = 1,
    batch_stride_in: int | None = None,
    batch_stride_out: int | None = None,
) -> TransposePlan:
    """The plan of least predicted time for `batch` M×N matrices; arguments as in TransposePlan.

    Returns:
        A legal plan without idle workers; its `reason` says what bounds it and what came next.

    Raises:
        PlanError: no tile divides the matrix, or its layout breaks a limit whatever the tile is.
    """
    smallest = TransposePlan(
        M,
        N,
        4,
        4,
        4,
        elem_bytes,
        device=device,
        ld_in=ld_in,
        ld_out=ld_out,
        batch=batch,
        batch_stride_in=batch_stride_in,
        batch_stride_out=batch_stride_out,
    )
    smallest.check()
    plans = [_spread(replace(smallest, m=m, n=n, s=s)) for m, n, s in _tiles(M, N, elem_bytes)]
    ranked = sorted(plans, key=lambda plan: (plan.predicted_seconds(), plan.core_cycles()))
    legal = (plan for ordered in map(_order, ranked) if not (plan := ordered).violations())
    best, second = next(legal), next(legal, None)
    return replace(best, reason=_reason(best, second))


def _tiles(M: int, N: int, elem_bytes: int) -> Iterator[tuple[int, int, int]]:
    """(m, n, s) of every tile worth a look."""
    for s in BLOCKS:
        sides = (_divisors(size, s, LONGEST_RUN_BYTES // elem_bytes) for size in (M, N))
        for m, n in product(*sides):
            if m * n * elem_bytes <= BANK_TILE_BYTES:
                yield m, n, s


def _divisors(size: int, s: int, longest: int) -> list[int]:
    """The divisors of `size` that are multiples of `s`, up to `longest`."""
    return [d for d in range(s, min(size, longest) + 1, s) if size % d == 0]


def _spread(plan: TransposePlan) -> TransposePlan:
    """The plan on as many columns and channels as there is work for."""
    for columns, channels in product(range(DEVICES[plan.device].columns, 0, -1), (2, 1)):
        spread = replace(plan, columns=columns, channels=channels)
        if all(all(map(len, spread.share(*worker))) for worker in spread.workers()):
            return spread
    return plan


def _order(plan: TransposePlan) -> TransposePlan:
    """The plan with its tiles in the order that needs fewer tasks."""
    orders = (replace(plan, order=order) for order in ("rows", "cols"))
    return min(orders, key=lambda p: sum(len(p.tasks_of(*worker)) for worker in p.workers()))


def _reason(best: TransposePlan, second: TransposePlan | None) -> str:
    """Why `best` is best, in words."""
    seconds, e = best.predicted_seconds(), best.elem_bytes
    text = (
        f"{seconds * 1e3:.3g} ms predicted ({best.nbytes / seconds / 1e9:.3g} GB/s): "
        f"reads in runs of {best.n * e} B, writes in runs of {best.m * e} B "
        f"(full at {DEVICES[best.device].full_burst_bytes} B), "
        f"{best.core_cycles():.0f} core cycles a tile"
    )
    if second is None:
        return text + "; no other tile divides the matrix"
    slower = 100 * (second.predicted_seconds() / seconds - 1)
    return text + f"; next: tiles {second.m}x{second.n} of {second.s}x{second.s}, {slower:+.1f} %"
