"""Executing a design: from its own operations, or from the words of an instruction stream.

Every channel and every worker is a process; the runtime sequence is the first. The run is over when
the sequence is, and must leave nothing behind: no drain that nobody waited for, no input unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from aie_design.instructions import RawOperation, decode
from aie_design.operations import (
    AwaitTask,
    Direction,
    Operation,
    PatchAddress,
    PushTask,
    SetController,
    WriteDescriptor,
)
from hptp.errors import DeviceError, PlanError
from hptp.sim import kernels
from hptp.sim.dma import Port, Ring, ShimChannel, ShimTile, Stream, serve_ring
from hptp.sim.lower import Channel, Core, Design, Pool, RingChannel
from hptp.sim.program import Kernel, ObjectFifoHandle
from hptp.sim.schedule import GeneratorProcess, Lock, Scheduler, Steps, ThreadProcess

Observer = Callable[[str, int, NDArray[Any]], None]


def run_program(
    program: Design, args: Sequence[NDArray[Any]], *, observe: Observer | None = None
) -> None:
    """Run `program` on the buffers of its runtime sequence.

    Args:
        program: what `Program.resolve_program` returned.
        args: C-contiguous arrays, taken as bare memory; drains write into them.
        observe: called with a fifo's name, the number of the object and its contents whenever a
            worker releases an object it has produced. The array is reused: copy what you keep.

    Raises:
        Deadlock: (a DeviceError) nothing can run any more; says who waits for what.
        HardwareLimit: (a PlanError) the run does what the hardware would not survive.
        DeviceError: memory outside `args` is touched, or a kernel's call is wrong.
    """
    _Machine(program, args, observe).run(program.operations)


def run_words(
    words: Sequence[int],
    program: Design,
    args: Sequence[NDArray[Any]],
    *,
    observe: Observer | None = None,
) -> None:
    """Run an instruction stream on the array `program` configures; its own sequence is not used.

    Arguments and errors as for `run_program`; PlanError too if the words are not a stream for this
    device, or contain an operation other than those of a runtime sequence.
    """
    stream = decode(words)
    device = program.device
    if (stream.device, stream.columns) != (device.generation, device.columns):
        raise PlanError(
            f"the words are for {stream.columns} column(s) of {stream.device}, the program for "
            f"{device.columns} of {device.generation}"
        )
    _Machine(program, args, observe).run(stream.operations)


class _Machine:
    """A configured array, its processes ready to start."""

    def __init__(
        self, design: Design, args: Sequence[NDArray[Any]], observe: Observer | None
    ) -> None:
        if len(args) != design.num_arguments:
            raise DeviceError(
                f"the program has {design.num_arguments} buffers, {len(args)} were given"
            )
        self._design = design
        self._observe = observe
        self._rings = {pool: _ring(pool) for pool in design.pools}
        self._shims = {col: ShimTile(args) for col in range(design.device.columns)}
        self._streams: list[Stream] = []
        self._channels: list[tuple[str, Steps]] = []
        self._carry_input = {
            self._rings[core.pools[handle]]
            for core in design.cores
            if not all(handle.is_producer for handle in core.worker.handles)
            for handle in core.worker.handles
        }
        for route in design.routes:
            stream = Stream(len(route.sinks))
            self._streams.append(stream)
            self._add_channel(route.source, route.fifo, Port(stream, Direction.MM2S))
            for number, sink in enumerate(route.sinks):
                self._add_channel(sink, route.fifo, Port(stream, Direction.S2MM, number))

    def _add_channel(self, channel: Channel, fifo: str, port: Port) -> None:
        name = f"{channel} (fifo {fifo!r})"
        if isinstance(channel, RingChannel):
            ring = self._rings[channel.pool]
            if channel.direction == Direction.S2MM:
                self._carry_input.add(ring)
            steps = serve_ring(name, ring, channel.descriptor, port)
        else:
            tile = self._shims[channel.tile.col]
            shim = ShimChannel(name, tile, port)
            tile.channels[channel.direction, channel.channel] = shim
            steps = shim.serve()
        self._channels.append((name, steps))

    def run(self, operations: Iterable[Operation | RawOperation]) -> None:
        scheduler = Scheduler()
        sequence = self._sequence(operations)
        scheduler.add(GeneratorProcess("the runtime sequence", scheduler, sequence))
        for name, steps in self._channels:
            scheduler.add(GeneratorProcess(name, scheduler, steps))
        for core in self._design.cores:
            scheduler.add(self._worker(core, scheduler))
        scheduler.run()
        self._check_nothing_is_left()

    # --- The host's side ---------------------------------------------------------------------

    def _sequence(self, operations: Iterable[Operation | RawOperation]) -> Steps:
        for operation in operations:
            match operation:
                case WriteDescriptor(column):
                    self._shim(column).write(operation)
                case PatchAddress(column):
                    self._shim(column).patch(operation)
                case PushTask():
                    self._channel(operation).push(operation)
                case AwaitTask():
                    yield from self._channel(operation).wait()
                case SetController():
                    self._channel(operation)  # must exist; there is only one controller here
                case RawOperation():
                    raise PlanError(f"the interpreter cannot execute: {operation}")
        self._check_everything_is_awaited()

    def _shim(self, column: int) -> ShimTile:
        if column not in self._shims:
            raise PlanError(f"shim {column} is not on a device of {len(self._shims)} column(s)")
        return self._shims[column]

    def _channel(self, operation: SetController | PushTask | AwaitTask) -> ShimChannel:
        channels = self._shim(operation.column).channels
        key = operation.direction, operation.channel
        if key not in channels:
            raise PlanError(f"{operation}: no fifo of the program uses this channel")
        return channels[key]

    def _shim_channels(self) -> Iterable[tuple[Direction, ShimChannel]]:
        for tile in self._shims.values():
            for (direction, _), channel in tile.channels.items():
                yield direction, channel

    def _check_everything_is_awaited(self) -> None:
        for direction, channel in self._shim_channels():
            if direction == Direction.S2MM and not channel.is_awaited:
                raise DeviceError(
                    f"the run ends without waiting for the last drain by {channel.name}; "
                    "the host could read its buffer too early"
                )

    def _check_nothing_is_left(self) -> None:
        for _, channel in self._shim_channels():
            if channel.queue:
                raise DeviceError(f"after the run {channel.name} still has input nobody has taken")
        for ring in sorted(self._carry_input, key=lambda ring: ring.name):
            if ring.full.value:
                raise DeviceError(
                    f"after the run {ring.full.value} object(s) are left in {ring.name}: the next "
                    "run would begin with them"
                )
        for stream in self._streams:
            for transfer in stream.received:
                raise DeviceError(f"after the run, an object is cut short: {transfer}")

    # --- Workers -----------------------------------------------------------------------------

    def _worker(self, core: Core, scheduler: Scheduler) -> ThreadProcess:
        worker = core.worker

        def code() -> None:
            """Call the core function until a call neither takes nor gives an object."""
            ports = {handle: self._port(handle, core, process) for handle in worker.handles}
            arguments = [_bound(argument, ports) for argument in worker.fn_args]
            moves = -1
            while moves != (moves := sum(port.moves for port in ports.values())):
                worker.core_fn(*arguments)
                if not worker.while_true:
                    return

        process = ThreadProcess(f"{core.tile}, {worker},", scheduler, code)
        return process  # which `code` refers to

    def _port(self, handle: ObjectFifoHandle, core: Core, process: ThreadProcess) -> WorkerPort:
        ring = self._rings[core.pools[handle]]
        return WorkerPort(handle, ring, process, self._observe if handle.is_producer else None)


def _ring(pool: Pool) -> Ring:
    name = f"fifo {pool.fifo!r} in {pool.tile}"
    return Ring(name, pool.depth, pool.type.shape, pool.type.dtype)


def _bound(argument: Any, ports: dict[ObjectFifoHandle, WorkerPort]) -> Any:
    """What a worker's argument stands for while it runs."""
    if isinstance(argument, ObjectFifoHandle):
        return ports[argument]
    if isinstance(argument, Kernel):
        return kernels.load(argument.name, argument.object_file_name, argument.arg_types)
    return argument


