"""Measure cases in a process of their own, one process per thread count.

Libraries read affinity and thread settings when they are loaded, so both are fixed before the
process starts. It is `python -m hptp.bench.worker`: it reads what to do from stdin and writes one
JSON record a line, so that what was measured before a crash is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from hptp.bench import machine
from hptp.bench.cases import Case
from hptp.bench.record import Record
from hptp.bench.timer import MIN_BLOCKS
from hptp.errors import HptpError


@dataclass(frozen=True)
class Settings:
    """
    Args:
        min_run_time: seconds that each call is timed at least.
        min_blocks: blocks each call gets at least.
        hptt: path of an HPTT shared library.
        without: names of contestants to leave out.
        seed: of the order in which contestants take turns.
    """

    min_run_time: float = 0.5
    min_blocks: int = MIN_BLOCKS
    hptt: str | None = None
    without: tuple[str, ...] = ()
    seed: int = 0


def measure(cases: Sequence[Case], num_threads: int, settings: Settings) -> Iterator[Record]:
    """Measure the cases with `num_threads` threads pinned to as many CPUs, and yield records.

    Progress and the names of missing libraries go to stderr.

    Raises:
        HptpError: the measuring process failed; what it measured before has been yielded.
    """
    job = {
        "cases": [case.to_json() for case in cases],
        "num_threads": num_threads,
        "settings": asdict(settings),
    }
    with machine.pinned(machine.pick_cpus(num_threads)):
        child = subprocess.Popen(
            [sys.executable, "-m", "hptp.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment(num_threads)},
        )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        json.dump(job, child.stdin)
        child.stdin.close()
        try:
            for line in child.stdout:
                yield Record.from_json(json.loads(line))
        except BaseException:  # interrupted, or nobody wants more records
            child.kill()
            raise
    if child.returncode != 0:
        raise HptpError(f"the process with {num_threads} threads ended with {child.returncode}")


def environment(num_threads: int) -> dict[str, str]:
    """What tells libraries how many threads to use, and JAX to keep 64-bit elements."""
    from hptp.dispatch import devices

    variables = {
        "HPTP_NUM_THREADS": str(num_threads),
        "OMP_NUM_THREADS": str(num_threads),
        "MKL_NUM_THREADS": str(num_threads),
        "MKL_DYNAMIC": "FALSE",
        "KMP_BLOCKTIME": "1",  # milliseconds; by default Intel's threads spin through other turns
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
    }
    if any(info.name == "npu" and info.available for info in devices()):
        variables["HPTP_DEVICE"] = "cpu"
    return variables
