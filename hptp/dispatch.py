"""Which device solves a problem, and why.

Asked for by name, a device does the problem or says why it cannot. Left to choose, we give the NPU
only what it is predicted to do faster than the CPU, with a program that has been built before;
should it fail, the CPU does the work, now and from then on.

Devices are imported on first use, so that naming one never pays for another.
"""

from __future__ import annotations

import importlib
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hptp import calibration
from hptp.devices import cpu
from hptp.devices.base import Device, DeviceInfo, DevicePlan
from hptp.errors import DeviceError, PlanError

if TYPE_CHECKING:
    from hptp._core import Problem
    from hptp.devices.npu import NpuPlan

DEVICE_NAMES = ("cpu", "npu", "sim")

# Read once: looking into the environment would cost as much as permuting a small array.
DEFAULT_DEVICE = os.environ.get("HPTP_DEVICE") or "auto"

# Dispatching, and copying into buffers and out again, cost an NPU more than this costs a CPU. The
# core's short path (kMaxPlainBytes in bindings.cpp) takes what is left to the CPU, and no more.
LARGEST_FOR_CPU_BYTES = 4 << 20


@dataclass(frozen=True)
class Choice:
    """The device for a problem, the reason, and its plan; no data has been touched."""

    problem: Problem
    device: str
    reason: str
    device_plan: DevicePlan
    automatic: bool

    def execute(self, src_ptr: int, dst_ptr: int, num_threads: int) -> None:
        """Move the data; a failing NPU that nobody asked for is replaced by the CPU.

        Raises:
            DeviceError: the device asked for failed.
        """
        try:
            self.device_plan.execute(src_ptr, dst_ptr)
        except DeviceError as error:
            if not self.automatic or self.device == "cpu":
                raise
            _give_up_on_npu(str(error))
            cpu.DEVICE.plan(self.problem, num_threads).execute(src_ptr, dst_ptr)

    def predicted_seconds(self) -> float | None:
        """How long `execute` will take; None where nobody can tell."""
        if self.device == "cpu":
            return calibration.current().cpu_seconds(self.problem)
        if self.device == "npu":
            from hptp.devices.npu import NpuPlan

            assert isinstance(self.device_plan, NpuPlan)
            return _npu_seconds(self.device_plan)
        return None


def choose(problem: Problem, device: str, num_threads: int) -> Choice:
    """Choose the device for `problem` and plan it there.

    Raises:
        DeviceError: the device asked for does not exist, is not there, or has failed.
        PlanError: it cannot solve this problem.
    """
    if device == "auto":
        device = DEFAULT_DEVICE
    if device == "auto":
        return _choose_automatically(problem, num_threads)
    chosen = get_device(device)
    if chosen is not cpu.DEVICE:
        info = chosen.info()
        if not info.available:
            raise DeviceError(f"device {device!r} is not available: {info.reason}")
    return Choice(problem, device, "asked for", chosen.plan(problem, num_threads), automatic=False)


def get_device(name: str) -> Device:
    """The device called `name`.

    Raises:
        DeviceError: there is no such device, or a package it needs is not installed.
    """
    if name not in DEVICE_NAMES:
        known = ", ".join(DEVICE_NAMES)
        raise DeviceError(f"unknown device {name!r}; choose one of auto, {known}")
    try:
        device: Device = importlib.import_module(f"hptp.devices.{name}").DEVICE
    except ModuleNotFoundError as error:
        raise DeviceError(f"device {name!r} needs {error.name}, which is not installed") from error
    return device


def devices() -> list[DeviceInfo]:
    """Every device: its name, whether it can be used on this machine, and why or why not.

    >>> import hptp as hp
    >>> [info.name for info in hp.devices() if info.available][:1]
    ['cpu']
    """
    return [_info(name) for name in DEVICE_NAMES]


def why_not(name: str, chosen: Choice) -> str:
    """Why the device called `name` is not the one chosen, in one sentence."""
    info = _info(name)
    if not info.available:
        return f"not available: {info.reason}"
    if not chosen.automatic:
        return f"{chosen.device} was asked for"
    if name == "sim":
        return "never chosen by itself: it interprets the NPU's design to check it"
    return chosen.reason


def _info(name: str) -> DeviceInfo:
    try:
        return get_device(name).info()
    except DeviceError as error:
        return DeviceInfo(name, False, str(error))


def _choose_automatically(problem: Problem, num_threads: int) -> Choice:
    npu_plan, reason = _npu_plan_if_faster(problem, num_threads)
    if npu_plan is not None:
        return Choice(problem, "npu", reason, npu_plan, automatic=True)
    return Choice(problem, "cpu", reason, cpu.DEVICE.plan(problem, num_threads), automatic=True)


def _npu_plan_if_faster(problem: Problem, num_threads: int) -> tuple[NpuPlan | None, str]:
    """The NPU's plan if it is predicted to win, and the reason for taking or leaving it."""
    if problem.nbytes <= LARGEST_FOR_CPU_BYTES:
        return None, "a CPU is done before an NPU has started"
    if absence := _npu_absence():
        return None, f"no NPU: {absence}"
    from hptp.devices import npu

    try:
        plan = npu.DEVICE.plan_built(problem, num_threads)
    except (DeviceError, PlanError) as error:
        return None, str(error)
    npu_seconds = _npu_seconds(plan)
    cpu_seconds = calibration.current().cpu_seconds(problem)
    comparison = (
        f"{npu_seconds * 1e3:.2f} ms predicted on the NPU, {cpu_seconds * 1e3:.2f} ms on the CPU"
    )
    return (plan if npu_seconds < cpu_seconds else None), comparison


def _npu_seconds(plan: NpuPlan) -> float:
    from hptp.npu.cost import DEFAULT_RATES

    return plan.predicted_seconds(calibration.current().npu or DEFAULT_RATES)


_absence: str | None = None


def _npu_absence() -> str:
    """Why there is no NPU to use; empty if there is one. Looked for once."""
    global _absence
    if _absence is None:
        info = _info("npu")
        _absence = "" if info.available else info.reason
    return _absence


def _give_up_on_npu(failure: str) -> None:
    """Warn, and never choose the NPU again in this process."""
    global _absence
    _absence = failure
    warnings.warn(f"{failure}; the CPU takes over from here", RuntimeWarning, stacklevel=4)
