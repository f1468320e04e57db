"""Every case, on every device of this machine, against NumPy bit for bit."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hptp as hp
from tests.cases import BEYOND_32_BIT, REPORTED, TABLE, Case
from tests.reference import assert_same_bits, permuted, random_array

ELEMENT_SIZES = [*range(1, 18), 24, 33]
THREADS = [1, 3, 8, None]
GUARD_BYTES = 4096


def guarded(shape: tuple[int, ...], dtype: np.dtype, offset_bytes: int = 0) -> tuple:
    """An array to write into, and the memory on both sides of it, which must not change."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = random_array((2 * GUARD_BYTES + offset_bytes + nbytes,), np.uint8, seed=1)
    start = GUARD_BYTES + offset_bytes
    out = memory[start : start + nbytes].view(dtype).reshape(shape)
    return out, memory[:start], memory[start + nbytes :]


def check(case: Case, **arguments: object) -> None:
    """Permute `case` between guards and compare result, source and guards."""
    x = case.source()
    before = x.copy()
    expected = permuted(x, case.perm)
    out, low, high = guarded(expected.shape, expected.dtype, case.offset_bytes)
    low_before, high_before = low.copy(), high.copy()
    assert hp.permute(x, case.perm, out=out, **arguments) is out
    assert_same_bits(out, expected)
    assert_same_bits(x, before)
    assert_same_bits(low, low_before)
    assert_same_bits(high, high_before)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.id)
def test_table_on_cpu(case: Case) -> None:
    check(case, device="cpu")
    assert_same_bits(hp.permute(case.source(), case.perm), permuted(case.source(), case.perm))


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.id)
def test_table_on_sim(case: Case) -> None:
    """Interpreted, or refused because no part of it suits an NPU, as some of the narrowest are."""
    info = next(info for info in hp.devices() if info.name == "sim")
    if not info.available:
        pytest.skip(info.reason)
    x = case.source()
    try:
        plan = hp.plan(x, case.perm, device="sim")
    except hp.PlanError:
        assert x.dtype.itemsize < 4, "elements of whole words always suit it"
        return
    assert plan.device == "sim"
    assert plan.choice.device_plan.npu_bytes > 0
    check(case, device="sim")


@pytest.mark.parametrize("case", REPORTED, ids=lambda case: case.id)
def test_reported_case_on_cpu(case: Case) -> None:
    check(case, device="cpu")


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """A view of random elements, stepping and reversed at will, and a permutation of its axes."""
    ndim = draw(st.integers(0, 8))
    largest = {0: 1, 1: 3000, 2: 90, 3: 24, 4: 10}.get(ndim, 5)
    shape = draw(st.tuples(*[st.integers(0 if ndim < 4 else 1, largest)] * ndim))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, 1, -1, 2, -3])] * ndim))
    perm = tuple(draw(st.permutations(range(ndim))))
    elem_bytes = draw(st.sampled_from(ELEMENT_SIZES))
    base_shape = [size * abs(step) for size, step in zip(shape, steps)]
    x = random_array(base_shape, f"V{elem_bytes}", seed=draw(st.integers(0, 9)))
    return x[tuple(slice(None, None, step) for step in steps)], perm


@given(problems(), st.sampled_from(THREADS))
@settings(max_examples=400)
def test_random_permutations(problem: tuple, num_threads: int | None) -> None:
    x, perm = problem
    expected = permuted(x, perm)
    assert_same_bits(hp.permute(x, perm, num_threads=num_threads), expected)
    out, low, high = guarded(expected.shape, expected.dtype)
    low_before, high_before = low.copy(), high.copy()
    hp.permute(x, perm, out=out, num_threads=num_threads)
    assert_same_bits(out, expected)
    assert_same_bits(low, low_before)
    assert_same_bits(high, high_before)


@pytest.mark.parametrize("elem_bytes", ELEMENT_SIZES)
@pytest.mark.parametrize("num_threads", THREADS)
def test_element_sizes_and_threads(elem_bytes: int, num_threads: int | None) -> None:
    """Large enough that eight threads may work: one per 64 KiB."""
    check(Case("threads", f"V{elem_bytes}", (3, 301, 601), (2, 0, 1)), num_threads=num_threads)


def test_six_callers_at_once() -> None:
    """Six threads permute different arrays; none sees another's data, all finish."""
    sources = [random_array((5, 200 + i, 301), f"V{i + 1}", seed=i) for i in range(6)]
    perm = (2, 0, 1)
    expected = [permuted(x, perm) for x in sources]
    failures: list[BaseException] = []
    start = threading.Barrier(6)

    def call(i: int) -> None:
        try:
            start.wait()
            for num_threads in THREADS * 3:
                result = hp.permute(sources[i], perm, num_threads=num_threads)
                assert_same_bits(result, expected[i])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_beyond_32_bit_sizes() -> None:
    """More than 2^31 elements, compared at every border of the index arithmetic and at random."""
    needed_bytes = 3 * int(np.prod(BEYOND_32_BIT.shape, dtype=np.int64))
    if _available_bytes() < needed_bytes:
        pytest.skip(f"needs {needed_bytes / 1e9:.1f} GB of free memory")
    rows, columns = BEYOND_32_BIT.shape
    pattern = np.random.default_rng(0).integers(0, 256, 1_000_003, np.uint8)
    x = np.resize(pattern, rows * columns).reshape(rows, columns)
    result = hp.permute(x, BEYOND_32_BIT.perm)
    assert result.shape == (columns, rows)
    for i in [0, 1, 2**31 // columns, 2**31 // columns + 1, rows // 2, rows - 1]:
        assert np.array_equal(result[:, i], x[i])
    i, j = np.random.default_rng(1).integers(0, [[rows], [columns]], (2, 1_000_000))
    assert np.array_equal(result[j, i], x[i, j])


def _available_bytes() -> int:
    if not hasattr(os, "sysconf") or "SC_AVPHYS_PAGES" not in os.sysconf_names:
        return 0
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
