"""The DMA engine: channels run buffer descriptors, streams carry their words.

A stream has no room of its own: a word leaves when every receiver takes it. (The real switches
hold a few words, which no design may rely on.) A channel of a memtile or core serves a ring of
buffers for ever, a lock around each; a shim channel runs the tasks of its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aie_design.operations import (
    WORD_BYTES,
    BufferDescriptor,
    Direction,
    PatchAddress,
    PushTask,
    WriteDescriptor,
)
from hptp.errors import DeviceError
from hptp.sim.hardware import QUEUE_DEPTH, HardwareLimit
from hptp.sim.schedule import Condition, Lock, Steps

Words = NDArray[np.uint32]
ALIGNMENT_BYTES = 64


def as_words(array: NDArray[Any], what: str) -> Words:
    """The memory of a C-contiguous array as words; bytes after the last whole word are left out."""
    if not array.flags.c_contiguous:
        raise DeviceError(f"{what} is not C-contiguous")
    flat = array.reshape(-1).view(np.uint8)
    return flat[: flat.size // WORD_BYTES * WORD_BYTES].view(np.uint32)


class Walk:
    """The words a BD visits, counted from where a run starts.

    Dimensions with a wrap make up a block, which the last dimension repeats `outer_step` apart.
    """

    def __init__(self, descriptor: BufferDescriptor) -> None:
        wraps = [dim.wrap for dim in descriptor.dims]
        self._outer_step = descriptor.dims[wraps.index(0)].step
        self._block = np.zeros(1, np.intp)
        for wrap, step in descriptor.dims[: wraps.index(0)]:
            self._block = np.add.outer(np.arange(wrap) * step, self._block).ravel()
        self.is_linear = self._block.size == 1 and self._outer_step == 1
        self.num_words = self._reach(descriptor.length)

    def _reach(self, length: int) -> int:
        """How many words lie between the start of a run and its furthest word, both included."""
        blocks, rest = divmod(length, self._block.size)
        ends = [self._block[:rest].max() + blocks * self._outer_step] if rest else []
        if blocks:
            ends.append(self._block.max() + (blocks - 1) * self._outer_step)
        return int(max(ends)) + 1

    def window(self, start: int, count: int) -> NDArray[np.intp]:
        """Where the words from `start` on are."""
        words: NDArray[np.intp]
        block, inside = divmod(start, self._block.size)
        if inside + count <= self._block.size:
            words = self._block[inside : inside + count] + block * self._outer_step
        else:
            blocks, insides = np.divmod(np.arange(start, start + count), self._block.size)
            words = self._block[insides] + blocks * self._outer_step
        return words


walk_of = lru_cache(maxsize=64)(Walk)


class Transfer(Condition):
    """One run of a BD under way: the words it has yet to move."""

    def __init__(
        self,
        direction: Direction,
        what: str,
        memory: Words,
        start: int,
        descriptor: BufferDescriptor,
    ) -> None:
        super().__init__(what)
        self._verb = "come into" if direction == Direction.S2MM else "be taken from"
        self._memory = memory[start:]
        self._walk = walk_of(descriptor)
        self._position = 0
        self.remaining = descriptor.length

    @property
    def has_begun(self) -> bool:
        return self._position > 0

    def read(self, count: int) -> Words:
        return self._memory[self._next(count)]

    def write(self, words: Words) -> None:
        self._memory[self._next(len(words))] = words

    def _next(self, count: int) -> slice | NDArray[np.intp]:
        start = self._position
        self._position += count
        self.remaining -= count
        if self._walk.is_linear:
            return slice(start, start + count)
        return self._walk.window(start, count)

    def __str__(self) -> str:
        return f"{self.remaining} words to {self._verb} {self._description}"


class Stream:
    """A connection from one channel to others; words move when both sides have a transfer."""

    def __init__(self, num_sinks: int) -> None:
        self._source: Transfer | None = None
        self._sinks: list[Transfer | None] = [None] * num_sinks

    def send(self, transfer: Transfer) -> Steps:
        self._source = transfer
        self._pump()
        while transfer.remaining:
            yield transfer

    def receive(self, sink: int, transfer: Transfer) -> Steps:
        self._sinks[sink] = transfer
        self._pump()
        while transfer.remaining:
            yield transfer

    @property
    def received(self) -> list[Transfer]:
        """Transfers into buffers that have begun and lack words."""
        return [sink for sink in self._sinks if sink is not None and sink.has_begun]

    def _pump(self) -> None:
        """Move as many words as both sides can."""
        source, sinks = self._source, [sink for sink in self._sinks if sink is not None]
        if source is None or len(sinks) < len(self._sinks):
            return
        count = min(transfer.remaining for transfer in (source, *sinks))
        words = source.read(count)
        for sink in sinks:
            sink.write(words)
        self._sinks = [
            sink if sink is not None and sink.remaining else None for sink in self._sinks
        ]
        if not source.remaining:
            self._source = None
        for transfer in (source, *sinks):
            if not transfer.remaining:
                transfer.notify()


@dataclass(frozen=True)
class Port:
    """A channel's end of a stream: the sender's, or that of one receiver."""

    stream: Stream
    direction: Direction
    sink: int = 0

    def run(self, transfer: Transfer) -> Steps:
        if self.direction == Direction.MM2S:
            return self.stream.send(transfer)
        return self.stream.receive(self.sink, transfer)


class Ring:
    """The buffers of a pool while a program runs, passed between one producer and one consumer.

    Memory is not cleared on a core: buffers start with a pattern that no test data has by chance.
    """

    def __init__(self, name: str, depth: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.name = name
        self.buffers = [_uninitialised(shape, dtype) for _ in range(depth)]
        self.free = Lock(f"a free buffer of {name}, which has {depth}", depth)
        self.full = Lock(f"a full buffer of {name}", 0)


def _uninitialised(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array where the compiler would place it: at a multiple of the widest vector."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(nbytes + ALIGNMENT_BYTES, 0xA5, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + nbytes].view(dtype).reshape(shape)


def serve_ring(name: str, ring: Ring, descriptor: BufferDescriptor, port: Port) -> Steps:
    """A channel of a memtile or core: move object after object between the ring and the stream."""
    receiving = port.direction == Direction.S2MM
    taken, given = (ring.free, ring.full) if receiving else (ring.full, ring.free)
    for buffer in cycle([as_words(buffer, name) for buffer in ring.buffers]):
        yield from taken.acquire(1)
        transfer = Transfer(port.direction, f"an object of {ring.name}", buffer, 0, descriptor)
        yield from port.run(transfer)
        given.release(1)


class ShimTile:
    """The BD registers of a shim tile and the memory of the host behind them."""

    def __init__(self, arguments: Sequence[NDArray[Any]]) -> None:
        self.channels: dict[tuple[Direction, int], ShimChannel] = {}
        self._memory = [as_words(a, f"argument {k}") for k, a in enumerate(arguments)]
        self._descriptors: dict[int, BufferDescriptor] = {}
        self._addresses: dict[int, PatchAddress] = {}
        self._runs: dict[int, int] = {}

    def write(self, operation: WriteDescriptor) -> None:
        self._check_idle(operation.bd)
        self._descriptors[operation.bd] = operation.descriptor
        self._runs[operation.bd] = 0
        self._addresses.pop(operation.bd, None)

    def patch(self, operation: PatchAddress) -> None:
        self._check_idle(operation.bd)
        if operation.argument >= len(self._memory):
            raise DeviceError(
                f"{operation}: there are only {len(self._memory)} arguments, counted from 0"
            )
        if operation.offset_bytes % WORD_BYTES:
            raise HardwareLimit(f"{operation}: the address is not a multiple of {WORD_BYTES} B")
        self._addresses[operation.bd] = operation

    def _check_idle(self, bd: int) -> None:
        for channel in self.channels.values():
            if any(task.bd == bd for task in channel.queue):
                raise HardwareLimit(f"{channel.name}: BD {bd} is overwritten while it is queued")

    def next_run(self, task: PushTask, name: str) -> Transfer:
        """The next run of the task's BD: its iteration counter moves on by one."""
        if task.bd not in self._addresses:
            raise DeviceError(f"{name}: BD {task.bd} is queued before it is written and patched")
        descriptor, address = self._descriptors[task.bd], self._addresses[task.bd]
        wrap, step = descriptor.iteration
        run = self._runs[task.bd]
        self._runs[task.bd] = (run + 1) % wrap
        memory = self._memory[address.argument]
        start = address.offset_bytes // WORD_BYTES + run * step
        end = start + walk_of(descriptor).num_words
        if end > memory.size:
            raise DeviceError(
                f"{name}: BD {task.bd} reaches word {end - 1} of argument {address.argument}, "
                f"which has {memory.size}"
            )
        if task.direction == Direction.S2MM and not memory.flags.writeable:
            raise DeviceError(f"{name}: argument {address.argument} is read-only")
        what = f"argument {address.argument} by BD {task.bd}"
        return Transfer(task.direction, what, memory, start, descriptor)


