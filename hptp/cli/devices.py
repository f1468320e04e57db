"""List the devices that can permute, and say of each why it can or cannot be used here.

examples:
  hptp devices
  hptp devices --json
"""

from __future__ import annotations

import argparse
import dataclasses
import json

import hptp

HELP = "what can run here, and why the rest cannot"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list instead")


def run(args: argparse.Namespace) -> int:
    found = hptp.devices()
    if args.json:
        print(json.dumps([dataclasses.asdict(info) for info in found], indent=2))
        return 0
    for info in found:
        print(f"{info.name:4} {'yes' if info.available else 'no':3} {info.reason}")
    return 0
