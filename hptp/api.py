"""The functions users call: check once, plan, execute.

Everything a caller can get wrong is refused here, before a byte is written.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hptp import _core, arrays, calibration, dispatch
from hptp.convert import Factors, plan_conversion
from hptp.errors import PlanError, UnsupportedArrayError

# More than any machine has; the core's count of threads is a C int.
_MAX_THREADS = 1 << 30


def permute(
    x: Any,
    perm: Sequence[int],
    *,
    out: Any = None,
    dtype: Any = None,
    scale: Factors = None,
    shift: Factors = None,
    axis: int | None = None,
    device: str = "auto",
    num_threads: int | None = None,
) -> Any:
    """Rearrange the axes of `x` into new, C-contiguous memory.

    Args:
        x: an array in CPU memory, of any shape, strides and element type: NumPy (ml_dtypes,
            structured and memory-mapped included), PyTorch, JAX, or anything with DLPack, the
            buffer protocol or `__array__`. Elements move as opaque bytes. Views are read in place.
        perm: the input axis that becomes each output axis, as in `numpy.transpose`: output axis i
            has size `x.shape[perm[i]]`. Negative entries count from the end.
        out: where to write: an array of the result's kind, dtype and shape, of any strides; no two
            of its elements share memory, nor any with `x`. `out=x` exchanges two axes of equal
            size in place.
        dtype: convert to this element type on the way: any of int8 … int64, uint8 … uint64,
            float16, bfloat16, float32, float64, from any of them. Integers saturate, float to
            integer truncates and saturates with NaN becoming 0, the rest rounds once to nearest.
        scale, shift: with either, an element becomes element · scale + shift, in float32, each step
            rounded, and is then rounded to the nearest of `dtype`. A number, or with `axis` a
            sequence of one number an index. Not for 64-bit elements.
        axis: the axis of `x` that `scale` and `shift` go along.
        device: "auto", "cpu", "npu" or "sim"; `hptp.devices()` says which are here. "auto" means
            the environment variable HPTP_DEVICE as it was when hptp was imported, else the fastest.
        num_threads: at most this many CPU threads, and never more than one per 64 KiB. By default
            one per 2 MiB, at most 16, and no more than the CPUs this process may use.

    Returns:
        `out` if given, else a new array of the same kind as `x`, and of its dtype unless `dtype` is
        given. It never shares memory with `x`, and a PyTorch result carries no autograd history.

    Raises:
        PermutationError: `perm` is not a permutation of the axes of `x`.
        OutputError: `out` cannot hold the result or shares memory with `x`.
        UnsupportedArrayError: `x` is not an array of self-contained elements in CPU memory, or
            they cannot be converted to `dtype`.
        DeviceError: the device is unknown, absent, or failed.
        PlanError: the device cannot do this, `num_threads` is not positive, or `scale`, `shift` and
            `axis` do not fit each other or `x`.

    Example:
        >>> import numpy as np, hptp as hp
        >>> images = np.zeros((8, 224, 224, 3), np.uint8)  # N, H, W, C
        >>> hp.permute(images, (0, 3, 1, 2)).shape  # N, C, H, W
        (8, 3, 224, 224)
        >>> hp.permute(images, (0, 3, 1, 2), dtype="float32", scale=1 / 255).dtype
        dtype('float32')
    """
    plain = dtype is scale is shift is axis is num_threads is None
    if plain and (device == "cpu" or device == "auto" == dispatch.DEFAULT_DEVICE):
        # A small array takes less time than the rest of this function.
        result = _core.permute_plain(x, perm, out)
        if result is not NotImplemented:
            return result

    source = arrays.view(x)
    order = _core.normalize_perm(perm, len(source.shape))
    shape = tuple(source.shape[i] for i in order)
    result_dtype = source.dtype if dtype is None else source.library.dtype(dtype)
    if out is None:
        result = source.library.empty(shape, result_dtype)
        target = arrays.view(result)
    else:
        target = arrays.view_output(out, source, shape, result_dtype)
    threads = _thread_bound(num_threads)
    scales = scale is not None or shift is not None
    if axis is not None and not scales:
        raise PlanError(f"axis {axis} without scale or shift")
    converts = scales or result_dtype != source.dtype
    in_place = out is not None and not converts and arrays.are_one(source, target)
    if out is not None and not in_place:
        arrays.check_apart(source, target)
    if converts:
        conversion = plan_conversion(source, result_dtype, scale, shift, axis, device)
        conversion.execute(source, order, target, threads)
    elif in_place:
        _permute_in_place(source, order, device, threads)
    else:
        problem = _problem(source, order, target.strides_bytes)
        dispatch.choose(problem, device, threads).execute(source.address, target.address, threads)
    if out is None:
        return source.library.finish(result)
    source.library.written(out)
    return out


def _permute_in_place(
    array: arrays.View, order: tuple[int, ...], device: str, num_threads: int
) -> None:
    if device != "auto" and dispatch.get_device(device).name != "cpu":
        raise PlanError(f"device {device!r} needs a separate out; only the CPU permutes in place")
    _core.permute_in_place(
        array.address, array.strides_bytes, array.shape, order, array.elem_bytes, num_threads
    )


def contiguous(x: Any, *, num_threads: int | None = None) -> Any:
    """`x` itself if it is C-contiguous, else a C-contiguous copy of it.

    Args:
        x: an array in CPU memory, as for `permute`.
        num_threads: as for `permute`.

    Raises:
        UnsupportedArrayError: `x` is not an array of self-contained elements in CPU memory.
        PlanError: `num_threads` is not a positive integer.

    Example:
        >>> import numpy as np, hptp as hp
        >>> columns = np.zeros((4, 6)).T
        >>> hp.contiguous(columns).flags.c_contiguous, hp.contiguous(columns) is columns
        (True, False)
    """
    source = arrays.view(x)
    if source.is_contiguous:
        _thread_bound(num_threads)
        return x
    return permute(x, range(len(source.shape)), device="cpu", num_threads=num_threads)


@dataclass(frozen=True)
class Plan:
    """How and where one permutation will run, decided without touching any data. See `plan`.

    shape, perm   the permutation as it was given; `problem` is its canonical form
    dtype         of the elements
    """

    shape: tuple[int, ...]
    perm: tuple[int, ...]
    dtype: Any
    num_threads: int
    choice: dispatch.Choice

    @property
    def problem(self) -> _core.Problem:
        """The canonical problem every device solves."""
        return self.choice.problem

    @property
    def device(self) -> str:
        """The name of the device chosen."""
        return self.choice.device

    @property
    def reason(self) -> str:
        """Why that device."""
        return self.choice.reason

    @property
    def kernel(self) -> str:
        """The routine that moves the data."""
        return self.choice.device_plan.kernel

    @property
    def isa(self) -> str:
        """The instruction set that routine uses."""
        return self.choice.device_plan.isa

    def describe(self) -> str:
        """The plan in words, one fact a line."""
        return (
            f"{self.problem}\n"
            f"device {self.device}: {self.reason}\n"
            f"{self.choice.device_plan.describe()}"
        )

    def execute(self, x: Any, out: Any) -> None:
        """Permute `x` into `out`, two arrays laid out in memory as those that were planned for.

        Raises:
            PlanError: they are laid out differently.
            OutputError: `out` cannot hold the result or shares memory with `x`.
            DeviceError: the device failed.
        """
        source = arrays.view(x)
        if source.shape != self.shape:
            raise PlanError(f"x has shape {source.shape}, the plan is for {self.shape}")
        shape = tuple(self.shape[axis] for axis in self.perm)
        target = arrays.view_output(out, source, shape, source.dtype)
        arrays.check_apart(source, target)
        problem = _problem(source, self.perm, target.strides_bytes)
        if problem != self.problem:
            raise PlanError(f"the arrays are laid out as {problem}, the plan is for {self.problem}")
        self.choice.execute(source.address, target.address, self.num_threads)
        source.library.written(out)


def plan(
    x_or_shape: Any,
    perm: Sequence[int],
    *,
    dtype: Any = None,
    device: str = "auto",
    num_threads: int | None = None,
) -> Plan:
    """Decide how and where to permute, without touching any data.

    Args:
        x_or_shape: an array as for `permute`, or the shape (a tuple or list) of a C-contiguous one.
        perm: as for `permute`.
        dtype: with a shape, its element type: a NumPy or PyTorch dtype, or a name NumPy knows.
        device: as for `permute`.
        num_threads: as for `permute`.

    Returns:
        A `Plan`, which can be printed with `describe`, and executed on arrays laid out like `x` and
        a C-contiguous result.

    Raises:
        PermutationError, UnsupportedArrayError, DeviceError, PlanError: as for `permute`.

    Example:
        >>> import hptp as hp
        >>> p = hp.plan((1024, 768), (1, 0), dtype="float32", device="cpu")
        >>> p.problem
        <Problem: 4-byte elements, shape (1024, 768), perm (1, 0)>
    """
    bound = _thread_bound(num_threads)
    if isinstance(x_or_shape, (tuple, list)):
        shape = _shape(x_or_shape)
        order = _core.normalize_perm(perm, len(shape))
        problem = _core.Problem(_elem_bytes(dtype), shape, order)
    else:
        source = arrays.view(x_or_shape)
        if dtype is not None and dtype != source.dtype:
            raise PlanError(f"dtype {dtype} with an array of dtype {source.dtype}")
        shape, dtype = source.shape, source.dtype
        order = _core.normalize_perm(perm, len(shape))
        problem = _problem(source, order, None)
    return Plan(shape, order, dtype, bound, dispatch.choose(problem, device, bound))


def explain(
    x_or_shape: Any,
    perm: Sequence[int],
    *,
    dtype: Any = None,
    device: str = "auto",
    num_threads: int | None = None,
) -> str:
    """Say what `permute` would do: the canonical problem, the device and why, the plan, the time.

    The arguments and errors are those of `plan`.

    Example:
        >>> import hptp as hp
        >>> print(hp.explain((8, 224, 224, 3), (0, 3, 1, 2), dtype="uint8"))  # doctest: +ELLIPSIS
        problem    <Problem: 1-byte elements, shape (8, 50176, 3), perm (0, 2, 1)>
        device     cpu: ...
    """
    made = plan(x_or_shape, perm, dtype=dtype, device=device, num_threads=num_threads)
    rows = [("problem", str(made.problem)), ("device", f"{made.device}: {made.reason}")]
    others = [name for name in dispatch.DEVICE_NAMES if name != made.device]
    rows += [(f"not {name}", dispatch.why_not(name, made.choice)) for name in others]
    rows += [("plan", line) for line in made.choice.device_plan.describe().splitlines()]
    rows.append(("predicted", _prediction(made)))
    return "\n".join(
        f"{'' if i and rows[i - 1][0] == name else name:10} {text}"
        for i, (name, text) in enumerate(rows)
    )


def _prediction(made: Plan) -> str:
    seconds = made.choice.predicted_seconds()
    if seconds is None:
        return "nothing: it is not made for speed"
    basis = "measured rates" if calibration.current().measured else "typical rates; see calibrate"
    rate = made.problem.nbytes / seconds / 1e9
    return f"{seconds * 1e3:.3g} ms, {rate:.3g} GB/s one way ({basis})"


def _problem(
    source: arrays.View, order: tuple[int, ...], dst_strides_bytes: tuple[int, ...] | None
) -> _core.Problem:
    return _core.Problem(
        source.elem_bytes, source.shape, order, source.strides_bytes, dst_strides_bytes
    )


def _shape(sizes: Sequence[Any]) -> tuple[int, ...]:
    try:
        shape = tuple(map(operator.index, sizes))
    except TypeError as error:
        raise PlanError(f"shape {sizes!r}: {error}") from None
    if any(abs(size) > sys.maxsize for size in shape):
        raise PlanError(f"shape {sizes!r} does not fit the address space")
    return shape


def _elem_bytes(dtype: Any) -> int:
    """The size of an element of a NumPy or PyTorch dtype, or of one that NumPy knows by name."""
    itemsize = getattr(dtype, "itemsize", None)
    if isinstance(itemsize, int):
        return itemsize
    if dtype is None:
        raise PlanError("dtype is None: a shape needs the dtype of its elements")
    if dtype == "bfloat16":  # NumPy knows it by name only after an import of ml_dtypes
        return 2
    import numpy as np

    try:
        return int(np.dtype(dtype).itemsize)
    except TypeError as error:
        raise UnsupportedArrayError(f"dtype {dtype!r}: {error}") from None


def _thread_bound(num_threads: int | None) -> int:
    """The core's spelling of `num_threads`: 0 is automatic."""
    if num_threads is None:
        return 0
    try:
        bound = operator.index(num_threads)
    except TypeError:
        bound = 0
    if bound < 1 or isinstance(num_threads, bool):
        raise PlanError(f"num_threads must be a positive integer or None, not {num_threads!r}")
    return min(bound, _MAX_THREADS)
