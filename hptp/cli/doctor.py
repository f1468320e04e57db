"""Check, step by step, whether this machine can run and build programs for its NPU.

Every line is ok, missing or wrong, and what is not ok comes with what to do about it. The exit
status is 0 if all lines are ok and 1 otherwise; `--for run` leaves out what only building needs,
because a compiled program runs without its compiler.

examples:
  hptp doctor
  hptp doctor --for run && echo "the NPU is usable"
  hptp doctor --json
"""

from __future__ import annotations

import argparse

HELP = "what stands between this machine and its NPU, and how to fix it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list instead")
    parser.add_argument(
        "--for",
        dest="need",
        choices=("run", "build"),
        help="only what using the NPU needs, or only what building needs (default: both)",
    )


def run(args: argparse.Namespace) -> int:
    from hptp.npu.doctor import Host, as_json, examine, exit_status

    checks = [check for check in examine(Host()) if args.need in (None, check.need)]
    print(as_json(checks) if args.json else "\n".join(map(str, checks)))
    return exit_status(checks)
