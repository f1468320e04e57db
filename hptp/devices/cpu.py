"""The CPU: always there, any problem, through the compiled core."""

from __future__ import annotations

from hptp import _core
from hptp.devices.base import DeviceInfo


class Cpu:
    name = "cpu"

    def info(self) -> DeviceInfo:
        count = _core.usable_cpus()
        cpus = "1 CPU" if count == 1 else f"{count} CPUs"
        return DeviceInfo(self.name, True, f"{cpus} usable, {_core.isa()} kernels")

    def plan(self, problem: _core.Problem, num_threads: int) -> _core.Plan:
        """Plan `problem`; `_core.Plan` is itself a device plan."""
        return _core.Plan(problem, num_threads)


DEVICE = Cpu()
