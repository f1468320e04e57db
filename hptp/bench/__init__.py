"""Measure permutations against other libraries and against what memory can do.

>>> from hptp.bench import Timer
>>> measurement = Timer(lambda: sorted(range(100))).blocked_autorange(min_run_time=0.01)
>>> measurement.median < 1e-3
True
"""

from hptp.bench.cases import ROWS, Case
from hptp.bench.record import Record, Results
from hptp.bench.report import Compare
from hptp.bench.timer import Block, Measurement, Timer, interleaved

__all__ = [
    "ROWS",
    "Block",
    "Case",
    "Compare",
    "Measurement",
    "Record",
    "Results",
    "Timer",
    "interleaved",
]
