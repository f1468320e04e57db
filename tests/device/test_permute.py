"""hp.permute on the NPU, end to end: the fake array executes the words that the plan assembles."""

from __future__ import annotations

import numpy as np
import pytest

import hptp as hp
from hptp._core import Problem
from hptp.devices import npu
from hptp.devices.npu import NpuPlan
from hptp.npu import runtime
from hptp.npu.artifacts import Design
from hptp.npu.cost import DEFAULT_RATES
from hptp.npu.slabs import windows
from tests.device.fake_pyxrt import Hardware, put_program
from tests.device.machine import Machine
from tests.reference import assert_same_bits, permuted, random_array

DTYPES = ("u1", "u2", "f4", "f8", "c16")


def plan_of(x: np.ndarray, perm: tuple[int, ...]) -> NpuPlan:
    return npu.DEVICE.plan(Problem(x.dtype.itemsize, x.shape, perm, x.strides), 0)


def check(machine: Machine, x: np.ndarray, perm: tuple[int, ...]) -> NpuPlan:
    """Permute with the best program there; the plan that did it."""
    machine.provide_for(x, perm)
    assert_same_bits(hp.permute(x, perm, device="npu"), permuted(x, perm))
    return plan_of(x, perm)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_matrix(machine: Machine, dtype: str) -> None:
    plan = check(machine, random_array((64, 32), dtype), (1, 0))
    assert plan.npu_bytes == plan.total_bytes
    assert machine.hardware.count("run") == 1


@pytest.mark.parametrize("perm", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_five_permutations_of_three_axes(
    machine: Machine, perm: tuple[int, ...], dtype: str
) -> None:
    plan = check(machine, random_array((8, 16, 24), dtype), perm)
    assert plan.npu_bytes == plan.total_bytes


@pytest.mark.parametrize(
    "shape, perm",
    [
        ((2, 8, 4, 12), (0, 2, 3, 1)),
        ((2, 4, 12, 8), (0, 3, 1, 2)),
        ((2, 12, 4, 32), (0, 2, 1, 3)),
        ((2, 2, 2, 2, 2, 2, 4, 4), (7, 5, 3, 1, 0, 2, 4, 6)),
        ((2, 3, 2, 2, 2, 1, 4, 8), (1, 0, 2, 4, 3, 5, 7, 6)),
    ],
)
def test_layouts_of_more_axes(
    machine: Machine, shape: tuple[int, ...], perm: tuple[int, ...]
) -> None:
    plan = check(machine, random_array(shape, "f4"), perm)
    assert plan.npu_bytes == plan.total_bytes


@pytest.mark.parametrize("shape", [(37, 22), (36, 21), (39, 40), (5, 7)])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
def test_edges_are_the_cpus_and_the_whole_is_exact(
    machine: Machine, shape: tuple[int, int], dtype: str
) -> None:
    plan = check(machine, random_array(shape, dtype), (1, 0))
    share = plan.npu_bytes / plan.total_bytes
    inner = (shape[0] // 4 * 4) * (shape[1] // 4 * 4) / (shape[0] * shape[1])
    assert share == pytest.approx(inner)
    assert machine.hardware.count("run") == 1


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[:, 3:27], np.s_[::2, ::3], np.s_[4:, ::-2]])
def test_views(machine: Machine, view: object) -> None:
    check(machine, random_array((48, 96), "i4")[view], (1, 0))


def test_an_output_of_other_strides(machine: Machine) -> None:
    x = random_array((64, 32), "i4")
    machine.provide_for(x, (1, 0))
    frame = random_array((40, 80), "i4", seed=1)
    expected = frame.copy()
    expected[4:36, 8:72] = x.T
    out = frame[4:36, 8:72]
    problem = Problem(4, x.shape, (1, 0), x.strides, out.strides)
    npu.DEVICE.plan(problem, 0).execute(x.ctypes.data, out.ctypes.data)
    assert_same_bits(frame, expected)


def test_rows_longer_than_an_element_may_be(machine: Machine) -> None:
    check(machine, random_array((3, 2, 4096), "f4"), (1, 0, 2))
    check(machine, random_array((3, 2, 4099), "f4"), (1, 0, 2))


def test_three_channels_go_without_a_kernel(machine: Machine) -> None:
    plan = check(machine, random_array((40, 3), "f4"), (1, 0))
    assert plan.kernel == "copy"


