"""IRON 1.4 (generation G3): the sequence is a function, and the ends of fifos fill and drain.

Origin: Xilinx/mlir-aie at 54444e7b, python/iron/runtime/_sequence.py and taskgroup.py, and at
1f245caa, program.py; designs written for 1.4 (a list of handles among the Runtime's arguments).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.standins.g2 import ANY, Kernel, Worker
from tests.standins.recording import (
    Device,
    Endpoint,
    Fifo,
    Move,
    Recording,
    TensorAccessPattern,
    Tile,
    check_dims,
    check_types,
    range_,
)
from tests.standins.recording import npu_device as __getattr__

__all__ = ["Kernel", "TensorAccessPattern", "Tile", "Worker", "__getattr__", "range_"]


class ObjectFifo(Fifo):
    def __init__(
        self,
        obj_type: Any,
        depth: int | None = 2,
        name: str | None = None,
        dims_to_stream: Any = None,
        dims_from_stream_per_cons: Any = None,
        plio: bool = False,
    ) -> None:
        super().__init__(obj_type, depth, name)

    def prod(self, depth: int | None = None, tile: Any = None) -> Any:
        if self.producer is None:
            self.producer = ObjectFifoHandle(self, True, None, tile)
        elif tile is not None and tile != self.producer.tile:
            raise ValueError(f"already pinned to shim tile {self.producer.tile}")
        return self.producer

    def cons(
        self, depth: int | None = None, dims_from_stream: Any = None, tile: Any = None
    ) -> ObjectFifoHandle:
        if dims_from_stream is not None:
            check_dims(dims_from_stream)
        return ObjectFifoHandle(self, False, dims_from_stream, tile)


class Transferring(Endpoint):
    """The verbs of a handle inside the sequence function."""

    def fill(self, source: Any, tap: Any = None, wait: bool = False, group: Any = None) -> None:
        if not self.is_prod:
            raise ValueError("fill() is only valid on a producer ObjectFifoHandle")
        self._move("fill", source, tap, wait, group)

    def drain(self, dest: Any, tap: Any = None, wait: bool = False, group: Any = None) -> None:
        if self.is_prod:
            raise ValueError("drain() is only valid on a consumer ObjectFifoHandle")
        self._move("drain", dest, tap, wait, group)

    def _move(self, direction: str, buffer: Any, tap: Any, wait: bool, group: Any) -> None:
        runtime = active_sequence()
        if group.finished:
            raise ValueError("Cannot add a transfer to a group that has already been finished.")
        self.connect(("host", self.tile))
        number = runtime.buffers.index(buffer)
        name = str(self.fifo.name)
        runtime.recording.steps.append(
            Move(direction, name, self.tile, number, tap.numbers(), group.number, wait)
        )


class ObjectFifoHandle(Transferring):
    def forward(
        self,
        tile: Any = ANY,
        obj_type: Any = None,
        depth: int | None = None,
        name: str | None = None,
        dims_to_stream: Any = None,
        dims_from_stream: Any = None,
        plio: bool = False,
    ) -> Any:
        return self.carry_on(tile, obj_type, depth, name)


class Runtime:
    active: ClassVar[Runtime | None] = None

    def __init__(self, sequence_fn: Callable[..., None], fn_args: list[Any]) -> None:
        self.recording = Recording("", [], [t for t in fn_args if hasattr(t, "__origin__")])
        check_types(self.recording.buffer_types)
        self.buffers = [object() for _ in self.recording.buffer_types]
        self.groups: list[TaskGroup] = []
        self.sequence_fn = sequence_fn
        self.arguments = [*self.buffers, *fn_args[len(self.buffers) :]]

    def run(self) -> None:
        Runtime.active = self
        try:
            self.sequence_fn(*self.arguments)
        finally:
            Runtime.active = None
        if not all(group.finished for group in self.groups):
            raise RuntimeError("Runtime sequence ended with unfinished task group(s)")


def active_sequence() -> Runtime:
    if Runtime.active is None:
        raise RuntimeError("data movement outside the function passed to Runtime")
    return Runtime.active


class TaskGroup:
    def __init__(self) -> None:
        runtime = active_sequence()
        self.number, self.finished = len(runtime.groups), False
        runtime.groups.append(self)

    def finish(self) -> None:
        self.finished = True
        active_sequence().recording.steps.append(self.number)


class Program:
    def __init__(self, device: Device, rt: Runtime, workers: list[Any] | None = None) -> None:
        self._device, self._rt, self._workers = device, rt, workers or []

    def resolve_program(self, device_name: str = "main") -> Recording:
        self._rt.recording.device = self._device.name
        self._rt.recording.workers = list(self._workers)
        self._rt.run()
        return self._rt.recording
