"""From an IRON program to what a device is configured with: tiles, buffers, channels, descriptors.

The work of the compiler, as far as data movement is concerned: every end of every fifo gets a
place, a ring of buffers and a DMA channel with its BDs; every fill and drain becomes a shim BD
that is written, queued and waited for. What no tile can hold is refused here, by the limits of
`hptp.sim.hardware`.

Parts without a `tile` are placed as mlir-aie's sequential placer does it: workers column by
column, each other end in the nearest column to the right that has a channel to spare, fifos in
order of name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from statistics import mean

from aie_design.operations import (
    WORD_BYTES,
    AwaitTask,
    BufferDescriptor,
    Dim,
    Direction,
    Operation,
    PushTask,
    WriteDescriptor,
    start_task,
)
from hptp.errors import PlanError
from hptp.sim.hardware import (
    CORE,
    FIRST_CORE_ROW,
    MAX_REPEATS,
    NUM_ROWS,
    SHIM,
    HardwareLimit,
    Tile,
    TileUse,
    check_descriptor,
)
from hptp.sim.program import (
    ArrayType,
    Dims,
    FinishGroup,
    HostEnd,
    Link,
    Move,
    ObjectFifo,
    ObjectFifoHandle,
    Runtime,
    TaskGroup,
    Worker,
)


@dataclass(frozen=True)
class Device:
    """An NPU, or the first columns of one."""

    generation: str
    columns: int


# --- The result ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pool:
    """A ring of `depth` buffers in a tile's memory, with a lock that counts the free ones and one
    that counts the full ones."""

    fifo: str
    tile: Tile
    depth: int
    type: ArrayType

    def __str__(self) -> str:
        return f"{self.tile}: {self.depth} × {self.type.nbytes} B for fifo {self.fifo!r}"


@dataclass(frozen=True, eq=False)
class HostChannel:
    """A shim channel: it runs what the runtime sequence queues."""

    tile: Tile
    direction: Direction
    channel: int

    def __str__(self) -> str:
        return f"{self.tile} {self.direction.name} {self.channel}"


@dataclass(frozen=True, eq=False)
class RingChannel:
    """A channel of a memtile or core: it serves the buffers of a pool in turn, for ever."""

    tile: Tile
    direction: Direction
    channel: int
    pool: Pool
    descriptor: BufferDescriptor
    bds: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.tile} {self.direction.name} {self.channel}"


Channel = HostChannel | RingChannel


@dataclass(frozen=True, eq=False)
class Route:
    """A stream from one channel to one or more others."""

    fifo: str
    source: Channel
    sinks: tuple[Channel, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """A worker, where it runs, and the pool behind each of its fifo handles."""

    tile: Tile
    worker: Worker
    pools: dict[ObjectFifoHandle, Pool]


@dataclass(frozen=True, eq=False)
class Design:
    """A program ready to run: the configured array, and the operations of its runtime sequence."""

    device: Device
    cores: tuple[Core, ...]
    pools: tuple[Pool, ...]
    routes: tuple[Route, ...]
    operations: tuple[Operation, ...]
    num_arguments: int

    def rings(self) -> Iterator[RingChannel]:
        """The channels of memtiles and cores."""
        for route in self.routes:
            for channel in (route.source, *route.sinks):
                if isinstance(channel, RingChannel):
                    yield channel

    def __str__(self) -> str:
        lines = [f"{self.device.generation}, {self.device.columns} column(s)"]
        lines += [f"{core.tile}: {core.worker}" for core in self.cores]
        lines += map(str, self.pools)
        for route in self.routes:
            sinks = ", ".join(map(str, route.sinks))
            lines.append(f"fifo {route.fifo!r}: {route.source} -> {sinks}")
        for ring in self.rings():
            lines.append(f"{ring}: BDs {', '.join(map(str, ring.bds))}: {ring.descriptor}")
        return "\n".join([*lines, *map(str, self.operations)])


class Program:
    """A device and what runs on it."""

    def __init__(self, device: Device, rt: Runtime) -> None:
        self._device = device
        self._rt = rt

    def resolve_program(self) -> Design:
        """What the device is configured with to run the program; printable.

        Raises:
            PlanError: the program is incomplete or inconsistent.
            HardwareLimit: (a PlanError) it does not fit the device.
        """
        return _Lowering(self._device, self._rt).design()


# --- The array -------------------------------------------------------------------------------


@dataclass
class _Lowering:
    """The state of one lowering: what is placed where, and what is left of each tile."""

    device: Device
    rt: Runtime
    uses: dict[Tile, TileUse] = field(default_factory=dict)
    core_tiles: dict[Worker, Tile] = field(default_factory=dict)
    link_pools: dict[Link, Pool] = field(default_factory=dict)
    worker_pools: dict[ObjectFifoHandle, Pool] = field(default_factory=dict)
    host_channels: dict[ObjectFifoHandle, HostChannel] = field(default_factory=dict)
    pools: list[Pool] = field(default_factory=list)

    def design(self) -> Design:
        self._place_workers()
        routes = []
        for fifo in self._fifos():
            routes += self._lower_fifo(fifo)
        cores = tuple(
            Core(tile, worker, {h: self.worker_pools[h] for h in worker.handles})
            for worker, tile in self.core_tiles.items()
        )
        operations = tuple(_Sequence(self.rt, self.host_channels).operations())
        return Design(
            self.device, cores, tuple(self.pools), tuple(routes), operations, len(self.rt.data)
        )

    def _use(self, tile: Tile) -> TileUse:
        if not (0 <= tile.col < self.device.columns and 0 <= tile.row < NUM_ROWS):
            raise PlanError(f"{tile} is not on a device of {self.device.columns} column(s)")
        return self.uses.setdefault(tile, TileUse(tile))

    def _place_workers(self) -> None:
        given = [worker.tile for worker in self.rt.workers if worker.tile is not None]
        free = (
            core
            for col in range(self.device.columns)
            for row in range(FIRST_CORE_ROW, NUM_ROWS)
            if (core := Tile(col, row)) not in given
        )
        for worker in self.rt.workers:
            if worker in self.core_tiles:
                raise PlanError(f"{worker} is started twice")
            if (tile := worker.tile or next(free, None)) is None:
                raise HardwareLimit(f"{len(self.rt.workers)} workers are more than there are cores")
            if tile.kind is not CORE or tile in self.core_tiles.values():
                raise PlanError(f"{worker} cannot run on {tile}: it is no core, or is taken")
            self._use(tile).take_memory(worker.stack_size, "the stack")
            self.core_tiles[worker] = tile

    def _fifos(self) -> list[ObjectFifo]:
        """Every fifo the program reaches, in order of name."""
        handles = [h for worker in self.rt.workers for h in worker.handles]
        handles += [step.handle for step in self.rt.steps if isinstance(step, Move)]
        found: dict[str, ObjectFifo] = {}
        while handles:
            fifo = handles.pop().fifo
            if found.setdefault(fifo.name, fifo) is not fifo:
                raise PlanError(f"two fifos are called {fifo.name!r}")
            for handle in filter(None, (fifo.producer, *fifo.consumers)):
                if isinstance(handle.endpoint, Link):
                    ends = (handle.endpoint.source, handle.endpoint.destination)
                    handles += [end for end in ends if end.fifo.name not in found]
        return [found[name] for name in sorted(found)]

    def _lower_fifo(self, fifo: ObjectFifo) -> list[Route]:
        """The pools of a fifo and the route between them; no route where two cores share memory."""
        if fifo.type.nbytes % WORD_BYTES:
            raise PlanError(
                f"fifo {fifo.name!r}: objects of {fifo.type.nbytes} B are no whole number of words"
            )
        if fifo.producer is None or not fifo.consumers:
            end = "producer" if fifo.producer is None else "consumer"
            raise PlanError(f"fifo {fifo.name!r} has no {end}")
        if self._share_memory(fifo):
            return []
        column = self._column(fifo)
        source = self._channel(fifo.producer, column, Direction.MM2S, fifo.dims_to_stream)
        sinks = tuple(
            self._channel(handle, column, Direction.S2MM, handle.dims_from_stream)
            for handle in fifo.consumers
        )
        return [Route(fifo.name, source, sinks)]

    def _share_memory(self, fifo: ObjectFifo) -> bool:
        """One pool for both ends where a core passes objects unchanged to one neighbouring core."""
        assert fifo.producer is not None
        ends = (fifo.producer, *fifo.consumers)
        tiles = [self._core_tile(end.endpoint) for end in ends if isinstance(end.endpoint, Worker)]
        if len(tiles) != len(ends) or len(ends) != 2 or not tiles[0].is_neighbour(tiles[1]):
            return False
        if fifo.dims_to_stream or fifo.consumers[0].dims_from_stream:
            return False
        # A core reaches the memory of its western neighbour, not that of its eastern one.
        home = min(tiles, key=lambda tile: tile.col)
        pool = self._pool(home, fifo, fifo.producer.depth)
        self.worker_pools.update(dict.fromkeys(ends, pool))
        return True

    def _core_tile(self, worker: Worker) -> Tile:
        if worker not in self.core_tiles:
            raise PlanError(f"{worker} is never started")
        return self.core_tiles[worker]

    def _column(self, fifo: ObjectFifo) -> int:
        """The column to place the fifo's other ends at: that of its workers, on average."""
        ends = filter(None, (fifo.producer, *fifo.consumers))
        columns = [
            self._core_tile(end.endpoint).col for end in ends if isinstance(end.endpoint, Worker)
        ]
        return round(mean(columns)) if columns else 0

    def _nearest(self, column: int, row: int, direction: Direction) -> Tile:
        for col in range(column, self.device.columns):
            if self._use(Tile(col, row)).has_channel(direction):
                return Tile(col, row)
        raise HardwareLimit(
            f"no {Tile(column, row).kind.name} from column {column} on has a {direction.name} "
            "channel left"
        )

    def _channel(
        self, handle: ObjectFifoHandle, column: int, direction: Direction, dims: Dims | None
    ) -> Channel:
        """The DMA channel at one end of a fifo, with its buffers unless the host is there."""
        endpoint = handle.endpoint
        if isinstance(endpoint, HostEnd):
            if dims:
                raise PlanError(f"{handle}: the host's end changes layout by its access pattern")
            tile = endpoint.tile or self._nearest(column, 0, direction)
            if tile.kind is not SHIM:
                raise PlanError(f"{handle}: the host reaches the array by a shim tile, not {tile}")
            host = HostChannel(tile, direction, self._use(tile).take_channel(direction))
            self.host_channels[handle] = host
            return host
        if isinstance(endpoint, Link):
            pool = self._link_pool(endpoint, column)
        elif isinstance(endpoint, Worker):
            pool = self._pool(self._core_tile(endpoint), handle.fifo, handle.depth)
            self.worker_pools[handle] = pool
        else:
            raise PlanError(f"{handle} is used by nobody")
        use = self._use(pool.tile)
        channel = use.take_channel(direction)
        where = f"{pool.tile} {direction.name} {channel} (fifo {handle.fifo.name!r})"
        descriptor = _ring_descriptor(handle.fifo.type, pool.tile, dims, where)
        bds = use.take_bds(pool.depth, channel)
        return RingChannel(pool.tile, direction, channel, pool, descriptor, bds)

    def _link_pool(self, link: Link, column: int) -> Pool:
        if link not in self.link_pools:
            tile = link.tile or self._nearest(column, 1, Direction.S2MM)
            if tile.kind is SHIM:
                raise PlanError(f"{link} needs memory; {tile} has none")
            self.link_pools[link] = self._pool(tile, link.source.fifo, link.source.depth)
        return self.link_pools[link]

    def _pool(self, tile: Tile, fifo: ObjectFifo, depth: int) -> Pool:
        pool = Pool(fifo.name, tile, depth, fifo.type)
        use = self._use(tile)
        use.take_memory(
            depth * fifo.type.nbytes, f"{depth} × {fifo.type.nbytes} B of {fifo.name!r}"
        )
        use.take_locks(2)
        self.pools.append(pool)
        return pool


