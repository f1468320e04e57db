"""Running compiled programs on the NPU through XRT's Python module.

Opening the device, making a hardware context and allocating buffers each cost more than a run, so
one `Npu` per process keeps them: programs and buffers in least-recently-used order, each bounded.
What can go wrong has one answer each:

    no context is free      drop the oldest (npu: all), try once more
    a run ends in an error  drop its program, try once more with a fresh context
    a run never ends        the device is wedged: this process does not use it again, and never
                            frees what it may still be writing to

The order of the calls is the one XRT documents: device, xclbin, register, context, kernel, buffers;
sync to the device, run, wait with a timeout, look at the state, sync back.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Generic, TypeVar

from hptp.errors import DeviceError, HptpError
from hptp.npu import xrt
from hptp.npu.artifacts import Artifact
from hptp.npu.models import MODELS, Model, model_named

KERNEL_PREFIX = "MLIR_AIE"
RUN_OPCODE = 3
INSTRUCTIONS_ARGUMENT, INPUT_ARGUMENT, OUTPUT_ARGUMENT = 1, 3, 4
NUM_ARGUMENTS = 5  # opcode, instructions, their size, input, output

# The driver gives up on a run after 2 s by default and says so in the state; waiting longer than
# that is how a driver that does not give up is told apart.
TIMEOUT_MS = 5000
MAX_STREAMS = 64  # instruction buffers kept per program
MAX_BUFFERS = 8  # data buffers kept,
MAX_BUFFER_BYTES = 1 << 28  # and their bytes, for they are pinned; the current two may be larger
BUFFER_STEP_BYTES = 1 << 16  # data buffers are rounded up to this, so that similar sizes share one

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(OrderedDict[Key, Value], Generic[Key, Value]):
    """The most recently used values, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of `key`, made if it is not there, dropping the least recently used one."""
        if key not in self:
            value = make()
            while len(self) >= self.limit:
                self.popitem(last=False)
            self[key] = value
        self.move_to_end(key)
        return self[key]


@dataclass
class Program:
    """A compiled design in a hardware context of its own, with the streams it ran lately."""

    xclbin: Any
    context: Any
    kernel: Any
    streams: Recent[bytes, Any] = field(default_factory=lambda: Recent(MAX_STREAMS))


class RunFailed(Exception):
    """A run that ended in a state other than completed, or could not be started."""


class Npu:
    """The first NPU of this machine, opened through `pyxrt`; any thread may use it.

    Raises:
        DeviceError: no device opens, or it is of a model that hptp does not know.
    """

    def __init__(self, pyxrt: ModuleType) -> None:
        self._xrt = pyxrt
        with _explained("no device opens; `hptp doctor` says why"):
            self._device = pyxrt.device(0)
            self.name = str(self._device.get_info(pyxrt.xrt_info_device.name))
        self.model = _model(self.name)
        self._programs: Recent[str, Program] = Recent(self.model.contexts)
        self._buffers: Recent[tuple[int, int, int], Any] = Recent(MAX_BUFFERS)
        self._lock = threading.Lock()
        self._wedged: tuple[str, tuple[Any, ...]] | None = None
        self._last_run: float | None = None

    @property
    def failure(self) -> str:
        """Why this process may not use the device any more; empty while it may."""
        return self._wedged[0] if self._wedged else ""

    @property
    def idle_seconds(self) -> float:
        """Since the last run ended; infinity before the first."""
        return math.inf if self._last_run is None else time.monotonic() - self._last_run

    def execute(
        self,
        artifact: Artifact,
        streams: Sequence[bytes],
        nbytes: int,
        load: Callable[[int], None],
        unload: Callable[[int], None],
    ) -> None:
        """Run instruction streams one after the other on one input and one output of `nbytes`.

        `load` fills the input at the address it is given, `unload` takes the output from its
        address.

        Raises:
            DeviceError: the device is wedged, or the program or a run failed twice.
        """
        with self._lock:
            if self._wedged:
                raise DeviceError(f"npu: {self.failure}")
            try:
                self._attempt(artifact, streams, nbytes, load, unload)
            except RunFailed:
                self._programs.pop(artifact.key, None)
                try:
                    self._attempt(artifact, streams, nbytes, load, unload)
                except RunFailed as error:
                    self._programs.pop(artifact.key, None)
                    raise DeviceError(f"npu: {error}; `sudo dmesg` may say more") from error

    def _attempt(
        self,
        artifact: Artifact,
        streams: Sequence[bytes],
        nbytes: int,
        load: Callable[[int], None],
        unload: Callable[[int], None],
    ) -> None:
        program = self._program(artifact)
        source = self._buffer(program, INPUT_ARGUMENT, nbytes)
        target = self._buffer(program, OUTPUT_ARGUMENT, nbytes)
        direction = self._xrt.xclBOSyncDirection
        load(_address(source))
        with _explained("the input does not reach the device"):
            source.sync(direction.XCL_BO_SYNC_BO_TO_DEVICE, nbytes, 0)
        for words in streams:
            self._run(program, words, source, target)
        with _explained("the output does not come back from the device"):
            target.sync(direction.XCL_BO_SYNC_BO_FROM_DEVICE, nbytes, 0)
        unload(_address(target))

    def _run(self, program: Program, words: bytes, source: Any, target: Any) -> None:
        """One run of one stream, waited for.

        pyxrt holds Python's lock while it waits, and ignores arguments it cannot convert, so only
        buffers and plain integers go in.
        """
        instructions = program.streams.get_or_make(
            hashlib.sha256(words).digest(), lambda: self._instructions(program, words)
        )
        states = self._xrt.ert_cmd_state
        try:
            run = program.kernel(RUN_OPCODE, instructions, len(words), source, target)
            state = run.wait(TIMEOUT_MS)
        except RuntimeError as error:
            raise RunFailed(f"a run could not be started: {error}") from error
        self._last_run = time.monotonic()
        if state == states.ERT_CMD_STATE_COMPLETED:
            return
        unfinished = (
            states.ERT_CMD_STATE_NEW,
            states.ERT_CMD_STATE_QUEUED,
            states.ERT_CMD_STATE_SUBMITTED,
            states.ERT_CMD_STATE_TIMEOUT,
        )
        if state in unfinished:
            why = (
                f"a run did not end within {TIMEOUT_MS} ms ({state}), so the device is left alone "
                "until this process ends; the driver's own limit is the `timeout_in_sec` of "
                "module amdxdna"
            )
            self._wedged = (why, (program, instructions, source, target, run))
            raise DeviceError(f"npu: {why}")
        raise RunFailed(f"a run ended in {state}")

    def _program(self, artifact: Artifact) -> Program:
        if artifact.key not in self._programs and len(self._programs) == self.model.contexts:
            self._make_room()
        return self._programs.get_or_make(artifact.key, lambda: self._load(artifact))

    def _load(self, artifact: Artifact) -> Program:
        """Read an xclbin and give it a context."""
        path = artifact.xclbin
        with _explained(f"XRT cannot read {path}; remove its folder and run `hptp build`"):
            xclbin = self._xrt.xclbin(str(path))
            kernels = {kernel.get_name(): kernel.get_num_args() for kernel in xclbin.get_kernels()}
        names = [name for name in kernels if name.startswith(KERNEL_PREFIX)]
        if not names:
            raise DeviceError(f"npu: {path} has no kernel {KERNEL_PREFIX}*: {kernels}")
        # XRT crashes on an argument beyond those the xclbin declares.
        if kernels[names[0]] < NUM_ARGUMENTS:
            raise DeviceError(
                f"npu: kernel {names[0]} of {path} takes {kernels[names[0]]} arguments, "
                f"not {NUM_ARGUMENTS}"
            )
        with _explained(f"the device does not take {path}; `hptp doctor` shows its versions"):
            uuid = self._device.register_xclbin(xclbin)
            context = self._context(uuid)
            return Program(xclbin, context, self._xrt.kernel(context, names[0]))

    def _context(self, uuid: Any) -> Any:
        """A hardware context. Other processes use up the same few, so this can fail at any time."""
        try:
            return self._xrt.hw_context(self._device, uuid)
        except RuntimeError:
            self._make_room()
        contexts = f"of the device's {self.model.contexts}, which all processes share"
        with _explained(f"no hardware context is free {contexts}"):
            return self._xrt.hw_context(self._device, uuid)

    def _make_room(self) -> None:
        """Drop the program that was not used for longest, or all where the model needs that."""
        if self.model.drains:
            self._programs.clear()
        elif self._programs:
            self._programs.popitem(last=False)

    def _instructions(self, program: Program, words: bytes) -> Any:
        group = program.kernel.group_id(INSTRUCTIONS_ARGUMENT)
        buffer = self._allocate(len(words), self._xrt.bo.cacheable, group)
        with _explained("the instructions do not reach the device"):
            buffer.write(words, 0)
            buffer.sync(self._xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, len(words), 0)
        return buffer

    def _buffer(self, program: Program, argument: int, nbytes: int) -> Any:
        """A data buffer of at least `nbytes`, the same one for the same argument and size."""
        size = -(-nbytes // BUFFER_STEP_BYTES) * BUFFER_STEP_BYTES
        group = program.kernel.group_id(argument)
        key = (argument, group, size)
        if key not in self._buffers:
            self._trim_buffers(size)
        return self._buffers.get_or_make(
            key, lambda: self._allocate(size, self._xrt.bo.host_only, group)
        )

    def _trim_buffers(self, size: int) -> None:
        """Free the buffers used least recently, but for the last, until `size` more bytes fit."""
        while len(self._buffers) > 1 and sum(b[2] for b in self._buffers) + size > MAX_BUFFER_BYTES:
            self._buffers.popitem(last=False)

    def _allocate(self, size: int, flags: Any, group: int) -> Any:
        with _explained(f"no buffer of {size} bytes; `hptp doctor` shows the memlock limit"):
            return self._xrt.bo(self._device, size, flags, group)


def _address(buffer: Any) -> int:
    """Where the host sees a buffer."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer.map()))


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what pyxrt raises into a DeviceError that says what it means and quotes it."""
    try:
        yield
    except HptpError:
        raise
    except (RuntimeError, MemoryError) as error:
        raise DeviceError(f"npu: {what}: {error}") from error


def _model(name: str) -> Model:
    if (model := model_named(name)) is not None:
        return model
    known = ", ".join(known for model in MODELS for known in model.names)
    raise DeviceError(f"npu: the device calls itself {name!r}, which is none of {known}")


_open_lock = threading.Lock()
_opened: Npu | None = None


def npu() -> Npu:
    """This process's NPU, opened at the first call.

    Raises:
        DeviceError: there is none, pyxrt is missing, or the device is wedged, as the message says.
    """
    global _opened
    with _open_lock:
        if _opened is None:
            _opened = Npu(xrt.load())
        if _opened.failure:
            raise DeviceError(f"npu: {_opened.failure}")
        return _opened


def _leave_to_parent() -> None:
    """In a forked child: open the device anew, and never close what the parent still uses.

    Both share the open device file, so the child's copies must not run their destructors.
    """
    global _opened, _open_lock
    if _opened is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_opened))
    _opened, _open_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