@pytest.mark.parametrize(
    "shape, perm, dtype, reason",
    [
        ((8, 8), (1, 0), "V3", "3-byte"),
        ((8, 3), (1, 0), "u1", "8x3"),
        ((8, 8, 3), (1, 0, 2), "u1", "3-byte"),
        ((1, 1), (1, 0), "f4", "nothing to do"),
    ],
)
def test_what_the_npu_cannot_do_is_refused_with_the_reason(
    machine: Machine, shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, reason: str
) -> None:
    with pytest.raises(hp.PlanError, match=reason):
        hp.permute(random_array(shape, dtype), perm, device="npu")
    assert machine.hardware.count("run") == 0


def test_a_new_shape_needs_no_new_program(machine: Machine) -> None:
    check(machine, random_array((64, 64), "i4"), (1, 0))
    for shape in ((128, 64), (64, 192)):
        x = random_array(shape, "i4")
        assert_same_bits(hp.permute(x, (1, 0), device="npu"), permuted(x, (1, 0)))
    assert len(machine.cache.entries()) == 1
    assert machine.hardware.count("hw_context") == 1


def test_without_a_program_the_error_names_the_command_and_the_tools(machine: Machine) -> None:
    with pytest.raises(hp.DeviceError, match=r"hptp build.*mlir-aie, Peano, aiecc, xclbinutil"):
        hp.permute(random_array((64, 32), "i4"), (1, 0), device="npu")


def test_a_program_of_other_sources_is_not_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random_array((64, 32), "i4")
    machine.provide_for(x, (1, 0))
    monkeypatch.setattr("hptp.npu.artifacts.program_sources", lambda: "edited")
    with pytest.raises(hp.DeviceError, match="hptp build"):
        hp.permute(x, (1, 0), device="npu")


def test_a_program_for_another_tile_does_what_it_can(machine: Machine) -> None:
    put_program(machine.cache, Design("npu", 4, 16, 16, 4, 1, 1, 2, "transpose_4x4"))
    x = random_array((40, 36), "i4")
    assert_same_bits(hp.permute(x, (1, 0), device="npu"), permuted(x, (1, 0)))
    assert plan_of(x, (1, 0)).npu_bytes == 32 * 32 * 4


def test_the_device_says_who_it_is(machine: Machine) -> None:
    info = {info.name: info for info in hp.devices()}["npu"]
    assert (info.available, info.reason) == (True, "RyzenAI-npu1")


def test_what_is_too_large_to_pack_goes_window_by_window(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hptp.npu.slabs.MAX_PACKED_BYTES", 1 << 15)
    x = random_array((133, 192), "i4")
    box = windows(Problem(4, x.shape, (1, 0)))[0]
    machine.provide_for(x[:, : box.problem.shape[0]], (1, 0))
    assert_same_bits(hp.permute(x, (1, 0), device="npu"), permuted(x, (1, 0)))
    plan = plan_of(x, (1, 0))
    assert len(plan.windows) == machine.hardware.count("run") > 2
    assert machine.hardware.count("hw_context") == 1
    assert plan.npu_bytes > 0.9 * plan.total_bytes
    assert f"{len(plan.windows)} windows" in plan.describe()


def test_the_rates_of_this_machine_can_be_measured(machine: Machine) -> None:
    with pytest.raises(hp.DeviceError, match="no compiled program"):
        npu.DEVICE.measure()
    machine.provide_for(random_array((64, 64), "i4"), (1, 0))
    rates = npu.DEVICE.measure()
    assert rates.dispatch_seconds > 0.0
    assert rates.copy_bytes_per_second > 0.0


def test_a_plan_predicts_that_an_idle_device_has_to_wake(machine: Machine) -> None:
    plan = check(machine, random_array((64, 64), "i4"), (1, 0))
    awake = plan.predicted_seconds()
    assert awake < DEFAULT_RATES.wake_seconds
    assert runtime._opened is not None
    runtime._opened._last_run = None
    assert plan.predicted_seconds() > DEFAULT_RATES.wake_seconds


@pytest.mark.parametrize("hardware", [Hardware("NPU Strix Halo", contexts=32)])
def test_the_second_generation(machine: Machine) -> None:
    plan = check(machine, random_array((64, 32), "i4"), (1, 0))
    assert plan.isa == "aie2p"