def _ring_descriptor(
    type_: ArrayType, tile: Tile, dims: Dims | None, where: str
) -> BufferDescriptor:
    """The BD that moves one object, in the order of `dims` or as it lies."""
    if not dims:
        unused = (Dim(0, 1),) * tile.kind.bd_dims
        descriptor = BufferDescriptor(type_.nbytes // WORD_BYTES, unused)
    else:
        sizes, strides = zip(*dims, strict=True)
        if min(strides) < 1:
            raise PlanError(f"{where}: strides {strides} must be positive, also where a size is 1")
        try:
            descriptor = BufferDescriptor.from_pattern(
                sizes, strides, type_.dtype.itemsize, tile.kind.bd_dims
            )
        except PlanError as error:
            raise HardwareLimit(f"{where}: {error}") from None
        if descriptor.length * WORD_BYTES != type_.nbytes:
            raise PlanError(
                f"{where}: dimensions of {descriptor.length} words for an object of "
                f"{type_.nbytes // WORD_BYTES}"
            )
        last = sum((size - 1) * stride for size, stride in dims)
        if last >= type_.size:
            raise PlanError(f"{where}: element {last} is outside an object of {type_.size}")
    check_descriptor(descriptor, tile.kind, where)
    return descriptor


# --- The runtime sequence --------------------------------------------------------------------


class _Sequence:
    """A runtime sequence as operations; BDs are given out lowest first, as the compiler does."""

    def __init__(self, rt: Runtime, channels: dict[ObjectFifoHandle, HostChannel]) -> None:
        self._rt = rt
        self._channels = channels
        self._free_bds: dict[int, list[int]] = {}
        self._started: dict[TaskGroup | None, list[tuple[Move, int]]] = {}

    def operations(self) -> Iterator[Operation]:
        moves = [step for step in self._rt.steps if isinstance(step, Move)]
        grouped = [move.group is not None for move in moves]
        if any(grouped) and not all(grouped):
            raise PlanError("some moves are in task groups and some are not; IRON refuses the mix")
        for step in self._rt.steps:
            if isinstance(step, FinishGroup):
                yield from self._finish(step.group)
            else:
                yield from self._start(step)
        yield from self._finish(None)

    def _start(self, move: Move) -> Iterator[Operation]:
        channel = self._channels[move.handle]
        free = self._free_bds.setdefault(channel.tile.col, list(range(SHIM.num_bds)))
        if not free:
            raise HardwareLimit(f"{channel.tile}: more than {SHIM.num_bds} BDs are in use at once")
        bd = heappop(free)
        self._started.setdefault(move.group, []).append((move, bd))
        for operation in start_task(
            channel.tile.col,
            channel.direction,
            channel.channel,
            bd,
            move.data.number,
            move.tap,
            move.data.type.dtype.itemsize,
            token=move.wait,
        ):
            where = f"{channel} ({move.handle})"
            if isinstance(operation, WriteDescriptor):
                check_descriptor(operation.descriptor, SHIM, where)
            if isinstance(operation, PushTask) and operation.runs > MAX_REPEATS:
                raise HardwareLimit(f"{where}: {operation.runs} runs > {MAX_REPEATS}")
            yield operation

    def _finish(self, group: TaskGroup | None) -> Iterator[Operation]:
        for move, bd in self._started.pop(group, []):
            channel = self._channels[move.handle]
            if move.wait:
                yield AwaitTask(channel.tile.col, channel.direction, channel.channel)
            heappush(self._free_bds[channel.tile.col], bd)
