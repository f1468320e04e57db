"""The array as the silicon is: kinds of tiles, what each has, and what its registers can hold.

A model of its own: nothing here knows what the design plans, and nothing in the plan's legality
check is used here, so that the two can disagree. Numbers: AM020, and the register tables of aie-
rt.
"""

from __future__ import annotations

from dataclasses import dataclass

from aie_design.operations import ONCE, BufferDescriptor
from hptp.errors import PlanError


class HardwareLimit(PlanError):
    """The program asks for something a tile does not have, or a register cannot hold."""


@dataclass(frozen=True)
class TileKind:
    """What every tile of a kind has. Channels are per direction."""

    name: str
    bd_dims: int
    wrap_bits: int
    step_bits: int
    max_length_words: int
    num_bds: int
    num_channels: int
    memory_bytes: int
    num_locks: int


SHIM = TileKind("shim", 3, 10, 20, (1 << 32) - 1, 16, 2, 0, 16)
MEMTILE = TileKind("memtile", 4, 10, 17, 131_071, 48, 6, 512 * 1024, 64)
CORE = TileKind("core", 3, 8, 13, 16_383, 16, 2, 64 * 1024, 16)

QUEUE_DEPTH = 4  # tasks a channel's queue holds; one more is dropped without a sign
MAX_REPEATS = 256
MAX_ITERATIONS = 64
NUM_ROWS = 6
FIRST_CORE_ROW = 2


@dataclass(frozen=True, order=True)
class Tile:
    """A tile by column and row: row 0 is the shim, row 1 the memtile, the others are cores."""

    col: int
    row: int

    @property
    def kind(self) -> TileKind:
        return CORE if self.row >= FIRST_CORE_ROW else (SHIM, MEMTILE)[self.row]

    def is_neighbour(self, other: Tile) -> bool:
        """Whether a core here reaches the memory of a core there, or the other way round."""
        return abs(self.col - other.col) + abs(self.row - other.row) <= 1

    def __str__(self) -> str:
        if self.kind is CORE:
            return f"core ({self.col}, {self.row})"
        return f"{self.kind.name} {self.col}"


def check_descriptor(descriptor: BufferDescriptor, kind: TileKind, where: str) -> None:
    """Raise HardwareLimit unless every field fits its register in a tile of this kind.

    The last dimension has no wrap: it lasts until the length is reached. Steps are stored minus
    one.
    """
    max_wrap, max_step = (1 << kind.wrap_bits) - 1, 1 << kind.step_bits
    if len(descriptor.dims) > kind.bd_dims:
        raise HardwareLimit(f"{where}: {len(descriptor.dims)} dimensions, a BD has {kind.bd_dims}")
    if not 1 <= descriptor.length <= kind.max_length_words:
        raise HardwareLimit(
            f"{where}: length {descriptor.length} words is not in 1 … {kind.max_length_words}"
        )
    for number, (wrap, step) in enumerate(descriptor.dims):
        if wrap > max_wrap:
            raise HardwareLimit(f"{where}: d{number} wrap {wrap} > {max_wrap}")
        if not 1 <= step <= max_step:
            raise HardwareLimit(f"{where}: d{number} step {step} words is not in 1 … {max_step}")
    if descriptor.iteration == ONCE:
        return
    wrap, step = descriptor.iteration
    if wrap > MAX_ITERATIONS:
        raise HardwareLimit(f"{where}: iteration {wrap} > {MAX_ITERATIONS}")
    if not 1 <= step <= max_step:
        raise HardwareLimit(f"{where}: iteration step {step} words is not in 1 … {max_step}")


class TileUse:
    """What a program uses of one tile, handed out in order until the tile has no more."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self._channels = [0, 0]
        self._free_bds = list(range(tile.kind.num_bds))
        self._bytes = 0
        self._locks = 0

    def has_channel(self, direction: int) -> bool:
        return self._channels[direction] < self.tile.kind.num_channels

    def take_channel(self, direction: int) -> int:
        """The number of the next free channel."""
        if not self.has_channel(direction):
            name = ("S2MM", "MM2S")[direction]
            count = self.tile.kind.num_channels
            raise HardwareLimit(f"{self.tile}: more than its {count} {name} channels are needed")
        self._channels[direction] += 1
        return self._channels[direction] - 1

    def take_bds(self, count: int, channel: int) -> tuple[int, ...]:
        """The lowest free BD numbers; a memtile's odd channels reach only its upper half."""
        usable = self._free_bds
        if self.tile.kind is MEMTILE:
            half = MEMTILE.num_bds // 2
            usable = [bd for bd in usable if (bd >= half) == bool(channel % 2)]
        if count > len(usable):
            raise HardwareLimit(
                f"{self.tile}: {count} BDs are needed for channel {channel}, {len(usable)} are free"
            )
        taken = tuple(usable[:count])
        self._free_bds = [bd for bd in self._free_bds if bd not in taken]
        return taken

    def take_memory(self, nbytes: int, what: str) -> None:
        self._bytes += nbytes
        if self._bytes > self.tile.kind.memory_bytes:
            raise HardwareLimit(
                f"{self.tile}: {self._bytes} B are needed with {what}, it has "
                f"{self.tile.kind.memory_bytes} B"
            )

    def take_locks(self, count: int) -> None:
        self._locks += count
        if self._locks > self.tile.kind.num_locks:
            raise HardwareLimit(
                f"{self.tile}: {self._locks} locks are needed, it has {self.tile.kind.num_locks}"
            )
