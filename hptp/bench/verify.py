"""Sources that betray a wrong permutation, and the comparison of results with NumPy's bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hptp.bench.cases import Case

if TYPE_CHECKING:
    import numpy as np

CHUNK_BYTES = 1 << 26  # compared at a time, so that comparing needs little memory
SPOILED = 0xA5


def source(case: Case, seed: int = 0) -> np.ndarray:
    """Random elements, written, so that no page is the shared page of zeros.

    Floats are ordinary numbers: a library that multiplies by 1 may change the bits of a NaN or of a
    denormal, which is not what is compared here.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    dtype = np.dtype(case.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, case.shape, dtype, endpoint=True)
    if dtype.kind == "c":
        pairs = rng.random((*case.shape, 2), "float32" if dtype.itemsize == 8 else "float64")
        return pairs.view(dtype).reshape(case.shape)
    return rng.random(case.shape, "float64" if dtype.itemsize == 8 else "float32").astype(
        dtype, copy=False
    )


def converted(x: np.ndarray, case: Case) -> np.ndarray:
    """The result's elements for those of the permuted source: what NumPy makes of each."""
    import numpy as np

    if case.to_dtype is None:
        return x
    result = x.astype(np.float32)
    if case.scale is not None:
        result *= np.float32(case.scale)
    if case.axis is not None:
        axes = [i for i, axis in enumerate(case.perm) if axis != case.axis]
        result += np.expand_dims(np.array(case.shift, np.float32), axes)
    if case.to_dtype == "float32":
        return result
    bits = result.view(np.uint32)  # of ordinary numbers, rounded to the nearest, ties to even
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def spoil(dst: np.ndarray) -> None:
    """Touch every page of a destination, and leave nothing there that could pass for a result."""
    import numpy as np

    dst.reshape(-1).view(np.uint8).fill(SPOILED)


def mismatch(result: Any, expected: np.ndarray) -> str:
    """What is wrong with a result, in words; empty if shape and every bit are as expected."""
    import numpy as np

    actual = np.asarray(result)
    if actual.shape != expected.shape:
        return f"wrong: shape {actual.shape} instead of {expected.shape}"
    if not actual.flags.c_contiguous:
        return f"wrong: strides {actual.strides} are not those of a contiguous array"
    if actual.itemsize != expected.itemsize:
        return f"wrong: {actual.itemsize}-byte elements instead of {expected.itemsize}-byte ones"
    actual_bytes, expected_bytes = (a.reshape(-1).view(np.uint8) for a in (actual, expected))
    for start in range(0, expected.nbytes, CHUNK_BYTES):
        chunk = slice(start, start + CHUNK_BYTES)
        differing = np.flatnonzero(actual_bytes[chunk] != expected_bytes[chunk])
        if differing.size:
            element = (start + int(differing[0])) // expected.itemsize
            index = tuple(map(int, np.unravel_index(element, expected.shape)))
            return f"wrong: first at {index}"
    return ""
