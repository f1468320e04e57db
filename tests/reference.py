"""The oracle: NumPy's transpose, compared bit for bit.

Elements are opaque bytes here too: test data is random bytes whatever the dtype, and equality is
equality of memory, so that NaNs, negative zeros and padding count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def random_array(shape: Sequence[int], dtype: np.dtype | str, seed: int = 0) -> np.ndarray:
    """A writable C-contiguous array of random bytes."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    data = bytearray(np.random.default_rng(seed).bytes(count * dtype.itemsize))
    return np.ndarray(tuple(shape), dtype, data)


def permuted(x: np.ndarray, perm: Sequence[int]) -> np.ndarray:
    """What `hp.permute(x, perm)` must return, with the padding of structures, which NumPy skips."""
    opaque = x.view(f"V{x.itemsize}") if x.dtype.names else x
    return np.transpose(opaque, perm).copy(order="C").view(x.dtype)


def as_bytes(x: np.ndarray) -> np.ndarray:
    """The elements of `x` in C order as uint8, one row an element."""
    return np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize)


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    """Fail, naming the first wrong element, unless shape, dtype and every byte agree."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if actual.tobytes() == expected.tobytes():
        return
    wrong = np.flatnonzero((as_bytes(actual) != as_bytes(expected)).any(axis=1))
    index = np.unravel_index(wrong[0], actual.shape)
    raise AssertionError(
        f"{wrong.size} of {actual.size} elements differ, first at {tuple(map(int, index))}: "
        f"{as_bytes(actual)[wrong[0]].tobytes().hex()} instead of "
        f"{as_bytes(expected)[wrong[0]].tobytes().hex()}"
    )
