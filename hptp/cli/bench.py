"""Measure hptp against other libraries and a non-temporal copy, and say where it falls short.

Every library that is installed takes part; each proves its result, bit for bit, before it is timed.
One process is started for each thread count, pinned to as many CPUs.

examples:
  hptp bench --quick                        a first impression, in a few minutes
  hptp bench --json mine.json               everything, and keep the results
  hptp bench --rows NCHW --rows 2-D         the rows whose names contain these words
  hptp bench --parts small                  what a call costs, from 1 to 4 million elements
  hptp bench --load mine.json --load again.json --plot rows.png
                                            merge results, print the table, draw the chart
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hptp.cli import _options
from hptp.errors import HptpError

if TYPE_CHECKING:
    from hptp.bench.cases import Case
    from hptp.bench.record import Record, Results

HELP = "measure against other libraries and what memory can do"
PARTS = ("rows", "convert", "pitch", "small", "file")
QUICK_SIZE = 1 / 8
QUICK_SECONDS = 0.05
QUICK_BLOCKS = 3
SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parts",
        type=_parts,
        default=PARTS,
        metavar="LIST",
        help=f"what to measure: some of {','.join(PARTS)} (default: all of them)",
    )
    parser.add_argument(
        "--rows",
        action="append",
        default=[],
        metavar="TEXT",
        help="only cases whose name contains this; may be repeated",
    )
    parser.add_argument(
        "--size",
        type=float,
        metavar="F",
        help="scale all but small and file to F times their bytes, by powers of two (default: 1)",
    )
    parser.add_argument(
        "--threads",
        type=_options.integers,
        metavar="LIST",
        help="thread counts, one process each (default: 1 and all CPUs)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="an eighth of the size and a tenth of the time"
    )
    parser.add_argument("--seconds", type=float, help="time each call at least this long")
    parser.add_argument(
        "--cases", type=Path, metavar="FILE", help="measure the cases of a JSON file, too"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave this library out; may be repeated",
    )
    parser.add_argument("--hptt", type=Path, metavar="LIB", help="an HPTT shared library")
    parser.add_argument("--seed", type=int, default=0, help="of data and order (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument(
        "--load",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="show these results instead of measuring; several are merged",
    )
    parser.add_argument("--unit", choices=("share", "GB/s", "time"), default="share")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the rows as a bar chart (matplotlib)"
    )


def run(args: argparse.Namespace) -> int:
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise HptpError("measuring needs NumPy (pip install 'hptp[numpy]')") from None
    results = _load(args.load) if args.load else _measure(args)
    if args.json:
        results.save(args.json)
    _show(results, args.unit)
    if args.plot:
        from hptp.bench.report import Compare

        Compare(results.records).plot(args.plot)
    return 0


def _measure(args: argparse.Namespace) -> Results:
    from hptp import _core
    from hptp.bench import machine, suite
    from hptp.bench.record import Results
    from hptp.bench.timer import MIN_BLOCKS

    settings = suite.Settings(
        min_run_time=args.seconds or (QUICK_SECONDS if args.quick else SECONDS),
        min_blocks=QUICK_BLOCKS if args.quick else MIN_BLOCKS,
        hptt=str(args.hptt) if args.hptt else None,
        without=tuple(args.without),
        seed=args.seed,
    )
    cases = _cases(args)
    counts = args.threads or sorted({1, _core.usable_cpus()})
    records: list[Record] = []
    for num_threads in counts:
        try:
            for record in suite.measure(cases, num_threads, settings):
                records.append(record)
        except HptpError as error:
            print(f"hptp: {error}; the results so far are kept", file=sys.stderr)
        except KeyboardInterrupt:
            print("hptp: interrupted; the results so far are kept", file=sys.stderr)
            break
    return Results(machine.describe(), tuple(records))


def _cases(args: argparse.Namespace) -> list[Case]:
    from hptp.bench import cases

    size = args.size or (QUICK_SIZE if args.quick else 1.0)
    makers: dict[str, Callable[[], list[Case]]] = {
        "rows": lambda: [row.scaled(size) for row in cases.ROWS],
        "convert": lambda: [case.scaled(size) for case in cases.conversions()],
        "pitch": lambda: cases.pitch_sweep(size),
        "small": cases.small,
        "file": lambda: _from_file(args.cases) if args.cases else [],
    }
    chosen = cases.matching((c for part in args.parts for c in makers[part]()), args.rows)
    if not chosen:
        raise HptpError(f"no case of {','.join(args.parts)} has a name containing {args.rows}")
    return chosen


def _from_file(path: Path) -> list[Case]:
    from hptp.bench import cases

    kept, left_out = cases.load(path)
    for reason in left_out:
        print(f"left out of {path.name}: {reason}", file=sys.stderr)
    return kept


def _load(paths: list[Path]) -> Results:
    from hptp.bench.record import Results

    loaded = [Results.load(path) for path in paths]
    cpus = {results.machine["cpu"] for results in loaded}
    if len(cpus) > 1:
        raise HptpError(f"results of different CPUs cannot be merged: {', '.join(sorted(cpus))}")
    return Results(loaded[0].machine, tuple(r for results in loaded for r in results.records))


def _show(results: Results, unit: str) -> None:
    from hptp.bench.report import LEGEND, Compare

    compare = Compare(results.records)
    print("\n".join(f"{key}: {value}" for key, value in results.machine.items()))
    for group in ("rows", "convert", "pitch", "file"):
        if compare.cases(group):
            print(f"\n{compare.table(unit, group)}")
    if compare.cases("small"):
        print(f"\n{compare.table('time', 'small')}\n\n{compare.small_sizes()}")
    print(f"\n{LEGEND}")
    findings = compare.findings()
    print("\nfindings:" if findings else "\nfindings: none")
    for finding in findings:
        print(f"- {finding}")


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    return parts
