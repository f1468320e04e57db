"""Permute the axes of the array in a .npy file and write the result to another.

Files may be larger than memory. The output appears in one step when it is complete; an interrupted
run, or a full disk, leaves whatever was there before.

examples:
  hptp permute matrix.npy -o transposed.npy --perm 1,0
  hptp permute images.npy -o planes.npy --perm 0,3,1,2     NHWC to NCHW
  hptp permute images.npy -o planes.npy --perm 0,3,1,2 --dtype f32
  hptp permute big.npy -o big.npy --perm 1,0 --json        in place of the input, for a script
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from hptp.cli import _options

HELP = "permute the axes of a .npy file, however large"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="IN.npy", help="the array to permute")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT.npy", help="where to write"
    )
    _options.add_perm(parser)
    parser.add_argument(
        "--dtype",
        type=_options.dtype,
        help="convert to this element type: " + ", ".join(_options.DTYPES),
    )
    _options.add_device(parser)
    _options.add_num_threads(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from hptp.cli._npy import permute_file
    from hptp.cli._progress import Progress

    progress = Progress(shown=sys.stderr.isatty() and not args.quiet)
    with _termination_interrupts():
        shape, dtype = permute_file(
            args.source,
            args.output,
            args.perm,
            dtype=args.dtype,
            device=args.device,
            num_threads=args.num_threads,
            progress=progress,
        )
    nbytes = args.output.stat().st_size
    summary = {
        "output": str(args.output),
        "shape": list(shape),
        "dtype": str(dtype),
        "bytes": nbytes,
        "seconds": round(progress.seconds, 6),
        "gb_per_s": round(nbytes / 1e9 / max(progress.seconds, 1e-9), 3),
    }
    if args.json:
        print(json.dumps(summary))
    elif not args.quiet:
        size = f"{nbytes / 1e9:.3g} GB" if nbytes >= 1e8 else f"{nbytes / 1e6:.3g} MB"
        print(
            f"{args.output}: shape {tuple(shape)}, {dtype}, {size} "
            f"in {progress.seconds:.2f} s ({summary['gb_per_s']} GB/s)"
        )
    return 0


@contextlib.contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does, for the unfinished output has to go."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
