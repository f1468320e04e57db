"""The compiled core as Python sees it: canonical problems, overlap, threads, the plan cache."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hptp as hp
from hptp import _core

# ---- Canonical problems --------------------------------------------------------------------------


def test_neighbours_are_fused() -> None:
    problem = _core.Problem(4, (8, 9, 12, 6, 4, 6, 9, 10), (2, 3, 4, 5, 0, 1, 6, 7))
    assert (problem.elem_bytes, problem.src_shape, problem.perm) == (4, (72, 1728, 90), (1, 0, 2))
    assert problem.shape == (1728, 72, 90)
    assert problem.nbytes == 4 * 72 * 1728 * 90
    assert repr(problem) == "<Problem: 4-byte elements, shape (72, 1728, 90), perm (1, 0, 2)>"


def test_a_short_last_axis_joins_the_element() -> None:
    problem = _core.Problem(1, (20, 8, 16, 12, 6), (2, 1, 3, 0, 4))
    assert (problem.elem_bytes, problem.src_shape, problem.perm) == (
        6,
        (20, 8, 16, 12),
        (2, 1, 3, 0),
    )


@pytest.mark.parametrize(
    "elem_bytes, last, joined", [(1, 16, True), (1, 17, False), (8, 2, True), (8, 3, False)]
)
def test_a_joined_axis_has_at_most_16_bytes(elem_bytes: int, last: int, joined: bool) -> None:
    problem = _core.Problem(elem_bytes, (5, 7, last), (1, 0, 2))
    assert problem.elem_bytes == (elem_bytes * last if joined else elem_bytes)


def test_a_last_axis_with_gaps_stays_an_axis() -> None:
    problem = _core.Problem(1, (5, 7, 4), (1, 0, 2), src_strides_bytes=(56, 8, 2))
    assert (problem.elem_bytes, problem.shape) == (1, (7, 5, 4))


def test_different_spellings_of_one_problem_are_equal() -> None:
    problem = _core.Problem(4, (6, 1, 35), (2, 0, 1))
    same = _core.Problem(4, (2, 3, 5, 7), (2, 3, 0, 1))
    assert problem == same
    assert hash(problem) == hash(same)
    assert problem != _core.Problem(4, (35, 6), (1, 0))


def test_nothing_to_do() -> None:
    assert _core.Problem(4, (3, 0, 2**62, 2**62), (3, 1, 0, 2)).nbytes == 0


@pytest.mark.parametrize(
    "elem_bytes, shape, message",
    [(4, (2, -1), "negative"), (2**40, (2**20, 2**20), "address space"), (-1, (2, 3), "-1")],
)
def test_sizes_are_checked(elem_bytes: int, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core.Problem(elem_bytes, shape, (1, 0))


def test_a_destination_that_overlaps_itself_is_refused() -> None:
    with pytest.raises(hp.OutputError, match="share memory"):
        _core.Problem(4, (3, 5), (1, 0), dst_strides_bytes=(4, 4))


@pytest.mark.parametrize(
    "perm, message",
    [
        ((0, 0, 1), r"perm \(0, 0, 1\) repeats axis 0"),
        ((0, 1), r"perm \(0, 1\) has 2 entries for 3 axes"),
        ((0, 1, 3), r"perm \(0, 1, 3\) names axis 3 of an array with 3 axes"),
        ((0, 1, 2.0), r"perm \(0, 1, 2.0\) must hold integers, not 2.0"),
        ((0, 1, True), r"must hold integers, not True"),
        (5, "must be a sequence of integers, not 5"),
    ],
)
def test_perm_errors_quote_it(perm: Any, message: str) -> None:
    with pytest.raises(hp.PermutationError, match=message):
        _core.normalize_perm(perm, 3)


def test_negative_axes_count_from_the_end() -> None:
    assert _core.normalize_perm(np.array([-1, 0, -2]), 3) == (2, 0, 1)


# ---- Overlap, with NumPy's exact solver as the oracle --------------------------------------------


def overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return _core.overlaps(
        a.ctypes.data, a.shape, a.strides, b.ctypes.data, b.shape, b.strides, a.itemsize
    )


def test_disjoint_parts_of_one_array() -> None:
    x = np.zeros((64, 64), np.float32)
    assert not overlap(x[:, :32], x[:, 32:])
    assert not overlap(x[::2], x[1::2])
    assert not overlap(x[:, ::2], x[:, 1::2].T)
    assert not overlap(x[::-1, ::3], x[:, 1::3])
    assert overlap(x[:, :33], x[:, 32:])
    assert overlap(x[::2], x[::3])


@given(data=st.data())
@settings(max_examples=300, derandomize=True, deadline=None)
def test_overlap_agrees_with_numpy(data: st.DataObject) -> None:
    memory = np.zeros(4096, np.uint8)

    def view() -> np.ndarray[Any, Any]:
        ndim = data.draw(st.integers(0, 3))
        shape = data.draw(st.tuples(*[st.integers(1, 6)] * ndim))
        strides = data.draw(st.tuples(*[st.integers(-40, 40)] * ndim))
        start = 2048 + data.draw(st.integers(-80, 80))
        offset = start - start % 4 if ndim == 0 else start
        return np.lib.stride_tricks.as_strided(
            memory[offset : offset + 4].view(np.uint32), shape, strides
        )

    a, b = view(), view()
    assert overlap(a, b) == np.shares_memory(a, b)


# ---- Threads -------------------------------------------------------------------------------------

MIB = 1 << 20


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_automatic_threads() -> None:
    most = min(16, _core.usable_cpus())
    assert [_core.auto_threads(n) for n in (0, 1, 2 * MIB, 4 * MIB - 1)] == [1, 1, 1, 1]
    assert _core.auto_threads(4 * MIB) == min(2, most)
    assert _core.auto_threads(1 << 40) == most


def test_given_threads_are_an_upper_bound() -> None:
    def threads(rows: int, given: int) -> int:
        return _core.Plan(_core.Problem(4, (rows, 16384), (1, 0)), given).num_threads

    assert threads(1, 8) == 1  # 64 KiB
    assert threads(4, 8) <= 4
    assert threads(512, 3) == 3


def test_the_environment_caps_automatic_threads() -> None:
    code = "from hptp import _core; print(_core.auto_threads(1 << 40))"
    assert run_python(code, HPTP_NUM_THREADS="5") == "5"
    assert run_python(code, HPTP_NUM_THREADS="") == str(min(16, _core.usable_cpus()))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_affinity_is_respected() -> None:
    code = (
        "import os; from hptp import _core; "
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "print(_core.usable_cpus(), _core.auto_threads(1 << 40))"
    )
    assert run_python(code) == "1 1"


TRANSPOSE = (
    "import numpy as np, hptp as hp; x = np.arange(3_000_000).reshape(1500, 2000);"
    "ok = lambda: np.array_equal(hp.permute(x, (1, 0), num_threads=4), x.T);"
)


def test_the_interpreter_ends_while_threads_sleep() -> None:
    assert run_python(TRANSPOSE + "import time; print(ok()); time.sleep(0.2)") == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = (
        TRANSPOSE + "import os; assert ok(); child = os.fork();"
        "child or os._exit(0 if ok() else 1); print(os.waitpid(child, 0)[1], ok())"
    )
    assert run_python(code) == "0 True"


# ---- Instruction sets, plans, the cache ----------------------------------------------------------


def test_every_instruction_set_can_be_forced() -> None:
    assert _core.isas()[0] == "scalar"
    for isa in _core.isas():
        code = TRANSPOSE + "from hptp import _core; print(ok(), _core.isa())"
        assert run_python(code, HPTP_ISA=isa) == f"True {isa}"


def test_a_plan_says_what_it_does() -> None:
    plan = _core.Plan(_core.Problem(4, (500, 600), (1, 0)), 1)
    assert plan.problem == _core.Problem(4, (500, 600), (1, 0))
    for part in (plan.kernel, plan.isa, "600", "500"):
        assert part in plan.describe()


def test_plans_are_cached_within_bounds() -> None:
    x = np.zeros((7, 5, 3))
    hp.permute(x, (2, 0, 1))
    before = _core.plan_cache_info()
    hp.permute(x, (2, 0, 1))
    after = _core.plan_cache_info()
    assert (after["hits"], after["misses"]) == (before["hits"] + 1, before["misses"])
    for rows in range(2, 1000):
        hp.permute(np.zeros((rows, 3)), (1, 0))
    info = _core.plan_cache_info()
    assert info["size"] <= info["capacity"]
    assert info["misses"] > info["capacity"]
