"""device="sim": the whole NPU path, interpreted; the shared table is in tests/backend."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hptp as hp
from hptp._core import Problem
from hptp.devices.sim import DEVICE
from hptp.errors import DeviceError, PlanError
from hptp.sim import kernels
from tests.reference import assert_same_bits, permuted, random_array


@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("shape", [(64, 96), (61, 67), (320, 36)])
def test_matrices_are_never_refused(shape: tuple[int, int], elem_bytes: int) -> None:
    """With sides that tiles divide and sides that leave edges to the CPU."""
    x = random_array(shape, f"V{elem_bytes}")
    assert_same_bits(hp.permute(x, (1, 0), device="sim"), permuted(x, (1, 0)))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem(7, (9, 11), (1, 0)), "not 7-byte ones in"),
        (Problem(1, (3, 40), (1, 0)), "not 1-byte ones in"),
        (Problem(4, (1,), (0,)), "nothing to do"),
        (Problem(4, (0, 5), (1, 0)), "nothing to do"),
    ],
)
def test_what_no_npu_can_do_is_refused(problem: Problem, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        DEVICE.plan(problem, 0)


def test_the_plan_says_what_it_does() -> None:
    plan = DEVICE.plan(Problem(4, (64, 96), (1, 0)), 0)
    assert plan.problem == Problem(4, (64, 96), (1, 0))
    assert plan.kernel in ("transpose_4x4", "transpose_8x8")
    assert plan.isa == "interpreted"
    assert plan.describe().endswith("words, interpreted")


def test_one_plan_runs_in_several_threads() -> None:
    plan = DEVICE.plan(Problem(2, (160, 96), (1, 0)), 1)
    sources = [random_array((160, 96), "u2", seed=seed) for seed in range(4)]
    results = [np.zeros((96, 160), "u2") for _ in sources]
    threads = [
        threading.Thread(target=plan.execute, args=(x.ctypes.data, out.ctypes.data))
        for x, out in zip(sources, results, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, out in zip(sources, results, strict=True):
        assert_same_bits(out, permuted(x, (1, 0)))


def test_without_a_compiler_the_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise DeviceError("no C++ compiler: install g++")

    monkeypatch.setattr(kernels, "find_compiler", none)
    assert not DEVICE.info().available
    assert DEVICE.info().reason == "no C++ compiler: install g++"
    with pytest.raises(DeviceError, match="no C\\+\\+ compiler"):
        hp.permute(np.zeros((8, 8), np.int32), (1, 0), device="sim")
