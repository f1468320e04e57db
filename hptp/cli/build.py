"""Compile the programs that the NPU runs, so that the first permutation need not wait for it.

One program serves every shape whose slabs its tile divides. Without options this builds one for
each element width, good for large matrices; with --shape and --perm, the one that suits that
permutation best. A program that is there already is not built again. It needs mlir-aie, Peano and
XRT's xclbinutil, but no NPU: name the model with --model and copy the cache folder to the machine
that has one. The folder of each program is printed.

examples:
  hptp build
  hptp build --model npu2 --elem-bytes 2,4
  hptp build --shape 8,224,224,64 --perm 0,3,1,2 --elem-bytes 2
"""

from __future__ import annotations

import argparse

from hptp.cli._options import integers, sizes

HELP = "compile programs for the NPU ahead of their first use"

MODELS = ("npu", "npu2")
WIDTHS = (1, 2, 4, 8, 16)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        choices=MODELS,
        help="npu: Phoenix, Hawk Point; npu2: Strix, Krackan (default: the one in this machine)",
    )
    parser.add_argument(
        "--elem-bytes",
        type=sizes,
        default=WIDTHS,
        metavar="WIDTHS",
        help="element widths in bytes, comma-separated (default: 1,2,4,8,16)",
    )
    parser.add_argument(
        "--shape",
        type=sizes,
        default=(4096, 4096),
        help="the tensor's sizes (default: 4096,4096)",
    )
    parser.add_argument(
        "--perm",
        type=integers,
        default=(1, 0),
        metavar="AXES",
        help="how to permute it (default: 1,0)",
    )


def run(args: argparse.Namespace) -> int:
    from aie_design.build import build
    from hptp._core import Problem, normalize_perm
    from hptp.npu.runtime import npu
    from hptp.npu.slabs import plan_slabs

    model = args.model or npu().model.device
    perm = normalize_perm(args.perm, len(args.shape))
    for elem_bytes in args.elem_bytes:
        slabs = plan_slabs(Problem(elem_bytes, args.shape, perm), model)
        print(build(slabs.transpose, slabs.kernel).folder)
    return 0
