"""IRON as of spring 2026, about 1.3 (generation G2): `tile=` instead of `placement=`, no placers.

Origin: hunhoffe/mlir-aie at d8a895f0, python/iron/runtime/runtime.py; worker.py and the handles'
forward as in the 1.3 programming guide (programming_guide/section-1 and section-2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.standins import g1
from tests.standins.g1 import ANY
from tests.standins.recording import Device, Kernel, Recording, TensorAccessPattern, Tile, range_
from tests.standins.recording import npu_device as __getattr__

__all__ = ["Kernel", "TensorAccessPattern", "Tile", "__getattr__", "range_"]


class ObjectFifo(g1.ObjectFifo):
    def prod(self, depth: int | None = None) -> Any:
        if self.producer is None:
            self.producer = ObjectFifoHandle(self, True)
        return self.producer

    def cons(self, depth: int | None = None, dims_from_stream: Any = None) -> ObjectFifoHandle:
        return ObjectFifoHandle(self, False, super().cons(depth, dims_from_stream).layout)


class ObjectFifoHandle(g1.Endpoint):
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


class Worker(g1.Worker):
    def __init__(
        self,
        core_fn: Callable[..., None] | None,
        fn_args: list[Any] | None = None,
        tile: Any = ANY,
        while_true: bool = True,
        stack_size: int | None = None,
        allocation_scheme: str | None = None,
        trace: int | None = None,
        trace_events: list[Any] | None = None,
    ) -> None:
        super().__init__(core_fn, fn_args or [], tile, while_true)


class Runtime(g1.Runtime):
    def fill(
        self,
        in_fifo: Any,
        source: Any,
        tap: TensorAccessPattern | None = None,
        task_group: int | None = None,
        wait: bool = False,
        tile: Any = ANY,
        packet: tuple[int, int] | None = None,
        offset_parameter: Any = None,
    ) -> None:
        self._move("fill", in_fifo, source, tap, task_group, wait, tile)

    def drain(
        self,
        out_fifo: Any,
        dest: Any,
        tap: TensorAccessPattern | None = None,
        task_group: int | None = None,
        wait: bool = False,
        tile: Any = ANY,
        packet: tuple[int, int] | None = None,
        offset_parameter: Any = None,
    ) -> None:
        self._move("drain", out_fifo, dest, tap, task_group, wait, tile)


class Program:
    def __init__(self, device: Device, rt: Runtime) -> None:
        self._device, self._rt = device, rt

    def resolve_program(self, device_name: str = "main") -> Recording:
        self._rt.recording.device = self._device.name
        return self._rt.recording
