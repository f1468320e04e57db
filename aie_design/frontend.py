"""The IRON names a design uses, from whichever mlir-aie is installed or from the interpreter.

IRON's Python interface has changed twice. A design says what it wants once, in the methods of
`Iron`; what differs between the generations is found out here, by looking at the signatures:

                        until March 2026      spring 2026          1.4 and later
    a tile is given by  placement=            tile=                tile=
    the host's side     rt.sequence(types):   as before            Runtime(function, types + ends)
                        rt.fill(end, ...)                          end.fill(...)
    a stream's layout   dims_from_stream=[(size, stride)]          later from_stream=pattern

Every part is placed explicitly, so no generation needs a placer, and a plan's columns are the
array's. The interpreter (`hptp.sim.iron`) has the names of spring 2026.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

from aie_design.plan import DEVICES, Tap
from hptp.errors import DeviceError

FIRST_CORE_ROW = 2


class HostEnd(NamedTuple):
    """The end of a fifo that the runtime sequence fills or drains, and the shim tile it is at."""

    handle: Any
    tile: Any


class Host(Protocol):
    """What a runtime sequence can do. A group is what `finish` waits for; drains are waited for."""

    def group(self) -> Any: ...
    def fill(self, end: HostEnd, buffer: Any, pattern: Any, group: Any) -> None: ...
    def drain(self, end: HostEnd, buffer: Any, pattern: Any, group: Any) -> None: ...
    def finish(self, group: Any) -> None: ...


def load(backend: str) -> Iron:
    """The names from `backend`: "iron" (mlir-aie) or "sim" (the interpreter).

    Raises:
        DeviceError: mlir-aie cannot be imported, or there is no such backend.
    """
    if backend == "sim":
        return Iron(import_module("hptp.sim.iron"))
    if backend != "iron":
        raise DeviceError(f"no IRON backend {backend!r}: 'iron' or 'sim'")
    try:
        parts = [
            import_module(name)
            for name in (
                "aie.helpers.taplib",
                "aie.iron.device",
                "aie.iron.controlflow",
                "aie.iron",
            )
        ]
    except ImportError as error:
        raise DeviceError(f"mlir-aie cannot be imported ({error}); README.md says how") from error
    return Iron(SimpleNamespace(**{k: v for part in parts for k, v in vars(part).items()}))


class Iron:
    """One generation of IRON, given as a module or namespace that has its names.

    >>> import numpy as np
    >>> iron = load("sim")
    >>> fifo = iron.fifo(np.ndarray[(16,), np.dtype[np.int32]], "in", depth=2)
    """

    def __init__(self, names: Any) -> None:
        self._names = names
        self.range_ = names.range_
        self.Kernel = names.Kernel
        worker = inspect.signature(names.Worker.__init__).parameters
        self._tile_keyword = "placement" if "placement" in worker else "tile"
        cons = inspect.signature(names.ObjectFifo.cons).parameters
        self._stream_takes_pattern = "from_stream" in cons
        self._sequence_is_scope = hasattr(names.Runtime, "sequence")

    # --- The array ---------------------------------------------------------------------------

    def tile(self, column: int, row: int) -> Any:
        return self._names.Tile(column, row)

    def fifo(self, object_type: Any, name: str, depth: int) -> Any:
        return self._names.ObjectFifo(object_type, depth=depth, name=name)

    def through_memtile(self, fifo: Any, layout: Tap, tile: Any, name: str) -> Any:
        """A fifo that carries on from `fifo`, by way of `tile`, where objects lie in `layout`."""
        if self._stream_takes_pattern:
            # A pattern zeroes the strides of leading dimensions of size 1; a memtile refuses those.
            outermost = next((axis for axis, size in enumerate(layout.sizes[:-1]) if size > 1), -1)
            inner = Tap(0, layout.sizes[outermost:], layout.strides[outermost:])
            end = fifo.cons(from_stream=self.pattern(prod(inner.sizes), inner))
        else:
            dims = list(zip(layout.sizes, layout.strides, strict=True))
            end = fifo.cons(dims_from_stream=dims)
        return end.forward(name=name, **{self._tile_keyword: tile})

    def worker(self, core_fn: Callable[..., None], core_args: Sequence[Any], tile: Any) -> Any:
        """A core at `tile` that runs `core_fn(*core_args)` for ever."""
        return self._names.Worker(core_fn, list(core_args), **{self._tile_keyword: tile})

    # --- The host's side -----------------------------------------------------------------------

    def pattern(self, size: int, tap: Tap) -> Any:
        """`tap` over a buffer of `size` elements."""
        make = self._names.TensorAccessPattern
        return make((size,), tap.offset, list(tap.sizes), list(tap.strides))

    def fill_end(self, fifo: Any, tile: Any) -> HostEnd:
        """The end of `fifo` that the host fills, through the shim `tile`."""
        tiles = {} if self._sequence_is_scope else {"tile": tile}
        return HostEnd(fifo.prod(**tiles), tile)

    def drain_end(self, fifo: Any, tile: Any) -> HostEnd:
        """The end of `fifo` that the host drains, through the shim `tile`."""
        tiles = {} if self._sequence_is_scope else {"tile": tile}
        return HostEnd(fifo.cons(**tiles), tile)

    def program(
        self,
        device: str,
        columns: int,
        workers: Sequence[Any],
        buffer_types: Sequence[Any],
        ends: Sequence[HostEnd],
        sequence: Callable[[Host, Sequence[Any], Sequence[HostEnd]], None],
    ) -> Any:
        """The resolved program: an MLIR module, or what the interpreter runs.

        `sequence(host, buffers, ends)` is called once to issue the transfers.
        """
        target = self._device(device, columns)
        if self._sequence_is_scope:
            rt = self._names.Runtime()
            with rt.sequence(*buffer_types) as buffers:
                rt.start(*workers)
                sequence(_RuntimeHost(rt, self._tile_keyword), buffers, ends)
            return self._names.Program(target, rt).resolve_program()

        def body(*arguments: Any) -> None:
            *buffers, handles = arguments
            tiles = (end.tile for end in ends)
            host = _HandleHost(self._names.TaskGroup)
            sequence(host, buffers, list(map(HostEnd, handles, tiles)))

        rt = self._names.Runtime(body, [*buffer_types, [end.handle for end in ends]])
        return self._names.Program(target, rt, workers=list(workers)).resolve_program()

    def _device(self, device: str, columns: int) -> Any:
        """The first `columns` columns of a device: NPU1Col1 ... NPU1, NPU2Col1 ... NPU2."""
        name = {"npu": "NPU1", "npu2": "NPU2"}[device]
        suffix = "" if columns == DEVICES[device].columns else f"Col{columns}"
        return getattr(self._names, name + suffix)()


class _RuntimeHost:
    """The host's side where the runtime moves data: rt.fill, rt.drain, rt.task_group."""

    def __init__(self, rt: Any, tile_keyword: str) -> None:
        self._rt = rt
        self._tile_keyword = tile_keyword

    def group(self) -> Any:
        return self._rt.task_group()

    def fill(self, end: HostEnd, buffer: Any, pattern: Any, group: Any) -> None:
        tile = {self._tile_keyword: end.tile}
        self._rt.fill(end.handle, buffer, pattern, task_group=group, **tile)

    def drain(self, end: HostEnd, buffer: Any, pattern: Any, group: Any) -> None:
        tile = {self._tile_keyword: end.tile}
        self._rt.drain(end.handle, buffer, pattern, task_group=group, wait=True, **tile)

    def finish(self, group: Any) -> None:
        self._rt.finish_task_group(group)


class _HandleHost:
    """The host's side where fifo ends move data: end.fill, end.drain, TaskGroup."""

    def __init__(self, task_group: Callable[[], Any]) -> None:
        self.group = task_group

    def fill(self, end: HostEnd, buffer: Any, pattern: Any, group: Any) -> None:
        end.handle.fill(buffer, pattern, group=group)

    def drain(self, end: HostEnd, buffer: Any, pattern: Any, group: Any) -> None:
        end.handle.drain(buffer, pattern, group=group, wait=True)

    def finish(self, group: Any) -> None:
        group.finish()
