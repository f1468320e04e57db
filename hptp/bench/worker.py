"""The process that measures; `suite.measure` starts it with affinity and threads in place."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hptp.arrays import empty_ndarray
from hptp.bench import machine, peers
from hptp.bench.cases import Case
from hptp.bench.record import Record
from hptp.bench.suite import Settings
from hptp.bench.timer import PAUSE_SECONDS, Measurement, Timer, interleaved
from hptp.bench.verify import converted, mismatch, source, spoil

if TYPE_CHECKING:
    import numpy as np


def measure_case(
    case: Case,
    contestants: Sequence[peers.Contestant],
    num_threads: int,
    settings: Settings,
    rng: random.Random,
) -> list[Record]:
    """Let every contestant prove its result; measure those that are right against each other."""
    jobs = make_jobs(case, num_threads, settings.seed)
    entries = [
        enter(contestant, *jobs[contestant.permutes])
        for contestant in contestants
        if contestant.takes(case)
    ]
    job, _ = jobs[True]
    warm = interleaved(
        {str(i): entry.timer for i, entry in enumerate(entries) if not entry.refusal},
        settings.min_run_time,
        min_blocks=settings.min_blocks,
        rng=rng,
        pause_seconds=PAUSE_SECONDS,
    )
    kernel, isa = _plan(job)
    pages = tuple(machine.huge_page_share(a.ctypes.data, a.nbytes) for a in (job.src, job.dst))
    return [
        Record(
            case,
            entry.contestant.name,
            entry.contestant.version,
            entry.contestant.allocates,
            num_threads,
            kernel if entry.contestant.name.startswith(peers.OURS) else "",
            isa if entry.contestant.name.startswith(peers.OURS) else "",
            (pages[0], pages[1]),
            entry.cold,
            warm.get(str(i)),
            entry.refusal,
        )
        for i, entry in enumerate(entries)
    ]


def make_jobs(
    case: Case, num_threads: int, seed: int = 0
) -> dict[bool, tuple[peers.Job, np.ndarray]]:
    """The job of who permutes, and that of who copies as many bytes, with what to expect of each.

    Their memory is the same, and all of it written, unless the case converts.
    """
    import numpy as np

    src = source(case, seed)
    dst = empty_ndarray(case.out_shape, case.out_dtype)  # what hptp, PyTorch and JAX return
    permuted = converted(np.ascontiguousarray(src.transpose(case.perm)), case)
    job = copies = peers.Job(case, src, dst, num_threads)
    if case.to_dtype is not None:
        as_bytes = Case(case.id, case.group, "uint8", (case.moved_bytes // 2,), (0,))
        src = source(as_bytes, seed)
        copies = peers.Job(as_bytes, src, np.empty_like(src), num_threads)
    return {True: (job, permuted), False: (copies, src.reshape(copies.dst.shape))}


@dataclass(frozen=True)
class Entry:
    """A contestant after its first call, ready to be measured unless it was refused."""

    contestant: peers.Contestant
    timer: Timer
    cold: Measurement | None = None
    refusal: str = ""


def enter(contestant: peers.Contestant, job: peers.Job, expected: np.ndarray) -> Entry:
    """Make a contestant's first call, and compare its result with what is expected."""
    spoil(job.dst)
    results = []
    try:
        call = contestant.bind(job)
        cold = Timer(lambda: results.append(call())).cold()
    except Exception as error:  # whatever a library raises, it cannot do this job
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return Entry(contestant, Timer(lambda: None), refusal=reason[0])
    return Entry(contestant, Timer(call), cold, mismatch(results[0], expected))


def _plan(job: peers.Job) -> tuple[str, str]:
    """The kernel and the instruction set of hptp's plan for this job."""
    from hptp import _core

    if job.case.to_dtype is not None:
        return "convert", _core.isa()
    problem = _core.Problem(job.src.itemsize, job.case.shape, job.case.perm)
    plan = _core.Plan(problem, job.num_threads)
    return plan.kernel, plan.isa


def main() -> int:
    # Libraries may print to stdout; the records need it to themselves.
    records = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.load(sys.stdin)
    settings = Settings(**job["settings"])
    num_threads = job["num_threads"]
    present, missing = peers.contestants(
        num_threads, Path(settings.hptt) if settings.hptt else None
    )
    for name, reason in missing.items():
        print(f"without {name}: {reason}", file=sys.stderr)
    contestants = [peer for peer in present if peer.name not in settings.without]
    rng = random.Random(settings.seed)
    for number, entry in enumerate(job["cases"], start=1):
        case = Case.from_json(entry)
        progress = f"[{number}/{len(job['cases'])}, {num_threads} threads] {case.id}"
        print(progress, file=sys.stderr, flush=True)
        for record in measure_case(case, contestants, num_threads, settings, rng):
            print(json.dumps(record.to_json()), file=records, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