class ShimChannel:
    """A channel of a shim tile: a queue of tasks, and the tokens it has returned."""

    def __init__(self, name: str, tile: ShimTile, port: Port) -> None:
        self.name = name
        self.queue: deque[PushTask] = deque()
        self.tokens = Lock(f"a token of {name}", 0)
        self._tile = tile
        self._port = port
        self._pushed = Condition("a task in its queue")
        self._owed: deque[int] = deque()  # for each token to come: the pushes it vouches for
        self._num_pushed = 0
        self._num_awaited = 0

    def push(self, task: PushTask) -> None:
        if len(self.queue) == QUEUE_DEPTH:
            raise HardwareLimit(
                f"{self.name}: a task is pushed while {QUEUE_DEPTH} are queued; "
                "the hardware drops it and the run hangs"
            )
        self.queue.append(task)
        self._num_pushed += 1
        if task.token:
            self._owed.append(self._num_pushed)
        self._pushed.notify()

    def serve(self) -> Steps:
        """Run what is queued, for ever."""
        while True:
            while not self.queue:
                yield self._pushed
            task = self.queue[0]
            for _ in range(task.runs):
                yield from self._port.run(self._tile.next_run(task, self.name))
            self.queue.popleft()
            if task.token:
                self.tokens.release(1)

    def wait(self) -> Steps:
        """Wait for a token."""
        yield from self.tokens.acquire(1)
        self._num_awaited = self._owed.popleft()

    @property
    def is_awaited(self) -> bool:
        """Whether a token has been waited for that vouches for everything pushed."""
        return self._num_awaited == self._num_pushed
