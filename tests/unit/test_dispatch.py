"""The choice of a device, plans, explanations and calibration, without any NPU."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hptp as hp
from hptp import calibration, dispatch
from hptp._core import Problem
from tests.reference import assert_same_bits, permuted, random_array


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and nothing remembered from another one."""
    monkeypatch.setenv("HPTP_CACHE_DIR", str(tmp_path))
    calibration.current.cache_clear()
    yield tmp_path
    calibration.current.cache_clear()


def test_plan_of_an_array_executes() -> None:
    x = random_array((30, 4, 50), "i4")
    plan = hp.plan(x, (2, 0, -2))
    assert (plan.shape, plan.perm, plan.dtype) == ((30, 4, 50), (2, 0, 1), np.dtype("i4"))
    assert plan.problem == Problem(4, (30, 4, 50), (2, 0, 1))
    assert plan.device == "cpu"
    assert plan.reason
    assert plan.kernel in plan.describe()
    assert plan.isa
    out = np.zeros((50, 30, 4), "i4")
    assert plan.execute(x, out) is None
    assert_same_bits(out, permuted(x, (2, 0, 1)))


def test_plan_of_a_shape_is_that_of_an_array() -> None:
    x = np.zeros((8, 9, 3), "u1")
    for dtype in ("uint8", np.uint8, np.dtype("u1"), "u1"):
        assert hp.plan(x.shape, (2, 0, 1), dtype=dtype).problem == hp.plan(x, (2, 0, 1)).problem
    assert hp.plan([4, 5], (1, 0), dtype="bfloat16").problem.elem_bytes == 2


def test_plan_of_a_torch_dtype(torch: Any) -> None:
    assert hp.plan((4, 5), (1, 0), dtype=torch.bfloat16).problem == Problem(2, (4, 5), (1, 0))


def test_plan_is_immutable() -> None:
    plan = hp.plan((4, 5), (1, 0), dtype="f4")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.perm = (0, 1)  # type: ignore[misc]


def test_plan_refuses_what_it_was_not_made_for() -> None:
    x = random_array((4, 6), "f4")
    plan = hp.plan(x, (1, 0))
    out = np.zeros((6, 4), "f4")
    with pytest.raises(hp.PlanError, match=r"\(3, 6\).*\(4, 6\)"):
        plan.execute(x[:3], out)
    with pytest.raises(hp.PlanError, match="laid out"):
        plan.execute(random_array((4, 12), "f4")[:, ::2], out)
    with pytest.raises(hp.OutputError, match=r"\(4, 6\)"):
        plan.execute(x, np.zeros((4, 6), "f4"))
    assert not out.any()


@pytest.mark.parametrize(
    ("dtype", "error"), [(None, hp.PlanError), ("no-such", hp.UnsupportedArrayError)]
)
def test_plan_of_a_shape_needs_a_dtype(dtype: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=repr(dtype)):
        hp.plan((4, 5), (1, 0), dtype=dtype)


@pytest.mark.parametrize(
    "shape", [(-1, 4), (1.5, 4), (10**30, 4), (2**40, 2**40), (1,) * 65], ids=repr
)
def test_plan_refuses_shapes_that_no_array_has(shape: Any) -> None:
    with pytest.raises(hp.PlanError, match=repr(shape[0])):
        hp.plan(shape, range(len(shape)), dtype="f4")


def test_explain_names_every_device_and_a_time() -> None:
    text = hp.explain((512, 1024, 3), (2, 0, 1), dtype="uint8")
    assert "1-byte elements" in text
    assert "device     cpu: " in text
    assert "not npu    " in text
    assert "not sim    " in text
    assert "GB/s" in text


def test_small_problems_do_not_look_for_an_npu() -> None:
    assert hp.plan((4, 5), (1, 0), dtype="f4").reason == "a CPU is done before an NPU has started"


def test_environment_overrides_the_default() -> None:
    code = "import hptp as hp; print(hp.plan((64, 64), (1, 0), dtype='f4').device)"
    for name in ("cpu", "sim"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "HPTP_DEVICE": name},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == name


def test_environment_does_not_override_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "DEFAULT_DEVICE", "sim")
    assert hp.plan((64, 64), (1, 0), dtype="f4").device == "sim"
    assert hp.plan((64, 64), (1, 0), dtype="f4", device="cpu").device == "cpu"
    monkeypatch.setattr(dispatch, "DEFAULT_DEVICE", "abacus")
    with pytest.raises(hp.DeviceError, match="'abacus'"):
        hp.permute(np.zeros((2, 2)), (1, 0))


def test_calibration_is_remembered(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MEASURED_BYTES", 1 << 16)
    assert not calibration.current().measured
    assert "not measured" in str(calibration.current())
    measured = hp.calibrate()
    assert measured.measured
    assert calibration.current() == measured
    assert [path.name for path in empty_cache.iterdir()] == ["calibration.json"]


def test_a_spoilt_calibration_is_not_used(empty_cache: Path) -> None:
    for text in ("", "{", "[]", '{"cpu_bytes_per_second": {"1": "fast"}}'):
        (empty_cache / "calibration.json").write_text(text)
        calibration.current.cache_clear()
        assert not calibration.current().measured


def test_what_stays_together_decides_the_predicted_time() -> None:
    rates = calibration.Calibration({1: 1e9, 4: 4e9, 64: 64e9})

    def seconds(*arguments: Any) -> float:
        return rates.cpu_seconds(Problem(*arguments)) - calibration.CALL_SECONDS

    assert seconds(1, (1000, 1000), (1, 0)) == pytest.approx(1e6 / 1e9)
    assert seconds(2, (1000, 1000), (1, 0)) == pytest.approx(2e6 / 1e9)
    assert seconds(4, (1000, 1000), (1, 0)) == pytest.approx(4e6 / 4e9)
    assert seconds(4, (100, 100, 100), (1, 0, 2)) == pytest.approx(4e6 / 64e9)
    assert seconds(4, (0, 4), (1, 0)) == 0
