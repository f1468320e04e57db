"""Time a call the way a careful person would, and say how far the number can be trusted.

A *block* is a run of calls between two readings of the clock, long enough that reading the clock is
less than a thousandth of it. Every block is kept: the spread of the blocks is what tells a result
from an accident. Calls to compare are interleaved in random order, so that a disturbance or a new
clock frequency does not fall on one of them alone.
"""

from __future__ import annotations

import gc
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

CLOCK_SHARE = 1e-3  # of a block that reading the clock may cost
BLOCKS_PER_RUN = 50  # about as many blocks as fit a minimal run time: enough for quartiles
MIN_BLOCKS = 5
PAUSE_SECONDS = 2e-3  # between contestants, so that the last one's worker threads stop spinning
WIDE_SPREAD, UNTRUSTWORTHY_SPREAD = 0.10, 0.25  # interquartile ranges that call for a warning
MAX_SIGNIFICANT_FIGURES = 4
Z_90_PERCENT = 1.645  # a normal variable stays within so many deviations nine times in ten


class Block(NamedTuple):
    """`calls` calls in a row, and how long they took together."""

    calls: int
    seconds: float


@dataclass(frozen=True)
class Measurement:
    """How long a call takes: statistics over blocks, each block counting once.

    >>> Measurement((Block(10, 0.02), Block(10, 0.03), Block(10, 0.04))).median
    0.003
    """

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError("a measurement needs at least one block")

    @property
    def times(self) -> list[float]:
        """Seconds a call, one entry a block, in ascending order."""
        return sorted(block.seconds / block.calls for block in self.blocks)

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile in seconds, interpolated linearly."""
        times = self.times
        if len(times) == 1:
            return times[0], times[0]
        first, _, third = statistics.quantiles(times, n=4, method="inclusive")
        return first, third

    @property
    def iqr(self) -> float:
        """Seconds between the quartiles."""
        first, third = self.quartiles
        return third - first

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something, 1 to 4.

        As many as the 90 % confidence interval of the mean of the blocks between the quartiles
        leaves standing; blocks outside the quartiles are accidents and do not count against it.
        """
        first, third = self.quartiles
        middle = [t for t in self.times if first <= t <= third]
        if len(self.blocks) < 3 or len(middle) < 2 or self.median <= 0:
            return 1
        half_width = Z_90_PERCENT * statistics.stdev(middle) / math.sqrt(len(middle))
        if half_width == 0:
            return MAX_SIGNIFICANT_FIGURES
        figures = math.floor(-math.log10(half_width / self.median))
        return min(max(figures, 1), MAX_SIGNIFICANT_FIGURES)

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median."""
        return self.iqr / self.median if self.median > 0 else 0.0

    @property
    def warnings(self) -> list[str]:
        """What a reader of the median must know, in words."""
        share = f"the interquartile range is {self.spread:.0%} of the median"
        if self.spread > UNTRUSTWORTHY_SPREAD:
            return [f"{share}: do not rely on this number, measure again on a quiet machine"]
        if self.spread > WIDE_SPREAD:
            return [f"{share}: the machine was not quiet, small differences mean nothing"]
        return []

    def merged(self, other: Measurement) -> Measurement:
        """This measurement and a repeat of it as one."""
        return Measurement(self.blocks + other.blocks)

    def to_json(self) -> list[list[float]]:
        return [list(block) for block in self.blocks]

    @classmethod
    def from_json(cls, blocks: Sequence[Sequence[float]]) -> Measurement:
        return cls(tuple(Block(int(calls), float(seconds)) for calls, seconds in blocks))

    def __str__(self) -> str:
        text = f"{format_seconds(self.median, self.significant_figures)} "
        text += f"(IQR {format_seconds(self.iqr, 2)}, {len(self.blocks)} blocks)"
        return "; ".join([text, *self.warnings])


class Timer:
    """Measures one call.

    Args:
        fn: what to call; its result is dropped inside the timed block.
        clock: a monotonic clock in seconds.

    >>> Timer(lambda: sum(range(1000))).blocked_autorange(min_run_time=0.01).median > 0
    True
    """

    def __init__(
        self, fn: Callable[[], Any], *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._fn = fn
        self._clock = clock
        self._called = False

    def cold(self) -> Measurement:
        """One call, the first: with plans to make, pages to map and code to compile.

        Raises:
            RuntimeError: the call has been made before, so it is not cold.
        """
        if self._called:
            raise RuntimeError("cold() comes too late: the function has already been called")
        return Measurement((self.block(1),))

    def blocked_autorange(self, min_run_time: float = 0.2) -> Measurement:
        """Blocks of calls, `min_run_time` seconds of them or more."""
        return interleaved({"": self}, min_run_time)[""]

    def block(self, calls: int) -> Block:
        """Time `calls` calls."""
        fn, clock = self._fn, self._clock
        self._called = self._called or calls > 0
        start = clock()
        for _ in itertools.repeat(None, calls):
            fn()
        return Block(calls, round(clock() - start, 9))  # clocks count nanoseconds at best

    def warm_block(self, calls: int) -> Block:
        """Time `calls` calls in the state that the call itself leaves the caches in.

        One untimed call clears out what the previous contestant left. A block of one call does
        without: it takes so long that its data cannot be in a cache, and would take twice as long.
        """
        if calls > 1:
            self._fn()
        return self.block(calls)

    def calls_per_block(self, min_block_seconds: float) -> int:
        """How many calls make a block that is long enough for the clock and for its caller."""
        clock_seconds = statistics.median(self.block(0).seconds for _ in range(5))
        target = max(min_block_seconds, clock_seconds / CLOCK_SHARE)
        calls = 1
        while (block := self.block(calls)).seconds < target:
            # Aim a little past the target, but not on the word of a reading too short to trust.
            wanted = 1.2 * calls * target / block.seconds if block.seconds > 0 else math.inf
            calls = math.ceil(min(wanted, 10 * calls))
        return calls


def interleaved(
    timers: Mapping[str, Timer],
    min_run_time: float,
    *,
    min_blocks: int = MIN_BLOCKS,
    rng: random.Random | None = None,
    pause_seconds: float = 0.0,
) -> dict[str, Measurement]:
    """Measure calls against each other: in every round each runs one block, in random order.

    Args:
        timers: the calls by name.
        min_run_time: seconds that each call is to be timed at least.
        min_blocks: blocks that each call gets at least, however long they take.
        rng: where the order comes from.
        pause_seconds: to wait before each block.
    """
    rng = rng or random.Random()
    blocks: dict[str, list[Block]] = {name: [] for name in timers}

    def unfinished(name: str) -> bool:
        seconds = sum(block.seconds for block in blocks[name])
        return seconds < min_run_time or len(blocks[name]) < min_blocks

    with _garbage_collector_off():
        calls = {
            name: timer.calls_per_block(min_run_time / BLOCKS_PER_RUN)
            for name, timer in timers.items()
        }
        while waiting := [name for name in timers if unfinished(name)]:
            rng.shuffle(waiting)
            for name in waiting:
                time.sleep(pause_seconds)
                blocks[name].append(timers[name].warm_block(calls[name]))
    return {name: Measurement(tuple(kept)) for name, kept in blocks.items()}


@contextmanager
def _garbage_collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def format_seconds(seconds: float, figures: int = 3) -> str:
    """`seconds` with a unit that suits it, to so many significant figures.

    >>> format_seconds(0.0012345, 3), format_seconds(2.5e-7, 2)
    ('1.23 ms', '250 ns')
    """
    units = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    unit, scale = next((entry for entry in units if seconds >= entry[1]), units[-1])
    value = seconds / scale
    whole_digits = len(str(int(value)))
    rounded = round(value, figures - whole_digits)
    return f"{rounded:.{max(figures - whole_digits, 0)}f} {unit}"
