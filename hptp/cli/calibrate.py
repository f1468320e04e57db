"""Measure how fast this machine's CPU and NPU permute, and remember it.

The rates decide which device does what when none is asked for. Takes a few seconds; do it once, on
a machine that is otherwise idle.

examples:
  hptp calibrate
"""

from __future__ import annotations

import argparse

import hptp

HELP = "measure this machine, so that the faster device is chosen"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(args: argparse.Namespace) -> int:
    print(hptp.calibrate())
    return 0
