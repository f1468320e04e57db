"""A strict stand-in for pyxrt, with an NPU behind it that executes instruction words.

The surface is that of XRT's src/python/pybind11/src/pyxrt.cpp, as much of it as a host program for
an NPU uses, and the rules are those a real one enforces late or not at all: the order of the calls,
the argument types (a real `kernel(...)` ignores what it cannot convert), group ids and buffer
flags, and that host and device see each other's writes only after a sync in the right direction.
Breaking a rule raises BrokenRule, which nothing in the product catches.

An "xclbin" is a JSON file: the design whose program the array holds. A run executes its words on
the interpreter. `Hardware.faults` says what the next runs do instead of completing.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import json
import weakref
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from aie_design import combined_transpose, frontend
from aie_design.instructions import from_bytes
from aie_design.plan import TransposePlan
from hptp import sim
from hptp.npu.artifacts import XCLBIN, Artifact, Cache, Design

GARBAGE = 0xA5


class BrokenRule(AssertionError):
    """The program under test did something XRT forbids, or would silently get wrong."""


class State(enum.Enum):
    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_QUEUED = 2
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_SUBMITTED = 7
    ERT_CMD_STATE_TIMEOUT = 8


class Sync(enum.Enum):
    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1


class Info(enum.Enum):
    name = 5


class Flags(enum.Enum):
    cacheable = 1
    host_only = 3


# Which kind of buffer each argument of the kernel must be; the group of argument k is 0x10000 + k.
ARGUMENT_FLAGS = {1: Flags.cacheable, 3: Flags.host_only, 4: Flags.host_only}
FIRST_GROUP = 0x10000


def rule(holds: bool, sentence: str) -> None:
    if not holds:
        raise BrokenRule(sentence)


def is_int(value: object) -> bool:
    return type(value) is int


@dataclass
class Hardware:
    """One NPU. Faults are taken from the front, one a run:

    "timeout"  it never ends, nor does any later one
    "error"    it ends in an error state
    "abort"    the driver ends it
    "lost"     its context is gone: starting it raises

    Calls named in `refused` raise RuntimeError, as everything in XRT may.
    """

    name: str = "RyzenAI-npu1"
    contexts: int = 6
    num_devices: int = 1
    faults: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    wedged: bool = False
    calls: list[str] = field(default_factory=list)
    live_contexts: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)

    def called(self, call: str) -> None:
        """Note a call, or refuse it as XRT would."""
        if call in self.refused:
            raise RuntimeError(f"{call} refused")
        self.calls.append(call)

    def count(self, call: str) -> int:
        return self.calls.count(call)


def make_pyxrt(hardware: Hardware) -> ModuleType:
    """A module like pyxrt for this hardware."""
    uuids = itertools.count(1)

    class uuid:
        def __init__(self, text: str) -> None:
            self.text = text

    class xclbin:
        def __init__(self, path: str) -> None:
            rule(type(path) is str, f"xclbin(path): path is {path!r}")
            hardware.called("xclbin")
            try:
                content = json.loads(Path(path).read_text())
                self.design = Design(**content["design"])
                self.kernel_name, self.num_args = content["kernel"], content["num_args"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise RuntimeError(f"failed to read xclbin {path}: {error}") from error
            self.uuid = uuid(f"uuid-{next(uuids)}")

        def get_kernels(self) -> list[Any]:
            return [xclbinkernel("other_kernel", 1), xclbinkernel(self.kernel_name, self.num_args)]

        def get_uuid(self) -> uuid:
            return self.uuid

    @dataclass(frozen=True)
    class xclbinkernel:
        name: str
        num_args: int

        def get_name(self) -> str:
            return self.name

        def get_num_args(self) -> int:
            return self.num_args

    class device:
        def __init__(self, index: int) -> None:
            rule(is_int(index), f"device(index): index is {index!r}")
            if index >= hardware.num_devices:
                raise RuntimeError("No such device with index '0'")
            hardware.called("device")
            self.registered: dict[str, xclbin] = {}

        def get_info(self, key: Info) -> str:
            rule(key is Info.name, f"get_info({key!r})")
            return hardware.name

        def register_xclbin(self, binary: xclbin) -> uuid:
            rule(isinstance(binary, xclbin), f"register_xclbin({binary!r})")
            hardware.called("register_xclbin")
            self.registered[binary.uuid.text] = binary
            return binary.uuid

    class hw_context:
        def __init__(self, owner: device, of: uuid) -> None:
            rule(isinstance(owner, device) and isinstance(of, uuid), "hw_context(device, uuid)")
            rule(of.text in owner.registered, "hw_context of an xclbin that is not registered")
            hardware.called("hw_context")
            if len(hardware.live_contexts) >= hardware.contexts:
                raise RuntimeError("DRM_IOCTL_AMDXDNA_CREATE_HWCTX: No such file or directory")
            self.xclbin = owner.registered[of.text]
            hardware.live_contexts.add(self)

    class kernel:
        def __init__(self, context: hw_context, name: str) -> None:
            rule(isinstance(context, hw_context), f"kernel(context, name): {context!r}")
            rule(name == context.xclbin.kernel_name, f"kernel {name!r} is not in the xclbin")
            hardware.called("kernel")
            self.context = context
            self.program = tile_program(context.xclbin.design)

        def group_id(self, argument: int) -> int:
            rule(argument in ARGUMENT_FLAGS, f"group_id({argument!r}): no such buffer argument")
            return FIRST_GROUP + argument

        def __call__(self, *arguments: Any) -> run:
            rule(len(arguments) <= self.context.xclbin.num_args, "too many arguments: XRT crashes")
            rule(len(arguments) == 5, f"kernel(...) has 5 arguments, not {len(arguments)}")
            opcode, words, nbytes, source, target = arguments
            rule(is_int(opcode) and opcode == 3, f"opcode {opcode!r} is not 3")
            rule(is_int(nbytes), f"the size of the instructions is {nbytes!r}")
            for number, buffer in ((1, words), (3, source), (4, target)):
                rule(isinstance(buffer, bo), f"argument {number} is {buffer!r}, not a bo")
                group = FIRST_GROUP + number
                rule(buffer.group == group, f"argument {number} is in group {buffer.group:#x}")
            for name, buffer in (("instruction", words), ("input", source)):
                rule(buffer.device_is_current(), f"the {name} buffer was not synced to the device")
            return run(self, words, nbytes, source, target)

    class bo:
        cacheable, host_only = Flags.cacheable, Flags.host_only

        def __init__(self, owner: device, nbytes: int, flags: Flags, group: int) -> None:
            rule(isinstance(owner, device), f"bo(device, ...): {owner!r}")
            rule(is_int(nbytes) and nbytes > 0, f"bo size {nbytes!r}")
            rule(is_int(group) and group - FIRST_GROUP in ARGUMENT_FLAGS, f"bo group {group!r}")
            wanted = ARGUMENT_FLAGS[group - FIRST_GROUP]
            rule(flags is wanted, f"bo of group {group:#x} is {flags}, not {wanted}")
            hardware.called("bo")
            self.group = group
            self.host = np.full(nbytes, GARBAGE, np.uint8)
            self.on_device = np.full(nbytes, GARBAGE ^ 0xFF, np.uint8)
            self.synced_bytes = 0

        def size(self) -> int:
            return self.host.size

        def map(self) -> memoryview:
            return memoryview((ctypes.c_char * self.host.size).from_buffer(self.host)).cast("B")

        def write(self, data: bytes, seek: int) -> None:
            rule(is_int(seek) and seek + len(data) <= self.host.size, "write beyond the buffer")
            self.host[seek : seek + len(data)] = np.frombuffer(data, np.uint8)

        def sync(self, direction: Sync, nbytes: int, offset: int) -> None:
            rule(isinstance(direction, Sync), f"sync direction {direction!r}")
            rule(is_int(nbytes) and is_int(offset), f"sync({nbytes!r}, {offset!r})")
            rule(0 < nbytes <= self.host.size and offset == 0, f"sync of {nbytes} bytes")
            hardware.called("sync")
            if direction is Sync.XCL_BO_SYNC_BO_TO_DEVICE:
                self.on_device[:nbytes] = self.host[:nbytes]
                self.synced_bytes = nbytes
            else:
                self.host[:nbytes] = self.on_device[:nbytes]
                self.on_device[:] = GARBAGE ^ 0xFF  # the next run cannot lean on this one's result

        def device_is_current(self) -> bool:
            count = self.synced_bytes
            return count > 0 and bool((self.host[:count] == self.on_device[:count]).all())

    class run:
        def __init__(self, of: kernel, words: bo, nbytes: int, source: bo, target: bo) -> None:
            hardware.called("run")
            self.fault = hardware.faults.pop(0) if hardware.faults else ""
            if self.fault == "lost":
                raise RuntimeError("DRM_IOCTL_AMDXDNA_EXEC_CMD IOCTL failed (err=22)")
            hardware.wedged |= self.fault == "timeout"
            rule(nbytes <= words.synced_bytes, f"{nbytes} bytes of instructions were not synced")
            self.work = (of.program, words.on_device[:nbytes].tobytes(), source, target)

        def wait(self, *timeout_ms: int) -> State:
            rule(len(timeout_ms) == 1, "wait() without a timeout never returns")
            rule(is_int(timeout_ms[0]) and timeout_ms[0] > 0, f"wait({timeout_ms[0]!r})")
            if hardware.wedged:
                return State.ERT_CMD_STATE_TIMEOUT
            if self.fault:
                return State[f"ERT_CMD_STATE_{self.fault.upper()}"]
            program, words, source, target = self.work
            arguments = [source.on_device, target.on_device]
            sim.run_words(from_bytes(words), program, arguments)
            return State.ERT_CMD_STATE_COMPLETED

    module = ModuleType("pyxrt")
    module.__dict__.update(
        device=device,
        xclbin=xclbin,
        hw_context=hw_context,
        kernel=kernel,
        bo=bo,
        run=run,
        ert_cmd_state=State,
        xclBOSyncDirection=Sync,
        xrt_info_device=Info,
    )
    return module


def tile_program(design: Design) -> Any:
    """What the array holds: the program of any plan of this design, since it knows tiles only."""
    sizes = (design.m * design.channels, design.n * design.columns)
    fixed = {k: v for k, v in asdict(design).items() if k != "kernel"}
    plan = TransposePlan(*sizes, **fixed)
    return combined_transpose.build(plan, frontend.load("sim"), design.kernel.split("_")[0])


def put_program(
    cache: Cache,
    design: Design,
    *,
    kernel: str = "MLIR_AIE",
    num_args: int = 5,
    tools: str = "fake",
) -> Artifact:
    """Leave an "xclbin" of `design` in the cache, as a build would."""
    content = xclbin_text(design, kernel, num_args)
    return cache.store(design, tools, lambda folder: (folder / XCLBIN).write_text(content) and None)


def xclbin_text(design: Design, kernel: str = "MLIR_AIE", num_args: int = 5) -> str:
    """The content of an "xclbin"."""
    return json.dumps({"design": asdict(design), "kernel": kernel, "num_args": num_args})
