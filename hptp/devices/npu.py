"""The AMD NPU: slabs of the problem through a compiled program, edges on the CPU meanwhile.

A program serves every shape whose slabs its tile divides, so one that is there is used before a
better one is built, unless that would be much faster.
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass, replace
from functools import partial

from hptp._core import Plan, Problem
from hptp.devices.base import DeviceInfo, DevicePlan
from hptp.errors import DeviceError, PlanError
from hptp.npu import runtime
from hptp.npu.artifacts import Artifact, Cache, Design
from hptp.npu.cost import DEFAULT_RATES, Rates, predicted_seconds
from hptp.npu.models import ISAS
from hptp.npu.slabs import Box, Slabs, plan_slabs, windows

MAX_PLANS = 256
WORTH_BUILDING = 2.0

# What `measure` moves: so much that copying is all, so little that dispatching is.
COPY_BYTES = 64 << 20
SMALL_SIDE = 64


@dataclass(frozen=True)
class Window:
    """What is packed at once: its slabs, the words of each run, and where it starts."""

    slabs: Slabs
    streams: tuple[bytes, ...]
    src_offset_bytes: int
    dst_offset_bytes: int


@dataclass(frozen=True)
class NpuPlan:
    """A program, and the windows of the problem that go through it one after the other."""

    problem: Problem
    artifact: Artifact
    windows: tuple[Window, ...]
    num_threads: int

    @property
    def kernel(self) -> str:
        return self.artifact.design.kernel

    @property
    def isa(self) -> str:
        return ISAS[self.artifact.design.device]

    @property
    def npu_bytes(self) -> int:
        return sum(window.slabs.npu_bytes for window in self.windows)

    @property
    def total_bytes(self) -> int:
        return self.problem.nbytes

    def predicted_seconds(self, rates: Rates = DEFAULT_RATES) -> float:
        """How long `execute` will take now; a device that idles takes longer to answer."""
        first, *others = (window.slabs for window in self.windows)
        seconds = predicted_seconds(first, rates, runtime.npu().idle_seconds)
        return seconds + sum(predicted_seconds(slabs, rates, 0.0) for slabs in others)

    def describe(self) -> str:
        """The plan in words, one fact a line."""
        count = len(self.windows)
        runs = sum(len(window.streams) for window in self.windows)
        words = sum(len(stream) for window in self.windows for stream in window.streams) // 4
        lines = [f"{count} windows, of which the first:"] if count > 1 else []
        lines.append(self.windows[0].slabs.describe())
        lines.append(f"{runs} run(s) of the program in {self.artifact.folder}, {words} words")
        return "\n".join(lines)

    def execute(self, src_ptr: int, dst_ptr: int) -> None:
        """Move the data. Raises DeviceError if the device fails."""
        for window in self.windows:
            source, target = src_ptr + window.src_offset_bytes, dst_ptr + window.dst_offset_bytes
            self._execute(window, source, target)

    def _execute(self, window: Window, src_ptr: int, dst_ptr: int) -> None:
        slabs = window.slabs
        load, unload = Plan(slabs.load, self.num_threads), Plan(slabs.unload, self.num_threads)
        with slabs.edges_meanwhile(src_ptr, dst_ptr, self.num_threads):
            runtime.npu().execute(
                self.artifact,
                window.streams,
                slabs.npu_bytes,
                load=lambda buffer: load.execute(src_ptr, buffer),
                unload=lambda buffer: unload.execute(buffer, dst_ptr),
            )


class Npu:
    name = "npu"

    def __init__(self) -> None:
        self._plans: runtime.Recent[tuple[Problem, int, bool], NpuPlan]
        self._plans = runtime.Recent(MAX_PLANS)
        self._lock = threading.Lock()

    def info(self) -> DeviceInfo:
        try:
            return DeviceInfo(self.name, True, runtime.npu().name)
        except DeviceError as error:
            return DeviceInfo(self.name, False, str(error).removeprefix("npu: "))

    def plan(self, problem: Problem, num_threads: int) -> NpuPlan:
        """Plan `problem` with a compiled program, building one where none will do.

        Raises:
            DeviceError: the device is not there, or no program is and none can be built.
            PlanError: no part of the problem suits the NPU.
        """
        return self._plan(problem, num_threads, may_build=True)

    def plan_built(self, problem: Problem, num_threads: int) -> NpuPlan:
        """As `plan`, but never builds: DeviceError where there is no program."""
        return self._plan(problem, num_threads, may_build=False)

    def measure(self) -> Rates:
        """The costs around the slabs as they are on this machine: seconds of measuring.

        Raises:
            DeviceError: the device is not there, or no program for a small matrix has been built.
        """
        copy = Plan(Problem(1, (COPY_BYTES,), (0,)), 0)
        copying = COPY_BYTES / _shortest(copy, COPY_BYTES, repeats=5)
        small = self.plan_built(Problem(4, (SMALL_SIDE, SMALL_SIDE), (1, 0)), 0)
        whole = _shortest(small, small.total_bytes, repeats=50)
        rest = whole - small.windows[0].slabs.transpose.predicted_seconds()
        return replace(
            DEFAULT_RATES, dispatch_seconds=max(rest, 0.0), copy_bytes_per_second=copying
        )

    def _plan(self, problem: Problem, num_threads: int, *, may_build: bool) -> NpuPlan:
        device = runtime.npu().model.device
        with self._lock:
            return self._plans.get_or_make(
                (problem, num_threads, may_build),
                lambda: _plan(problem, device, num_threads, may_build=may_build),
            )


def _plan(problem: Problem, device: str, num_threads: int, *, may_build: bool) -> NpuPlan:
    """Choose the program by the first window; the others, at most larger, use the same."""
    first, *others = windows(problem)
    slabs, artifact = _program(first.problem, device, may_build=may_build)
    planned = [_window(slabs, first)]
    for box in others:
        planned.append(_window(plan_slabs(box.problem, device, artifact.design), box))
    return NpuPlan(problem, artifact, tuple(planned), num_threads)


def _window(slabs: Slabs, box: Box) -> Window:
    """The window of `box`, its words assembled or taken from the cache."""
    cache = Cache()
    streams = tuple(
        cache.instructions(repr((slabs.transpose, run)), partial(slabs.instructions, run))
        for run in slabs.runs()
    )
    return Window(slabs, streams, box.src_offset_bytes, box.dst_offset_bytes)


def _shortest(plan: DevicePlan, nbytes: int, repeats: int) -> float:
    """The least seconds of several executions, after one that warms up."""
    source, target = (ctypes.create_string_buffer(nbytes) for _ in range(2))
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        plan.execute(ctypes.addressof(source), ctypes.addressof(target))
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def _program(problem: Problem, device: str, *, may_build: bool) -> tuple[Slabs, Artifact]:
    """The slabs of `problem` and the program that is best for them, among those there can be."""
    # Here, for what builds programs needs NumPy, which using hptp without an NPU must not.
    from aie_design.build import Toolchain, build
    from aie_design.combined_transpose import kernel_symbol

    best = plan_slabs(problem, device)
    design = Design.of(best.transpose, kernel_symbol(best.transpose, best.kernel))
    cache, toolchain = Cache(), Toolchain.find()
    missing = toolchain.missing()
    tools = None if missing else toolchain.fingerprint()
    if artifact := cache.find(design, tools):
        return best, artifact
    others = _others(problem, cache.current(f"{device}-*", tools))
    if others and _is_good_enough(others[0][0], best):
        return others[0]
    if may_build and not missing:
        return best, build(best.transpose, best.kernel, cache=cache, toolchain=toolchain)
    if others:
        return others[0]
    tools_missing = ", ".join(tool.name for tool in missing)
    raise DeviceError(
        f"npu: there is no compiled program for {design} in {cache.root}; run `hptp build`"
        + (f" where its tools are (missing here: {tools_missing})" if missing else "")
    )


def _others(problem: Problem, artifacts: list[Artifact]) -> list[tuple[Slabs, Artifact]]:
    """The programs that can do a part of `problem`, those that do most of it soonest first."""
    found = []
    for artifact in artifacts:
        try:
            found.append((plan_slabs(problem, artifact.design.device, artifact.design), artifact))
        except PlanError:
            continue
    return sorted(found, key=lambda pair: (-pair[0].npu_bytes, _seconds(pair[0])))


def _is_good_enough(slabs: Slabs, best: Slabs) -> bool:
    """Whether to do without the best program, because this one leaves no more to the CPU."""
    return slabs.npu_bytes == best.npu_bytes and _seconds(slabs) <= WORTH_BUILDING * _seconds(best)


def _seconds(slabs: Slabs) -> float:
    return predicted_seconds(slabs, DEFAULT_RATES, idle_seconds=0.0)


DEVICE = Npu()
