"""What an IRON program says: fifos, workers, and the host's fills and drains. Nothing happens yet.

The classes are those `hptp.sim.iron` offers under IRON's names; `hptp.sim.lower` turns what they
hold into what a device is configured with. Errors are PlanError where IRON or the compiler behind
it would refuse the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hptp.errors import PlanError
from hptp.sim.hardware import Tile

STACK_BYTES = 1024  # unless a worker says otherwise

Dims = Sequence[Sequence[int]]  # (size, stride) pairs, outermost first, in elements


# --- Types -----------------------------------------------------------------------------------


class ArrayType(NamedTuple):
    """`np.ndarray[(4, 8), np.dtype[np.int16]]`, taken apart."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, annotation: Any) -> ArrayType:
        """Raises PlanError for anything but a sized array type."""
        try:
            shape, dtype = annotation.__args__
            scalar = dtype.__args__[0]
            shape = tuple(int(size) for size in shape)
        except (AttributeError, IndexError, TypeError, ValueError):
            raise PlanError(
                f"{annotation!r} is no array type like np.ndarray[(4, 8), np.dtype[np.int16]]"
            ) from None
        if scalar is np.uint64:
            raise PlanError("uint64 becomes MLIR's index type, whose size is unknown; use int64")
        return cls(shape, np.dtype(scalar))

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class TensorAccessPattern:
    """Nested loops over a tensor: `sizes` and `strides`, outermost first, from `offset` on.

    As in IRON's taplib, the stride of leading dimensions of size 1 becomes 0.
    """

    def __init__(
        self,
        tensor_dims: Sequence[int],
        offset: int,
        sizes: Sequence[int],
        strides: Sequence[int],
    ) -> None:
        if not sizes or len(sizes) != len(strides):
            raise PlanError(f"sizes {list(sizes)} and strides {list(strides)} differ in length")
        if min(sizes) < 1 or min(strides) < 0:
            raise PlanError(f"sizes {list(sizes)} must be > 0 and strides {list(strides)} >= 0")
        if not 0 <= offset < prod(tensor_dims):
            raise PlanError(f"offset {offset} is outside a tensor of {prod(tensor_dims)} elements")
        self.tensor_dims = list(tensor_dims)
        self.offset = offset
        self.sizes = list(sizes)
        self.strides = list(strides)
        for axis, size in enumerate(self.sizes[:-1]):
            if size != 1:
                break
            self.strides[axis] = 0

    @property
    def transformation_dims(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes, self.strides, strict=True))


# --- Fifos -----------------------------------------------------------------------------------


class ObjectFifo:
    """A ring of `depth` objects between one producer and one or more consumers.

    A handle can appear in a worker's arguments, in fills and drains, or at either end of a
    `forward`.
    """

    _numbers = count()

    def __init__(
        self,
        obj_type: Any,
        depth: int = 2,
        name: str | None = None,
        dims_to_stream: Dims | None = None,
        dims_from_stream_per_cons: Dims | None = None,
    ) -> None:
        if depth < 1:
            raise PlanError(f"fifo depth {depth} is less than 1")
        self.name = name if name is not None else f"of{next(self._numbers)}"
        self.obj_type = obj_type
        self.type = ArrayType.of(obj_type)
        self.depth = depth
        self.dims_to_stream = dims_to_stream
        self.dims_from_stream = dims_from_stream_per_cons
        self.producer: ObjectFifoHandle | None = None
        self.consumers: list[ObjectFifoHandle] = []

    def prod(self, depth: int | None = None) -> ObjectFifoHandle:
        """The producer's handle: one a fifo, whoever asks."""
        if self.producer is None:
            self.producer = ObjectFifoHandle(self, True, depth or self.depth, None)
        return self.producer

    def cons(
        self, depth: int | None = None, dims_from_stream: Dims | None = None
    ) -> ObjectFifoHandle:
        """A new consumer's handle; every consumer receives every object."""
        dims = dims_from_stream or self.dims_from_stream
        self.consumers.append(ObjectFifoHandle(self, False, depth or self.depth, dims))
        return self.consumers[-1]


