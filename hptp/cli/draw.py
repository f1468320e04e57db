"""Draw what happens to a matrix: the layouts at L3, L2 and L1 of the NPU, or the CPU's tiles.

Colours mark tiles and the blocks inside them; arrows are the order in which memory is visited. The
file name says the format: SVG needs nothing, PNG needs matplotlib.

examples:
  hptp draw -o design.svg -M 64 -N 32 -m 16 -n 16 -s 4
  hptp draw -o large.svg -M 4096 -N 4096 -m 64 -n 32 -s 8 --dtype i16
  hptp draw -o cpu.svg --device cpu -M 1000 -N 3000 --dtype f32
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hptp.cli import _options

HELP = "a picture of the layouts at every level, as SVG or PNG"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="a .svg or .png file"
    )
    defaults = {"M": 64, "N": 32, "m": 16, "n": 16, "s": 4}
    meanings = {
        "M": "rows of the matrix",
        "N": "columns of the matrix",
        "m": "rows of a tile",
        "n": "columns of a tile",
        "s": "side of a block the kernel transposes",
    }
    for name, value in defaults.items():
        help_text = f"{meanings[name]} (default: %(default)s)"
        parser.add_argument(f"-{name}", type=int, default=value, metavar=name, help=help_text)
    parser.add_argument(
        "--dtype", type=_options.dtype, default="int32", help="the element type (default: i32)"
    )
    parser.add_argument(
        "--device",
        choices=("npu", "cpu"),
        default="npu",
        help="whose plan to draw (default: %(default)s); the CPU chooses its own tiles",
    )


def run(args: argparse.Namespace) -> int:
    from aie_design.plan import TransposePlan
    from hptp._core import Plan, Problem
    from hptp.cli import _layout

    elem_bytes = _options.elem_bytes(args.dtype)
    if args.device == "cpu":
        problem = Problem(elem_bytes, (args.M, args.N), (1, 0))
        figure = _layout.draw_cpu(args.M, args.N, Plan(problem))
    else:
        design = TransposePlan(args.M, args.N, args.m, args.n, args.s, elem_bytes)
        design.check()
        figure = _layout.draw_npu(design)
    figure.save(args.output)
    print(args.output)
    return 0
