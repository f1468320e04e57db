"""Say what a permutation would do: its canonical form, the device and why, the plan, the time.

Nothing is read but the file's header, and nothing is moved.

examples:
  hptp explain --shape 8,224,224,3 --dtype u8 --perm 0,3,1,2
  hptp explain images.npy --perm 0,3,1,2 --device npu
  hptp explain --shape 4096,4096 --dtype f32 --perm 1,0 --json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import hptp
from hptp.cli import _options

HELP = "which device, which plan, how long, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("source", type=Path, nargs="?", metavar="IN.npy", help="an array in a file")
    what.add_argument("--shape", type=_options.sizes, metavar="SIZES", help="a shape such as 64,32")
    parser.add_argument(
        "--dtype", type=_options.dtype, help="with --shape: the element type (default: f32)"
    )
    _options.add_perm(parser)
    _options.add_device(parser)
    _options.add_num_threads(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def run(args: argparse.Namespace) -> int:
    arguments: dict[str, Any] = {"device": args.device, "num_threads": args.num_threads}
    if args.source is not None:
        from hptp.cli import _npy

        what = _npy.open_array(args.source)
        if args.dtype is not None:
            raise hptp.PlanError(f"--dtype is for --shape: {args.source} has elements {what.dtype}")
    else:
        what = args.shape
        arguments["dtype"] = args.dtype or "float32"
    if not args.json:
        print(hptp.explain(what, args.perm, **arguments))
        return 0
    plan = hptp.plan(what, args.perm, **arguments)
    problem = plan.problem
    fields = ("elem_bytes", "shape", "src_strides_bytes", "dst_strides_bytes", "nbytes")
    found = {
        "problem": {field: getattr(problem, field) for field in fields},
        "device": plan.device,
        "reason": plan.reason,
        "kernel": plan.kernel,
        "isa": plan.isa,
        "predicted_seconds": plan.choice.predicted_seconds(),
    }
    print(json.dumps(found, indent=2))
    return 0