class ObjectFifoHandle:
    """One end of a fifo. In a running worker its place is taken by a port with the same methods."""

    def __init__(
        self, fifo: ObjectFifo, is_producer: bool, depth: int, dims_from_stream: Dims | None
    ) -> None:
        if depth < 1:
            raise PlanError(f"fifo {fifo.name!r}: depth {depth} is less than 1")
        self.fifo = fifo
        self.is_producer = is_producer
        self.depth = depth
        self.dims_from_stream = dims_from_stream
        self.endpoint: Worker | Link | HostEnd | None = None

    def connect(self, endpoint: Worker | Link | HostEnd) -> None:
        """Say what stands at this end; the host may be named several times, in one place."""
        if self.endpoint is not None and self.endpoint != endpoint:
            raise PlanError(
                f"{self} is used by {self.endpoint} and by {endpoint}; an end has one user"
            )
        self.endpoint = endpoint

    def forward(
        self,
        *,
        tile: Tile | None = None,
        obj_type: Any = None,
        depth: int | None = None,
        name: str | None = None,
        dims_to_stream: Dims | None = None,
        dims_from_stream: Dims | None = None,
    ) -> ObjectFifo:
        """A new fifo that carries on what arrives here, through buffers in a memtile."""
        if self.is_producer:
            raise PlanError(f"{self} cannot be forwarded: only a consumer's end can")
        forwarded = ObjectFifo(
            self.fifo.obj_type if obj_type is None else obj_type,
            depth or self.depth,
            name if name is not None else f"{self.fifo.name}_fwd",
            dims_to_stream,
            dims_from_stream,
        )
        if forwarded.type.nbytes != self.fifo.type.nbytes:
            raise PlanError(
                f"fifo {self.fifo.name!r} has objects of {self.fifo.type.nbytes} B, its forward "
                f"{forwarded.name!r} of {forwarded.type.nbytes} B"
            )
        link = Link(self, forwarded.prod(), tile)
        self.connect(link)
        forwarded.prod().connect(link)
        return forwarded

    def acquire(self, num_elem: int) -> Any:
        raise PlanError(f"{self} can be acquired only by a worker that has it in its fn_args")

    def release(self, num_elem: int) -> None:
        raise PlanError(f"{self} can be released only by a worker that has it in its fn_args")

    def __str__(self) -> str:
        return f"fifo {self.fifo.name!r}.{'prod' if self.is_producer else 'cons'}"


@dataclass(frozen=True, eq=False)
class Link:
    """Where a memtile passes the objects of one fifo on to the next."""

    source: ObjectFifoHandle
    destination: ObjectFifoHandle
    tile: Tile | None

    def __str__(self) -> str:
        return f"the forward from {self.source.fifo.name!r} to {self.destination.fifo.name!r}"


@dataclass(frozen=True)
class HostEnd:
    """The host's side of a fifo: a channel of a shim tile."""

    tile: Tile | None

    def __str__(self) -> str:
        return "the runtime sequence"


# --- Workers ---------------------------------------------------------------------------------


class Kernel:
    """A compiled function for workers to call; its source is compiled for this machine instead."""

    def __init__(
        self, name: str, object_file_name: str, arg_types: Sequence[Any] | None = None
    ) -> None:
        self.name = name
        self.object_file_name = object_file_name
        self.arg_types = list(arg_types or ())

    def __call__(self, *args: Any) -> None:
        raise PlanError(
            f"kernel {self.name!r} can be called only by a worker that has it in its fn_args"
        )


class Worker:
    """A core that runs `core_fn(*fn_args)`, over and over unless `while_true` is false."""

    _numbers = count()

    def __init__(
        self,
        core_fn: Callable[..., None],
        fn_args: Sequence[Any] = (),
        tile: Tile | None = None,
        while_true: bool = True,
        stack_size: int | None = None,
    ) -> None:
        self.core_fn = core_fn
        self.fn_args = list(fn_args)
        self.tile = tile
        self.while_true = while_true
        self.stack_size = STACK_BYTES if stack_size is None else stack_size
        for argument in self.fn_args:
            if isinstance(argument, ObjectFifo):
                raise PlanError(
                    f"fifo {argument.name!r} is given to a worker; give it a handle: "
                    "prod() or cons()"
                )
        for handle in self.handles:
            handle.connect(self)

    @property
    def handles(self) -> list[ObjectFifoHandle]:
        return [a for a in self.fn_args if isinstance(a, ObjectFifoHandle)]

    def __str__(self) -> str:
        fifos = ", ".join(repr(handle.fifo.name) for handle in self.handles)
        return f"the worker of {fifos or 'no fifo'}"


