"""The NPU's way, on this machine: the same slabs, program and instruction words, interpreted.

For finding out whether the design is right, not for speed. The interpreter is told what an NPU
would be told: the words of the runtime sequence, executed on the array that the IRON program
configures, with its kernel compiled for this machine. It is made of NumPy, which is imported on
first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aie_design.instructions import from_bytes
from hptp._core import Plan, Problem
from hptp.devices.base import DeviceInfo
from hptp.errors import DeviceError
from hptp.npu.slabs import Slabs, plan_slabs

if TYPE_CHECKING:
    from hptp.sim.lower import Design

MODEL = "npu"


@dataclass(frozen=True)
class SimPlan:
    """Slabs, the interpreted program that moves them and the instruction words of each run."""

    slabs: Slabs
    kernel: str
    program: Design
    streams: tuple[list[int], ...]
    num_threads: int

    @property
    def problem(self) -> Problem:
        return self.slabs.problem

    @property
    def isa(self) -> str:
        return "interpreted"

    @property
    def npu_bytes(self) -> int:
        return self.slabs.npu_bytes

    @property
    def total_bytes(self) -> int:
        return self.slabs.total_bytes

    def describe(self) -> str:
        """The plan in words, one fact a line."""
        words = sum(map(len, self.streams))
        return f"{self.slabs.describe()}\n{len(self.streams)} run(s), {words} words, interpreted"

    def execute(self, src_ptr: int, dst_ptr: int) -> None:
        """Move the data.

        Raises:
            DeviceError: there is no C++ compiler for the kernel, or the design is wrong: a
                deadlock, an access outside memory.
        """
        import numpy as np

        from hptp.sim import run_words

        source, target = (np.empty(self.npu_bytes, np.uint8) for _ in range(2))
        with self.slabs.edges_meanwhile(src_ptr, dst_ptr, self.num_threads):
            Plan(self.slabs.load, self.num_threads).execute(src_ptr, source.ctypes.data)
            for words in self.streams:
                run_words(words, self.program, [source, target])
            Plan(self.slabs.unload, self.num_threads).execute(target.ctypes.data, dst_ptr)


class Sim:
    name = "sim"

    def info(self) -> DeviceInfo:
        try:
            from hptp.sim import kernels

            compiler = kernels.find_compiler()
        except ImportError as error:
            return DeviceInfo(self.name, False, f"the interpreter needs NumPy: {error}")
        except DeviceError as error:
            return DeviceInfo(self.name, False, str(error))
        return DeviceInfo(self.name, True, f"the NPU design, interpreted; kernels by {compiler}")

    def plan(self, problem: Problem, num_threads: int) -> SimPlan:
        """Plan `problem` as for an NPU.

        Raises:
            PlanError: no part of the problem suits the NPU.
        """
        from aie_design import combined_transpose, frontend

        slabs = plan_slabs(problem, MODEL)
        program = combined_transpose.build(
            slabs.transpose.representative(), frontend.load("sim"), slabs.kernel
        )
        kernel = combined_transpose.kernel_symbol(slabs.transpose, slabs.kernel)
        streams = tuple(from_bytes(slabs.instructions(run)) for run in slabs.runs())
        return SimPlan(slabs, kernel, program, streams, num_threads)


DEVICE = Sim()
