"""The functions users call: check once, plan, execute.

Everything a caller can get wrong is refused here, before a byte is written.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from hptp import _core, arrays, dispatch
from hptp.errors import PlanError


def permute(
    x: Any,
    perm: Sequence[int],
    *,
    out: Any = None,
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
        out: where to write: a C-contiguous array like the result, sharing no memory with `x`.
        device: "auto", "cpu", "npu" or "sim"; `hptp.devices()` says which are here. "auto" means
            the environment variable HPTP_DEVICE as it was when hptp was imported, else the fastest.
        num_threads: at most this many CPU threads, and never more than one per 64 KiB. By default
            one per 2 MiB, at most 16, and no more than the CPUs this process may use.

    Returns:
        `out` if given, else a new array of the same kind and dtype as `x`. It never shares memory
        with `x`, and a PyTorch result carries no autograd history.

    Raises:
        PermutationError: `perm` is not a permutation of the axes of `x`.
        OutputError: `out` cannot hold the result or shares memory with `x`.
        UnsupportedArrayError: `x` is not an array of self-contained elements in CPU memory.
        DeviceError: the device is unknown, absent, or failed.
        PlanError: the device cannot do this permutation, or `num_threads` is not positive.

    Example:
        >>> import numpy as np, hptp as hp
        >>> images = np.zeros((8, 224, 224, 3), np.uint8)  # N, H, W, C
        >>> hp.permute(images, (0, 3, 1, 2)).shape  # N, C, H, W
        (8, 3, 224, 224)
    """
    if out is None and num_threads is None and device == "auto" == dispatch.DEFAULT_DEVICE:
        # A small NumPy array takes less time than the rest of this function.
        result = _core.permute_numpy(x, perm)
        if result is not NotImplemented:
            return result

    source = arrays.view(x)
    order = _core.normalize_perm(perm, len(source.shape))
    shape = tuple(source.shape[axis] for axis in order)
    if out is None:
        result = source.library.empty(shape, source.dtype)
        target = arrays.view(result)
    else:
        target = arrays.view_output(out, source, shape)
    problem = _core.Problem(
        source.elem_bytes, source.shape, order, source.strides_bytes, target.strides_bytes
    )
    plan = dispatch.make_plan(problem, device, _thread_bound(num_threads))
    plan.device_plan.execute(source.address, target.address)
    if out is None:
        return source.library.finish(result)
    source.library.written(out)
    return out


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
    return bound
