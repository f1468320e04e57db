"""IRON after 1.4: a stream's layout is a TensorAccessPattern over one object, `from_stream=`.

Origin: python/iron/dataflow/objectfifo.py of Xilinx/mlir-aie (main, summer 2026): everything but
the type is given to ObjectFifo by keyword.
"""

from __future__ import annotations

from typing import Any

from tests.standins import g3
from tests.standins.g3 import ANY, Program, Runtime, TaskGroup, Worker
from tests.standins.recording import Kernel, TensorAccessPattern, Tile, range_
from tests.standins.recording import npu_device as __getattr__

__all__ = [
    "Kernel",
    "Program",
    "Runtime",
    "TaskGroup",
    "TensorAccessPattern",
    "Tile",
    "Worker",
    "__getattr__",
    "range_",
]


class ObjectFifo(g3.Fifo):
    def __init__(
        self,
        obj_type: Any,
        *,
        depth: int | None = 2,
        name: str | None = None,
        to_stream: TensorAccessPattern | None = None,
        from_stream_per_cons: TensorAccessPattern | None = None,
        plio: bool = False,
    ) -> None:
        super().__init__(obj_type, depth, name)

    def prod(
        self, depth: int | None = None, channel: int | None = None, tile: Any = None
    ) -> ObjectFifoHandle:
        if self.producer is None:
            self.producer = ObjectFifoHandle(self, True, None, tile)
        return self.producer

    def cons(
        self,
        depth: int | None = None,
        from_stream: TensorAccessPattern | None = None,
        channel: int | None = None,
        tile: Any = None,
    ) -> ObjectFifoHandle:
        layout = None
        if from_stream is not None:
            if not isinstance(from_stream, TensorAccessPattern):
                raise TypeError(f"from_stream takes a TensorAccessPattern, got {from_stream!r}")
            shape = self.obj_type.__args__[0]
            if from_stream.tensor_size != shape[0] * shape[1] or from_stream.offset:
                raise ValueError("from_stream walks a tensor of another size than the object")
            if from_stream.sizes[0] == 1:
                # taplib zeroes the strides of leading dimensions of size 1, and a memtile's
                # descriptor needs positive ones (mlir-aie #2308).
                raise ValueError(f"a leading size of 1 gets stride 0: {from_stream.sizes}")
            layout = list(zip(from_stream.sizes, from_stream.strides, strict=True))
        return ObjectFifoHandle(self, False, layout, tile)


class ObjectFifoHandle(g3.Transferring):
    def forward(
        self,
        tile: Any = ANY,
        obj_type: Any = None,
        depth: int | None = None,
        name: str | None = None,
        to_stream: TensorAccessPattern | None = None,
        from_stream: TensorAccessPattern | None = None,
        plio: bool = False,
        repeat_count: int | None = None,
        pad_value: int = 0,
        channel: int | None = None,
    ) -> Any:
        return self.carry_on(tile, obj_type, depth, name)