class WorkerPort:
    """A worker's end of a fifo: objects are acquired and released in order."""

    def __init__(
        self,
        handle: ObjectFifoHandle,
        ring: Ring,
        process: ThreadProcess,
        observe: Observer | None,
    ) -> None:
        self.moves = 0
        self._name = str(handle)
        self._fifo = handle.fifo.name
        self._ring = ring
        self._process = process
        self._observe = observe
        locks = (ring.free, ring.full)
        self._taken, self._given = locks if handle.is_producer else locks[::-1]
        self._position = 0
        self._held = 0

    def acquire(self, num_elem: int) -> Any:
        """Hold `num_elem` objects: one array, or a list of them if more than one."""
        depth = len(self._ring.buffers)
        if not 1 <= num_elem <= depth:
            raise PlanError(f"{self._name}: acquire({num_elem}) of a fifo of {depth} objects")
        missing = num_elem - self._held
        if missing > 0:
            self._wait(self._taken, missing)
            self._held = num_elem
            self.moves += 1
        objects = [self._object(self._position + k) for k in range(num_elem)]
        return objects[0] if num_elem == 1 else objects

    def release(self, num_elem: int) -> None:
        """Pass the oldest `num_elem` objects on."""
        if not 1 <= num_elem <= self._held:
            raise PlanError(f"{self._name}: release({num_elem}) with {self._held} objects acquired")
        self.moves += 1
        for _ in range(num_elem):
            if self._observe is not None:
                self._observe(self._fifo, self._position, self._object(self._position))
            self._position += 1
        self._held -= num_elem
        self._given.release(num_elem)

    def _object(self, number: int) -> NDArray[Any]:
        return self._ring.buffers[number % len(self._ring.buffers)]

    def _wait(self, lock: Lock, count: int) -> None:
        for condition in lock.acquire(count):
            self._process.wait(condition)
