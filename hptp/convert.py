"""Permute and convert in one pass: what `dtype=`, `scale=`, `shift=` and `axis=` of `permute` mean.

Only the CPU converts; the other devices move bytes. The rules of conversion are the core's.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hptp import _core
from hptp.arrays import View
from hptp.dispatch import get_device
from hptp.errors import PlanError, UnsupportedArrayError

CONVERTIBLE = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
NOT_SCALED = ("int64", "uint64", "float64")  # float32 arithmetic would lose their values

Factors = float | Sequence[float] | None


@dataclass(frozen=True)
class Conversion:
    """From one element type to another, by names that the core knows, and by which line."""

    src_dtype: str
    dst_dtype: str
    scale: list[float] | None
    shift: list[float] | None
    axis: int  # of the source; -1 where one scale and one shift are for all

    def execute(self, source: View, order: tuple[int, ...], target: View, num_threads: int) -> None:
        _core.permute_convert(
            source.address,
            source.strides_bytes,
            self.src_dtype,
            target.address,
            target.strides_bytes,
            self.dst_dtype,
            source.shape,
            order,
            num_threads,
            self.scale,
            self.shift,
            self.axis,
        )


def plan_conversion(
    source: View, dtype: Any, scale: Factors, shift: Factors, axis: int | None, device: str
) -> Conversion:
    """Check the arguments of a converting permute. `dtype` is one of the source's library.

    Raises:
        UnsupportedArrayError: elements of these types cannot be converted, or not scaled.
        PlanError: scale, shift and axis do not fit each other or the source, or the device asked
            for does not convert.
    """
    if device != "auto" and get_device(device).name != "cpu":
        raise PlanError(f"device {device!r} moves bytes; only the CPU converts")
    src_dtype, dst_dtype = map(source.library.dtype_name, (source.dtype, dtype))
    for name in (src_dtype, dst_dtype):
        if name not in CONVERTIBLE:
            raise UnsupportedArrayError(
                f"cannot convert {src_dtype} to {dst_dtype}: {name} is none of "
                f"{', '.join(CONVERTIBLE)}"
            )
    if (scale is not None or shift is not None) and src_dtype in NOT_SCALED:
        raise UnsupportedArrayError(f"cannot scale or shift {src_dtype}: it is done in float32")
    position, size = -1, None
    if axis is not None:
        position = _axis(axis, len(source.shape))
        size = source.shape[position]
    return Conversion(
        src_dtype,
        dst_dtype,
        _factors("scale", scale, size),
        _factors("shift", shift, size),
        position,
    )


def _axis(axis: Any, ndim: int) -> int:
    """`axis` counted from the front."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise PlanError(f"axis {axis!r} is not an integer")
    if not -ndim <= operator.index(axis) < ndim:
        raise PlanError(f"axis {axis} of an array with {ndim} axes")
    return operator.index(axis) % ndim


def _factors(name: str, value: Factors, size: int | None) -> list[float] | None:
    """`value` as the core takes it: one number, or `size` numbers where there is an axis."""
    if value is None:
        return None
    try:
        if isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0:
            return [float(value)] * (1 if size is None else size)  # type: ignore[arg-type]
        values = [float(factor) for factor in value]
    except OverflowError:
        raise PlanError(f"{name} {value!r} is beyond float64") from None
    except (TypeError, ValueError):
        raise PlanError(f"{name} {value!r} is neither a number nor a list of numbers") from None
    if size is None:
        raise PlanError(f"{name} has {len(values)} values: axis= must say for which axis")
    if len(values) != size:
        raise PlanError(f"{name} has {len(values)} values for an axis of size {size}")
    return values
