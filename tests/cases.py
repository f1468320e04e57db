"""The one table of permutations that every device must get right.

`REPORTED` are cases from public reports of people who permute tensors (data/cases.json). `TABLE`
is made here: ranks 1 to 8, element widths 1 to 16 bytes, sizes that tiles divide and sizes they do
not, and strided views, each small enough to be interpreted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.reference import random_array

DTYPE_OF_WIDTH = {1: "uint8", 2: "uint16", 4: "float32", 8: "float64", 16: "complex128"}

# Views by name: what is permuted is the view of a C-contiguous array of the case's shape.
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": lambda x: x,
    "[::-1]": lambda x: x[::-1],
    "[:, ::-1]": lambda x: x[:, ::-1],
    "broadcast_to (8, 640, 480)": lambda x: np.broadcast_to(x, (8, 640, 480)),
    "every second row": lambda x: x[::2],
    "every third column": lambda x: x[..., ::3],
    "reversed": lambda x: x[tuple([slice(None, None, -1)] * x.ndim)],
    "inner block": lambda x: x[tuple([slice(1, -2)] * x.ndim)],
    "already transposed": lambda x: x.T,
    "one row repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column repeated": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "sliding windows": lambda x: as_strided(
        x, (x.shape[0] - 3, 4, x.shape[1]), (x.strides[0], *x.strides), writeable=False
    ),
}


@dataclass(frozen=True)
class Case:
    """One permutation: `perm` of a view of an array of this dtype and shape."""

    id: str
    dtype: str
    shape: tuple[int, ...]
    perm: tuple[int, ...]
    view: str = ""
    offset_bytes: int = 0  # of source and output from an aligned address

    def source(self) -> np.ndarray:
        """The array to permute, of random bytes."""
        nbytes = int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize
        data = random_array((nbytes + self.offset_bytes,), np.uint8, seed=len(self.id))
        base = data[self.offset_bytes :].view(self.dtype).reshape(self.shape)
        return VIEWS[self.view](base)


def _reported() -> list[Case]:
    entries = json.loads((Path(__file__).parent / "data" / "cases.json").read_text())["cases"]
    return [
        Case(
            f"{entry['id']}-{'x'.join(map(str, shape))}" + (f"+{offset}" if offset else ""),
            entry["dtype"],
            tuple(shape),
            tuple(entry["perm"]),
            entry.get("view", ""),
            offset,
        )
        for entry in entries
        for shape in entry["shapes"]
        for offset in entry.get("offsets_bytes", [0])
    ]


# name, perm, a shape that tiles divide, a shape they do not
_SHAPES: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ("copy", (0,), (4096,), (4099,)),
    ("matrix", (1, 0), (64, 96), (61, 67)),
    ("3d-021", (0, 2, 1), (4, 32, 64), (3, 17, 29)),
    ("3d-102", (1, 0, 2), (8, 16, 64), (7, 9, 13)),
    ("3d-120", (1, 2, 0), (32, 4, 64), (17, 3, 29)),
    ("3d-201", (2, 0, 1), (4, 32, 64), (3, 17, 29)),
    ("3d-210", (2, 1, 0), (32, 4, 64), (17, 3, 29)),
    ("nchw-nhwc", (0, 2, 3, 1), (2, 16, 8, 16), (2, 3, 7, 11)),
    ("nhwc-nchw", (0, 3, 1, 2), (2, 8, 16, 16), (2, 7, 11, 3)),
    ("heads", (0, 2, 1, 3), (2, 16, 8, 32), (2, 5, 3, 9)),
    ("4d-reversed", (3, 2, 1, 0), (16, 4, 8, 32), (5, 3, 4, 7)),
    ("5d-reversed", (4, 3, 2, 1, 0), (16, 2, 4, 2, 32), (5, 2, 3, 2, 7)),
    ("5d-pairs", (0, 2, 1, 4, 3), (2, 4, 2, 16, 32), (2, 3, 2, 5, 7)),
    ("6d", (5, 0, 3, 2, 1, 4), (2, 4, 2, 2, 16, 32), (2, 3, 2, 2, 3, 5)),
    ("7d", (6, 0, 5, 1, 4, 2, 3), (2, 2, 2, 16, 2, 2, 16), (2, 3, 2, 3, 2, 3, 5)),
    ("8d-blocks", (2, 3, 4, 5, 0, 1, 6, 7), (2, 4, 2, 4, 2, 4, 4, 16), (2, 3, 2, 1, 2, 3, 2, 5)),
    ("8d-mixed", (7, 5, 3, 1, 6, 4, 2, 0), (16, 2, 2, 2, 2, 2, 2, 32), (3, 2, 2, 2, 1, 2, 2, 5)),
]

# view, perm, shape of the array that is viewed
_VIEWED: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("every second row", (1, 0), (64, 48)),
    ("every third column", (1, 0), (32, 96)),
    ("reversed", (1, 0), (33, 65)),
    ("inner block", (1, 0), (35, 67)),
    ("inner block", (2, 0, 1), (7, 35, 35)),
    ("already transposed", (2, 0, 1), (16, 4, 32)),
    ("one row repeated", (1, 0), (32, 64)),
    ("one column repeated", (2, 1, 0), (16, 4, 32)),
    ("sliding windows", (1, 2, 0), (35, 32)),
]


def _table() -> list[Case]:
    cases = []
    for width, dtype in DTYPE_OF_WIDTH.items():
        for name, perm, divisible, odd in _SHAPES:
            cases.append(Case(f"{name}-{width}B", dtype, divisible, perm))
            cases.append(Case(f"{name}-odd-{width}B", dtype, odd, perm))
        for view, perm, shape in _VIEWED:
            name = f"{view.replace(' ', '-')}-{len(perm)}d-{width}B"
            cases.append(Case(name, dtype, shape, perm, view))
    return cases


REPORTED = [case for case in _reported() if not case.id.startswith("past-32-bit")]
BEYOND_32_BIT = next(case for case in _reported() if case.id.startswith("past-32-bit"))
TABLE = _table()
