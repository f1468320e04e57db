"""device="auto" on a machine with an NPU: chosen where it wins, replaced where it fails."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hptp as hp
from hptp import _core, calibration, dispatch
from hptp.devices import npu
from hptp.npu.cost import Rates
from tests.device.machine import Machine
from tests.reference import assert_same_bits, permuted, random_array

X = random_array((1024, 1040), "i4")  # a little more than a CPU is always left
PERM = (1, 0)


@pytest.fixture
def slow_cpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose NPU answers at once and whose CPU is slow."""
    awake = Rates(wake_seconds=0.0)
    rates = calibration.Calibration({1: 1e6}, awake, measured=True)
    monkeypatch.setattr(calibration, "current", lambda: rates)
    monkeypatch.setattr(dispatch, "_absence", None)


@pytest.mark.usefixtures("slow_cpu")
def test_taken_where_it_is_predicted_to_win(machine: Machine) -> None:
    machine.provide_for(X, PERM)
    plan = hp.plan(X, PERM)
    assert plan.device == "npu"
    assert "ms predicted on the NPU" in plan.reason
    assert_same_bits(hp.permute(X, PERM), permuted(X, PERM))
    assert machine.hardware.count("run") == 1
    assert "not cpu    " in hp.explain(X, PERM)


@pytest.mark.usefixtures("slow_cpu")
def test_never_built_for(machine: Machine) -> None:
    plan = hp.plan(X, PERM)
    assert plan.device == "cpu"
    assert "no compiled program" in plan.reason


@pytest.mark.usefixtures("slow_cpu")
def test_left_where_the_cpu_is_predicted_to_win(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.provide_for(X, PERM)
    fast = calibration.Calibration({1: 1e12}, measured=True)
    monkeypatch.setattr(calibration, "current", lambda: fast)
    plan = hp.plan(X, PERM)
    assert plan.device == "cpu"
    assert "ms on the CPU" in plan.reason


@pytest.mark.usefixtures("slow_cpu")
def test_small_problems_stay_on_the_cpu(machine: Machine) -> None:
    small = random_array((64, 64), "i4")
    machine.provide_for(small, PERM)
    assert hp.plan(small, PERM).device == "cpu"


def test_the_short_path_takes_nothing_that_an_npu_might_do() -> None:
    most = np.zeros((dispatch.LARGEST_FOR_CPU_BYTES // 8, 2), "i4")
    assert _core.permute_plain(most, PERM).shape == most.shape[::-1]
    assert _core.permute_plain(np.zeros((len(most) + 1, 2), "i4"), PERM) is NotImplemented


@pytest.mark.usefixtures("slow_cpu")
def test_a_failing_npu_is_replaced_after_one_warning(machine: Machine) -> None:
    machine.provide_for(X, PERM)
    machine.hardware.faults = ["error"] * 2  # the first is tried again
    with pytest.warns(RuntimeWarning, match="the CPU takes over") as warned:
        assert_same_bits(hp.permute(X, PERM), permuted(X, PERM))
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_bits(hp.permute(X, PERM), permuted(X, PERM))
    assert hp.plan(X, PERM).device == "cpu"


@pytest.mark.usefixtures("slow_cpu")
def test_a_failing_npu_that_was_asked_for_is_an_error(machine: Machine) -> None:
    machine.provide_for(X, PERM)
    machine.hardware.faults = ["error"] * 2  # the first is tried again
    with pytest.raises(hp.DeviceError):
        hp.permute(X, PERM, device="npu")


def test_calibrate_measures_the_npu_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MEASURED_BYTES", 1 << 16)
    monkeypatch.setattr(npu, "COPY_BYTES", 1 << 16)
    assert hp.calibrate().npu is None
    machine.provide_for(random_array((64, 64), "i4"), PERM)
    measured = hp.calibrate()
    assert measured.npu is not None
    assert "dispatch" in str(measured)
    assert calibration.current() == measured
    calibration.current.cache_clear()  # what it holds was stored in this test's cache
