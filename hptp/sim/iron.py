"""The IRON names, executable: the same programs that mlir-aie compiles run here instead.

The surface is that of IRON in the spring of 2026 (its second generation: no placer, `tile=`),
limited to what moves data: fifos with layout changes and forwarding, workers, the runtime
sequence with fills, drains and task groups. `Program.resolve_program` returns what
`hptp.sim.run_program` executes.

    >>> import numpy as np
    >>> line = np.ndarray[(16,), np.dtype[np.int32]]
    >>> fifo_in, rt = ObjectFifo(line, name="in"), Runtime()
    >>> fifo_out = fifo_in.cons().forward(name="out")
    >>> with rt.sequence(line, line) as (a, b):
    ...     rt.fill(fifo_in.prod(), a)
    ...     rt.drain(fifo_out.cons(), b, wait=True)
    >>> program = Program(NPU1Col1(), rt).resolve_program()
"""

from __future__ import annotations

from collections.abc import Callable

from hptp.sim.hardware import Tile
from hptp.sim.lower import Device, Program
from hptp.sim.program import Kernel, ObjectFifo, Runtime, TensorAccessPattern, Worker

__all__ = [
    "NPU1",
    "NPU2",
    "Kernel",
    "NPU1Col1",
    "NPU1Col2",
    "NPU1Col3",
    "NPU2Col1",
    "NPU2Col2",
    "NPU2Col3",
    "NPU2Col4",
    "NPU2Col5",
    "NPU2Col6",
    "NPU2Col7",
    "ObjectFifo",
    "Program",
    "Runtime",
    "TensorAccessPattern",
    "Tile",
    "Worker",
    "range_",
]

range_ = range


def _device(generation: str, columns: int) -> Callable[[], Device]:
    """A class of IRON that stands for an NPU or its first columns; calling it gives the device."""
    return lambda: Device(generation, columns)


NPU1Col1, NPU1Col2, NPU1Col3, NPU1 = (_device("npu", k) for k in range(1, 5))
NPU2Col1, NPU2Col2, NPU2Col3, NPU2Col4, NPU2Col5, NPU2Col6, NPU2Col7, NPU2 = (
    _device("npu2", k) for k in range(1, 9)
)