# --- The host's side -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuntimeData:
    """A buffer the host passes to the run."""

    number: int
    type: ArrayType


@dataclass(frozen=True, eq=False)
class TaskGroup:
    """Transfers that are waited for together."""

    number: int


@dataclass(frozen=True, eq=False)
class Move:
    """A fill or a drain."""

    handle: ObjectFifoHandle
    data: RuntimeData
    tap: TensorAccessPattern
    group: TaskGroup | None
    wait: bool


@dataclass(frozen=True, eq=False)
class FinishGroup:
    """Wait for the group's awaited moves, then forget the others."""

    group: TaskGroup


class Runtime:
    """What the host does: start workers, move data to and from fifos."""

    def __init__(self) -> None:
        self.data: tuple[RuntimeData, ...] = ()
        self.workers: list[Worker] = []
        self.steps: list[Move | FinishGroup] = []
        self._open_groups: list[TaskGroup] = []
        self._numbers = count()

    @contextmanager
    def sequence(self, *types: Any) -> Iterator[Any]:
        """The buffers of the run: one RuntimeData, or a tuple of them."""
        self.data = tuple(RuntimeData(k, ArrayType.of(t)) for k, t in enumerate(types))
        yield self.data[0] if len(self.data) == 1 else self.data
        if self._open_groups:
            numbers = ", ".join(str(group.number) for group in self._open_groups)
            raise PlanError(f"task groups {numbers} are never finished")

    def start(self, *workers: Worker) -> None:
        """Have the workers run from the beginning."""
        self.workers += workers

    def fill(
        self,
        in_fifo: ObjectFifoHandle,
        source: RuntimeData,
        tap: TensorAccessPattern | None = None,
        task_group: TaskGroup | None = None,
        wait: bool = False,
        tile: Tile | None = None,
    ) -> None:
        """Send `source`, in the order of `tap`, into a fifo."""
        if not in_fifo.is_producer:
            raise PlanError(f"{in_fifo} cannot be filled: only a producer's end can")
        self._move(in_fifo, source, tap, task_group, wait, tile)

    def drain(
        self,
        out_fifo: ObjectFifoHandle,
        dest: RuntimeData,
        tap: TensorAccessPattern | None = None,
        task_group: TaskGroup | None = None,
        wait: bool = False,
        tile: Tile | None = None,
    ) -> None:
        """Receive from a fifo into `dest`, in the order of `tap`."""
        if out_fifo.is_producer:
            raise PlanError(f"{out_fifo} cannot be drained: only a consumer's end can")
        self._move(self._host_consumer(out_fifo), dest, tap, task_group, wait, tile)

    def _host_consumer(self, handle: ObjectFifoHandle) -> ObjectFifoHandle:
        """The handle the host already drains this fifo by: asking again adds no consumer."""
        fifo = handle.fifo
        for other in fifo.consumers:
            if other is not handle and isinstance(other.endpoint, HostEnd):
                if handle.endpoint is None:
                    fifo.consumers.remove(handle)
                return other
        return handle

    def _move(
        self,
        handle: ObjectFifoHandle,
        data: RuntimeData,
        tap: TensorAccessPattern | None,
        group: TaskGroup | None,
        wait: bool,
        tile: Tile | None,
    ) -> None:
        if data not in self.data:
            raise PlanError(f"{handle}: the buffer is not one of this sequence's")
        size = data.type.size
        if tap is None:
            tap = TensorAccessPattern((size,), 0, (1, 1, 1, size), (0, 0, 0, 1))
        if len(tap.sizes) != 4:
            raise PlanError(
                f"{handle}: the access pattern has {len(tap.sizes)} dimensions; give 4, leading "
                "ones of size 1 (IRON takes the first as a repeat count, however many there are)"
            )
        handle.connect(HostEnd(tile))
        self.steps.append(Move(handle, data, tap, group, wait))

    def task_group(self) -> TaskGroup:
        group = TaskGroup(next(self._numbers))
        self._open_groups.append(group)
        return group

    def finish_task_group(self, task_group: TaskGroup) -> None:
        """Wait for the group's moves that were asked for with `wait=True`."""
        self._open_groups.remove(task_group)
        self.steps.append(FinishGroup(task_group))
