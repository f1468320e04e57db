"""The cost model: what each of its terms adds, and that it ranks plans as it must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hptp._core import Problem
from hptp.npu import slabs as slabs_module
from hptp.npu.cost import DEFAULT_RATES, predicted_seconds
from hptp.npu.slabs import Slabs, plan_slabs

MATRIX = plan_slabs(Problem(4, (4096, 4096), (1, 0)), "npu2")


def seconds(slabs: Slabs = MATRIX, idle_seconds: float = 0.0, **rates: float) -> float:
    return predicted_seconds(slabs, replace(DEFAULT_RATES, **rates), idle_seconds)


def test_a_large_matrix_is_bound_by_moving_it() -> None:
    moving = MATRIX.transpose.predicted_seconds()
    copies = 2 * 4 * 4096**2 / DEFAULT_RATES.copy_bytes_per_second
    assert seconds() == pytest.approx(moving + copies + DEFAULT_RATES.dispatch_seconds)
    assert moving < 4 * 4096**2 / 10e9


def test_a_small_matrix_is_bound_by_the_dispatch() -> None:
    small = plan_slabs(Problem(4, (64, 64), (1, 0)), "npu2")
    assert seconds(small) < 2 * DEFAULT_RATES.dispatch_seconds
    assert seconds(small, dispatch_seconds=1.0) > 1.0


def test_a_device_that_slept_has_to_wake() -> None:
    awake, asleep = seconds(idle_seconds=4.9), seconds(idle_seconds=5.1)
    assert asleep - awake == pytest.approx(DEFAULT_RATES.wake_seconds)
    assert seconds(idle_seconds=float("inf")) == asleep


def test_each_run_is_dispatched(monkeypatch: pytest.MonkeyPatch) -> None:
    slabs = plan_slabs(Problem(4, (8, 2, 5, 3, 12), (4, 3, 2, 1, 0)), "npu")
    one = seconds(slabs)
    monkeypatch.setattr(slabs_module, "MAX_RUN_BYTES", 1)
    assert seconds(slabs) - one == pytest.approx(5 * DEFAULT_RATES.dispatch_seconds)


def test_one_column_is_slower_than_all() -> None:
    plan = replace(MATRIX.transpose, columns=1, channels=1)
    assert seconds(replace(MATRIX, transpose=plan)) > 1.5 * seconds()
