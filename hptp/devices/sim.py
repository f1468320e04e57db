"""The interpreter as a device: the NPU's slabs, program and words, executed on this machine.

Slow and exact: how the NPU's path is tested, and shown where there is none. Where the NPU has
buffers that the host copies into and out of, there are arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from aie_design import combined_transpose, frontend
from aie_design.instructions import from_bytes
from aie_design.plan import TransposePlan
from hptp._core import Plan, Problem
from hptp.devices.base import DeviceInfo
from hptp.npu.slabs import Slabs, plan_slabs

if TYPE_CHECKING:
    from hptp.sim.lower import Design

MODEL = "npu"


@lru_cache(maxsize=32)
def _program(plan: TransposePlan, kernel: str) -> Design:
    """What the array holds for the plans that `plan` represents."""
    program: Design = combined_transpose.build(plan, frontend.load("sim"), kernel)
    return program


@dataclass(frozen=True)
class SimPlan:
    """Slabs, and the program of the array that the interpreter puts them through."""

    slabs: Slabs
    num_threads: int

    @property
    def problem(self) -> Problem:
        return self.slabs.problem

    @property
    def kernel(self) -> str:
        return combined_transpose.kernel_symbol(self.slabs.transpose, self.slabs.kernel)

    @property
    def isa(self) -> str:
        return f"interpreted {self.slabs.transpose.device}"

    @property
    def npu_bytes(self) -> int:
        return self.slabs.npu_bytes

    @property
    def total_bytes(self) -> int:
        return self.slabs.total_bytes

    def describe(self) -> str:
        """The plan in words, one fact a line."""
        return self.slabs.describe()

    def execute(self, src_ptr: int, dst_ptr: int) -> None:
        """Move the data. Raises DeviceError for what the hardware would not survive."""
        import numpy as np

        from hptp.sim import run_words

        slabs = self.slabs
        program = _program(slabs.transpose.representative(), slabs.kernel)
        source, target = (np.zeros(slabs.npu_bytes, np.uint8) for _ in range(2))
        with slabs.edges_meanwhile(src_ptr, dst_ptr, self.num_threads):
            Plan(slabs.load, self.num_threads).execute(src_ptr, source.ctypes.data)
            for run in slabs.runs():
                run_words(from_bytes(slabs.instructions(run)), program, [source, target])
            Plan(slabs.unload, self.num_threads).execute(target.ctypes.data, dst_ptr)


class Sim:
    name = "sim"

    def info(self) -> DeviceInfo:
        try:
            import numpy  # noqa: F401
        except ImportError:
            return DeviceInfo(self.name, False, "the interpreter needs NumPy: pip install numpy")
        return DeviceInfo(self.name, True, "the NPU's program, interpreted: exact, and slow")

    def plan(self, problem: Problem, num_threads: int) -> SimPlan:
        """Plan `problem` as the NPU would.

        Raises:
            PlanError: no part of the problem suits the NPU; the message says why.
        """
        return SimPlan(plan_slabs(problem, MODEL), num_threads)


DEVICE = Sim()
