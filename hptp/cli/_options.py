"""Options several sub-commands share, and how their values are spelled on a command line."""

from __future__ import annotations

import argparse

from hptp.dispatch import DEVICE_NAMES

# The short spellings exist on command lines only; everything behind them takes full names.
DTYPES = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip


def integers(text: str) -> tuple[int, ...]:
    """A comma-separated list of integers; an empty text is an empty list."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of integers such as 1,0"
        ) from None


def sizes(text: str) -> tuple[int, ...]:
    """A comma-separated list of sizes, none negative."""
    values = integers(text)
    if any(value < 0 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} has a negative size")
    return values


def dtype(text: str) -> str:
    """An element type, in its short or its full spelling; the full one comes back."""
    if text in DTYPES.values():
        return text
    if text not in DTYPES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(DTYPES)}")
    return DTYPES[text]


def elem_bytes(full_name: str) -> int:
    """The size of an element of a type, by its full name, which ends in its number of bits."""
    return int(full_name.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def add_perm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--perm",
        type=integers,
        required=True,
        metavar="AXES",
        help="the input axis that becomes each output axis, as in numpy.transpose: 1,0 transposes "
        "a matrix, 0,3,1,2 makes NCHW of NHWC (write --perm=-1,0 if the first is negative)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=("auto", *DEVICE_NAMES),
        default="auto",
        help="where to run (default: %(default)s, the fastest device here)",
    )


def add_num_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num-threads",
        type=int,
        metavar="N",
        help="use at most N CPU threads (default: as many as pay)",
    )
