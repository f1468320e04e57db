"""What `hp.permute`, `hp.contiguous`, `hp.auto_threads` and `hp.devices` promise."""

from __future__ import annotations

import doctest
import inspect
import sys

import numpy as np
import pytest

import hptp as hp
from hptp import _core
from tests.reference import assert_same_bits, permuted, random_array


def test_perm_means_what_it_means_in_numpy() -> None:
    x = random_array((2, 3, 5), np.int32)
    result = hp.permute(x, (2, 0, 1))
    assert result.shape == (5, 2, 3)
    assert result[4, 1, 2] == x[1, 2, 4]


@pytest.mark.parametrize(
    "perm",
    [(-1, 0, 1), [2, 0, 1], np.array([2, 0, 1]), (np.int8(2), np.uint64(0), -2), range(3)],
    ids=repr,
)
def test_spellings_of_perm(perm: object) -> None:
    x = random_array((2, 3, 5), np.int16)
    assert_same_bits(hp.permute(x, perm), np.transpose(x, tuple(perm)).copy())


def test_zero_dimensional() -> None:
    x = np.array(7.5)
    result = hp.permute(x, ())
    assert type(result) is np.ndarray
    assert result.shape == ()
    assert result == 7.5
    assert not np.shares_memory(result, x)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), (0, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    perm = tuple(reversed(range(len(shape))))
    result = hp.permute(np.zeros(shape, np.int16), perm)
    assert result.shape == shape[::-1]
    assert result.dtype == np.int16


@pytest.mark.parametrize("perm", [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", [(1, 1), (1, 33), (33, 1), (8, 8)])
def test_result_is_new_memory(shape: tuple[int, int], perm: tuple[int, int]) -> None:
    """Even where the permutation moves nothing, unlike a view."""
    x = random_array(shape, np.float32)
    result = hp.permute(x, perm)
    assert not np.shares_memory(result, x)
    assert result.flags.c_contiguous
    assert result.flags.owndata
    assert result.flags.writeable
    assert_same_bits(result, permuted(x, perm))


@pytest.mark.parametrize("num_threads", [None, 1, 3, np.int64(2), 10**6, 10**30])
def test_num_threads_never_changes_the_result(num_threads: int | None) -> None:
    x = random_array((300, 1001), np.float64)
    assert_same_bits(hp.permute(x, (1, 0), num_threads=num_threads), permuted(x, (1, 0)))


def test_result_goes_to_out() -> None:
    x = random_array((20, 30), np.int64)
    out = np.zeros((30, 20), np.int64)
    assert hp.permute(x, (1, 0), out=out) is out
    assert_same_bits(out, permuted(x, (1, 0)))


def test_views_are_read_in_place() -> None:
    """No hidden copy: a view of 8 TB reads only the elements it names."""
    element = np.arange(4, dtype=np.int32)
    x = np.broadcast_to(element, (2, 3, 4))
    assert_same_bits(hp.permute(x, (2, 0, 1)), permuted(x, (2, 0, 1)))
    rows = np.lib.stride_tricks.as_strided(element, (2, 4), (0, -4))[:, :1]
    assert_same_bits(hp.permute(rows, (1, 0)), permuted(rows, (1, 0)))


def test_contiguous_is_the_identity_where_it_can_be() -> None:
    x = random_array((4, 6), np.float32)
    assert hp.contiguous(x) is x
    single_row = random_array((5, 7), np.float32)[2:3]
    assert hp.contiguous(single_row) is single_row
    assert hp.contiguous(np.zeros((0, 4))[:, ::2]).shape == (0, 2)


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5)])
def test_contiguous_copies_the_rest(shape: tuple[int, ...]) -> None:
    x = random_array(shape, np.float32)
    for view in (x.T, x[::-1], x[..., ::2], np.broadcast_to(x[:1], shape)):
        result = hp.contiguous(view)
        assert result is not view
        assert result.flags.c_contiguous
        assert_same_bits(result, view.copy())


def test_short_path_into_out() -> None:
    """NumPy arrays of plain layout take it, the rest is left, untouched, to the general path."""
    x = random_array((5, 7, 12), np.float32)
    expected = x.transpose(2, 0, 1)
    block = np.zeros((24, 5, 14), np.float32)
    for out in (np.zeros((12, 5, 7), np.float32), block[::2, ::-1, 3:10]):
        assert _core.permute_plain(x, (2, 0, 1), out) is out
        assert_same_bits(out.copy(), expected.copy())
    for untouched in (block[1::2], block[..., :3], block[..., 10:]):
        assert not untouched.any()

    frozen = np.zeros((12, 5, 7), np.float32)
    frozen.flags.writeable = False
    shared = np.zeros(5 * 7 * 12 + 1, np.float32)
    left = [
        frozen,
        np.zeros((12, 7, 5), np.float32),
        np.zeros((12, 5, 7), np.int32),
        np.zeros((12, 5, 7), ">f4"),
        np.lib.stride_tricks.as_strided(np.zeros(60, np.float32), (12, 5, 7), (20, 4, 0)),
        [0.0],
    ]
    for refused in left:
        assert _core.permute_plain(x, (2, 0, 1), refused) is NotImplemented
        assert not np.any(refused)
    source, out = shared[:-1].reshape(5, 7, 12), shared[1:].reshape(12, 5, 7)
    assert _core.permute_plain(source, (2, 0, 1), out) is NotImplemented
    assert _core.permute_plain(x, (1, 0, 2), x) is NotImplemented


def test_auto_threads() -> None:
    assert hp.auto_threads(0) == 1
    assert hp.auto_threads(1 << 20) == 1
    counts = [hp.auto_threads(size << 20) for size in (1, 4, 16, 64, 1 << 20)]
    assert counts == sorted(counts)
    assert counts[-1] <= 16


def test_devices_say_why() -> None:
    found = {info.name: info for info in hp.devices()}
    assert found["cpu"].available
    assert all(info.reason for info in found.values())


@pytest.mark.parametrize("module", ["hptp", "hptp.api", "hptp.dispatch"])
def test_examples_in_the_documentation(module: str) -> None:
    results = doctest.testmod(sys.modules[module], optionflags=doctest.ELLIPSIS)
    assert results.attempted > 0
    assert results.failed == 0


def test_signature_and_documentation() -> None:
    parameters = inspect.signature(hp.permute).parameters
    assert list(parameters)[:2] == ["x", "perm"]
    assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[2:])
    for name in hp.__all__:
        assert getattr(hp, name).__doc__, name


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_out_may_have_any_strides(device: str) -> None:
    """A block of a larger array, reversed, with steps: only its own elements are written."""
    x = random_array((8, 32, 64), np.float32)
    expected = permuted(x, (2, 0, 1))
    for place in (np.s_[3:67, 1:9, :32], np.s_[65:1:-1, 8:0:-1, ::2], np.s_[:64, 1:9, -1:-33:-1]):
        memory = random_array((70, 10, 64), np.float32, seed=1)
        written = memory.copy()
        target = memory[place]
        assert target.shape == expected.shape
        written[place] = expected
        assert hp.permute(x, (2, 0, 1), out=target, device=device) is target
        assert_same_bits(memory, written)
