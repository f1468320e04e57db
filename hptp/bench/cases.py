"""The problems that are measured: twenty rows, the pitch sweep, small sizes, conversions, a file's.

Each is a permutation of a C-contiguous array. The rows carry their targets, as shares of the speed
of a non-temporal copy of the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ITEM_BYTES = {
    "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
    "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

MAX_FILE_CASE_BYTES = 1 << 30  # a larger tensor takes the slowest peers minutes


@dataclass(frozen=True)
class Case:
    """One permutation to measure.

    Args:
        id: names the case in tables.
        group: cases of one group are reported together: "rows", "small", "file", "pitch …".
        dtype: NumPy's name.
        shape, perm: as `numpy.transpose` takes them.
        must: shares of the copy's speed to be reached, on one thread and on all cores.
        reach: the share that is aimed at.
        scaled_axes: the axes that `scaled` may change; all by default.
        to_dtype: float32 or bfloat16, where elements are converted on the way.
        scale, shift: of all elements, and of each index of `axis`, in float32.
    """

    id: str
    group: str
    dtype: str
    shape: tuple[int, ...]
    perm: tuple[int, ...]
    must: tuple[float, ...] = ()
    reach: float | None = None
    scaled_axes: tuple[int, ...] | None = None
    to_dtype: str | None = None
    scale: float | None = None
    shift: tuple[float, ...] = ()
    axis: int | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return self.elements * ITEM_BYTES[self.dtype]

    @property
    def moved_bytes(self) -> int:
        """Bytes read and bytes written."""
        return self.nbytes + self.elements * ITEM_BYTES[self.to_dtype or self.dtype]

    @property
    def out_dtype(self) -> str:
        """NumPy's name of the result's elements, or of integers with their bits."""
        dtype = self.to_dtype or self.dtype
        return "uint16" if dtype == "bfloat16" else dtype

    @property
    def out_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.perm)

    def must_with(self, num_threads: int) -> float | None:
        """The share of the copy that the row must reach with so many threads."""
        position = 0 if num_threads == 1 else 1
        return self.must[position] if position < len(self.must) else None

    def scaled(self, size: float) -> Case:
        """The same problem with about `size` times the bytes, to the nearest power of two.

        The longest axis is halved or doubled, again and again, so that the proportions stay.

        >>> ROWS[0].scaled(1 / 16).shape
        (2048, 2048)
        """
        if not 0 < size < math.inf:
            raise ValueError(f"size must be positive and finite, not {size}")
        shape = list(self.shape)
        axes = self.scaled_axes or tuple(range(len(shape)))
        steps = round(math.log2(size))
        for _ in range(abs(steps)):
            longest = max(axes, key=lambda axis: shape[axis])
            length = shape[longest]
            shape[longest] = 2 * length if steps > 0 else max(length // 2, 1)
        return replace(self, shape=tuple(shape))

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value not in (None, ())}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Case:
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        return cls(**{**entry, **lists})


def _row(
    id: str,
    dtype: str,
    shape: tuple[int, ...],
    perm: tuple[int, ...],
    must: tuple[float, ...],
    reach: float,
    scaled_axes: tuple[int, ...] | None = None,
) -> Case:
    return Case(id, "rows", dtype, shape, perm, must, reach, scaled_axes)


_8D_U16 = (12, 8, 8, 16, 12, 16, 20, 3)
_8D_F32 = (12, 8, 8, 16, 6, 16, 20, 3)
_REVERSED_22 = tuple(range(21, -1, -1))
_7D = (10, 10, 10, 100, 10, 10, 10)
_HEADS = (8, 2048, 32, 128)
_BATCH, _SEQUENCE = (0,), (1,)

ROWS = (
    _row("2-D f32", "float32", (8192, 8192), (1, 0), (0.60, 0.75), 0.80),
    _row("batched 2-D f32", "float32", (32, 1024, 2048), (0, 2, 1), (0.60, 0.75), 0.80, _BATCH),
    _row("2-D u8", "uint8", (16384, 16384), (1, 0), (0.35, 0.55), 0.60),
    _row("2-D f64", "float64", (4096, 4096), (1, 0), (0.65, 0.80), 0.85),
    _row("NCHW-NHWC f32", "float32", (64, 256, 56, 56), (0, 2, 3, 1), (0.60, 0.75), 0.85, _BATCH),
    _row("NHWC-NCHW f32", "float32", (64, 56, 56, 256), (0, 3, 1, 2), (0.70, 0.80), 0.90, _BATCH),
    _row("CHW-HWC u8", "uint8", (64, 3, 224, 224), (0, 2, 3, 1), (0.95,), 1.10, _BATCH),
    _row("HWC-CHW u8", "uint8", (64, 224, 224, 3), (0, 3, 1, 2), (0.85,), 1.00, _BATCH),
    _row("heads BSHD-BHSD u16", "uint16", _HEADS, (0, 2, 1, 3), (0.90, 0.95), 0.98, _SEQUENCE),
    _row("8-D u16 34012567", "uint16", _8D_U16, (3, 4, 0, 1, 2, 5, 6, 7), (0.95,), 0.98),
    _row("8-D u16 67345012", "uint16", _8D_U16, (6, 7, 3, 4, 5, 0, 1, 2), (0.40,), 0.70),
    _row("8-D u16 45671230", "uint16", _8D_U16, (4, 5, 6, 7, 1, 2, 3, 0), (0.35,), 0.70),
    _row("8-D u16 65432107", "uint16", _8D_U16, (6, 5, 4, 3, 2, 1, 0, 7), (0.45,), 0.70),
    _row("8-D f32 34012567", "float32", _8D_F32, (3, 4, 0, 1, 2, 5, 6, 7), (0.95,), 0.98),
    _row("8-D f32 67345012", "float32", _8D_F32, (6, 7, 3, 4, 5, 0, 1, 2), (0.45,), 0.75),
    _row("8-D f32 45671230", "float32", _8D_F32, (4, 5, 6, 7, 1, 2, 3, 0), (0.40,), 0.75),
    _row("8-D f32 65432107", "float32", _8D_F32, (6, 5, 4, 3, 2, 1, 0, 7), (0.45,), 0.75),
    _row("rank 22 reversed f64", "float64", (2,) * 22, _REVERSED_22, (0.25,), 0.60),
    _row("7-D f32 3012456", "float32", _7D, (3, 0, 1, 2, 4, 5, 6), (0.90,), 0.98),
    _row("wide 2-D f32", "float32", (800, 200000), (1, 0), (0.55,), 0.80),
)  # fmt: skip

_IMAGES = (64, 224, 224, 3)
_NCHW, _NHWC = (0, 3, 1, 2), (0, 2, 3, 1)  # from the other of the two


def conversions() -> list[Case]:
    """What image pipelines and mixed precision convert while they permute."""
    images = Case(
        "HWC-CHW u8 to f32", "convert", "uint8", _IMAGES, _NCHW, (), None, _BATCH, "float32"
    )
    shift = (-0.485, -0.456, -0.406)
    features = Case(
        "NCHW-NHWC f32 to bf16", "convert", "float32", (64, 256, 56, 56), _NHWC, (), None, _BATCH,
        "bfloat16",
    )  # fmt: skip
    return [
        images,
        replace(images, id="HWC-CHW u8 to f32, scaled", scale=1 / 255, shift=shift, axis=3),
        features,
        replace(features, id="NHWC-NCHW f32 to bf16", shape=(64, 56, 56, 256), perm=_NCHW),
    ]


def pitch_sweep(size: float = 1.0) -> list[Case]:
    """Square transposes of 2^k - 1, 2^k and 2^k + 1: powers of two must not collide in caches."""
    exponents = {"float32": (11, 12, 13), "float64": (11, 12), "uint8": (12, 13, 14)}
    return [
        Case(f"{dtype} {n}x{n}", f"pitch {dtype} 2^{k - shift}", dtype, (n, n), (1, 0))
        for shift in [max(round(-math.log2(size) / 2), 0)]
        for dtype, ks in exponents.items()
        for k in ks
        for n in (2 ** (k - shift) - 1, 2 ** (k - shift), 2 ** (k - shift) + 1)
    ]


def small() -> list[Case]:
    """1 to 2^22 elements, where the cost of a call gives way to bandwidth; and one tiny tensor."""
    tiny = Case("f32 2x3x4", "tiny", "float32", (2, 3, 4), (2, 0, 1))
    squares = [
        Case(f"f32 2^{k}", "small", "float32", (2 ** (k // 2), 2 ** (k - k // 2)), (1, 0))
        for k in range(23)
    ]
    return [tiny, *squares]


def load(path: Path) -> tuple[list[Case], list[str]]:
    """The cases of a file like tests/data/cases.json, and why the others are left out.

    A file is `{"cases": [{"id", "dtype", "shapes": [...], "perm"}, ...]}`. Strided views and odd
    alignments are matters of exactness and belong to the tests.
    """
    kept, left_out = [], []
    for entry in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        for shape in entry["shapes"]:
            id = f"{entry['id']} {'x'.join(map(str, shape))}"
            case = Case(
                _short(id),
                f"file {entry['id']}",
                entry["dtype"],
                tuple(shape),
                tuple(entry["perm"]),
            )
            if "view" in entry or "offsets_bytes" in entry:
                left_out.append(f"{entry['id']}: a view or an offset, not a whole aligned array")
            elif case.nbytes > MAX_FILE_CASE_BYTES:
                left_out.append(f"{entry['id']}: {case.nbytes / 2**30:.1f} GiB takes too long")
            else:
                kept.append(case)
    return kept, left_out


def matching(cases: Iterable[Case], patterns: Iterable[str]) -> list[Case]:
    """The cases whose id contains one of the patterns; all of them if there are none."""
    wanted = list(patterns)
    return [case for case in cases if not wanted or any(p in case.id for p in wanted)]


def _short(id: str) -> str:
    return id if len(id) <= 40 else id[:37] + "..."
