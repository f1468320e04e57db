"""Choosing a plan: of the tiles that fit, the one predicted to be fastest, with the reason.

The prediction (TransposePlan.predicted_seconds) orders the tiles; the work goes to as many columns
and channels as it divides among, in the order that needs fewer tasks.

    >>> plan = TransposePlan.for_problem(4096, 4096, 4, device="npu2")
    >>> plan.m, plan.n, plan.columns, plan.channels
    (32, 64, 8, 2)
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from aie_design.plan import DEVICES, TransposePlan

BANK_TILE_BYTES = 15_360  # a quarter of L1 less the stack: every buffer gets a bank of its own
SHORT_RUN_BYTES = 32  # runs shorter than this waste more than half of every burst
LONGEST_RUN_BYTES = 1024  # longer runs than twice a full burst gain nothing


def choose(problem: TransposePlan) -> TransposePlan:
    """`problem`, a legal plan of the smallest tile there can be, with the best tile and workers."""
    plans = [_spread(replace(problem, m=m, n=n, s=s)) for m, n, s in _tiles(problem)]
    ranked = sorted(plans, key=lambda plan: (plan.predicted_seconds(), plan.core_cycles()))
    legal = (plan for plan in map(_order, ranked) if not plan.violations())
    best, second = next(legal), next(legal, None)
    return replace(best, reason=_reason(best, second))


def _tiles(problem: TransposePlan) -> list[tuple[int, int, int]]:
    """(m, n, s) of every tile worth a look: those with short runs only if there are no others."""
    e = problem.elem_bytes
    tiles = [
        (m, n, s)
        for s in ((4, 8) if problem.s == 4 else (1,))
        for m, n in product(_divisors(problem.M, s, e), _divisors(problem.N, s, e))
        if m * n * e <= BANK_TILE_BYTES
    ]
    return [tile for tile in tiles if min(tile[:2]) * e >= SHORT_RUN_BYTES] or tiles


def _divisors(size: int, s: int, elem_bytes: int) -> list[int]:
    """The divisors of `size` that are multiples of `s`, up to the longest run that is useful."""
    longest = max(s, LONGEST_RUN_BYTES // elem_bytes)
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
