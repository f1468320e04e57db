"""Which device solves a problem, and why.

Devices are looked up by name and imported on first use, so that naming one never pays for another.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hptp.devices.base import Device, DeviceInfo, DevicePlan
from hptp.errors import DeviceError

if TYPE_CHECKING:
    from hptp._core import Problem

DEVICE_NAMES = ("cpu", "npu", "sim")

# Read once: looking into the environment would cost as much as permuting a small array.
DEFAULT_DEVICE = os.environ.get("HPTP_DEVICE") or "auto"


@dataclass(frozen=True)
class Plan:
    """How and where a permutation will run, decided without touching any data."""

    problem: Problem
    device: str
    reason: str
    device_plan: DevicePlan

    @property
    def kernel(self) -> str:
        return self.device_plan.kernel

    @property
    def isa(self) -> str:
        return self.device_plan.isa

    def describe(self) -> str:
        """The plan in words, one fact a line."""
        return f"{self.problem}\ndevice {self.device}: {self.reason}\n{self.device_plan.describe()}"


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


def _info(name: str) -> DeviceInfo:
    try:
        return get_device(name).info()
    except DeviceError as error:
        return DeviceInfo(name, False, str(error))


def choose(problem: Problem, device: str, num_threads: int) -> tuple[Device, str]:
    """The device to run `problem` on, and the reason.

    Raises:
        DeviceError: the device asked for does not exist or is not there.
    """
    if device == "auto":
        device = DEFAULT_DEVICE
    if device == "auto":
        return get_device("cpu"), "the only device for production on this machine"
    chosen = get_device(device)
    info = chosen.info()
    if not info.available:
        raise DeviceError(f"device {device!r} is not available: {info.reason}")
    return chosen, "asked for"


def make_plan(problem: Problem, device: str, num_threads: int) -> Plan:
    """Choose a device for `problem` and plan it there.

    Raises:
        DeviceError: the device asked for does not exist or is not there.
        PlanError: it cannot solve this problem.
    """
    chosen, reason = choose(problem, device, num_threads)
    return Plan(problem, chosen.name, reason, chosen.plan(problem, num_threads))
