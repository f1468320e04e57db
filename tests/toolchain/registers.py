"""Buffer descriptors read back from register writes, by the hardware's own layout.

This is deliberately not `aie_design.instructions`: what the compiler emits is compared with the
plan by a second reader, written from the register tables of aie-rt (xaiemlgbl_params.h, DMA_BD0_*),
which also reads the memtile and core descriptors that no instruction stream holds.

Steps are stored as one less than their value, wraps as they are; both are in words of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

WRITE, BLOCK_WRITE, MASK_WRITE, SYNC, PATCH = 0x00, 0x01, 0x03, 0x80, 0x81


class Loop(NamedTuple):
    """`count` steps of `step` words. Count 0: as often as the length of the transfer allows."""

    count: int
    step: int


class Descriptor(NamedTuple):
    """One BD: `dims` innermost first, `next` None at the end of a chain, locks as (id, value)."""

    column: int
    row: int
    bd: int
    length: int
    dims: tuple[Loop, ...]
    iteration: Loop
    next: int | None
    address: int
    acquire: tuple[int, int]
    release: tuple[int, int]

    @property
    def kind(self) -> str:
        return kind_of(self.row)


def kind_of(row: int) -> str:
    """Rows 0 and 1 of an NPU are the shim and the memtiles; the cores are above."""
    return ("shim", "memtile", "core")[min(row, 2)]


class Task(NamedTuple):
    """A descriptor pushed on a channel's queue to run `runs` times, with the address patched in."""

    column: int
    direction: str
    channel: int
    descriptor: Descriptor
    runs: int
    token: bool
    argument: int
    offset_bytes: int


class Wait(NamedTuple):
    """Wait for one token of a channel."""

    column: int
    direction: str
    channel: int


class Field(NamedTuple):
    """Bits [high:low] of one word of a descriptor."""

    word: int
    high: int
    low: int

    def read(self, words: Sequence[int]) -> int:
        return words[self.word] >> self.low & ((1 << (self.high - self.low + 1)) - 1)

    def read_signed(self, words: Sequence[int]) -> int:
        sign = 1 << (self.high - self.low)
        return (self.read(words) ^ sign) - sign


class Layout(NamedTuple):
    """Where a tile's descriptors are and what their bits mean; a wrap of None has no field."""

    base: int
    count: int
    size_words: int
    length: Field
    address: Field
    wraps: tuple[Field | None, ...]
    steps: tuple[Field, ...]
    iteration_wrap: Field
    iteration_step: Field
    use_next: Field
    next: Field
    acquire_id: Field
    acquire_value: Field
    release_id: Field
    release_value: Field


LAYOUTS = {
    "shim": Layout(
        base=0x1D000,
        count=16,
        size_words=8,
        length=Field(0, 31, 0),
        address=Field(1, 31, 0),
        wraps=(Field(3, 29, 20), Field(4, 29, 20), None),
        steps=(Field(3, 19, 0), Field(4, 19, 0), Field(5, 19, 0)),
        iteration_wrap=Field(6, 25, 20),
        iteration_step=Field(6, 19, 0),
        use_next=Field(7, 26, 26),
        next=Field(7, 30, 27),
        acquire_id=Field(7, 3, 0),
        acquire_value=Field(7, 11, 5),
        release_id=Field(7, 16, 13),
        release_value=Field(7, 24, 18),
    ),
    "memtile": Layout(
        base=0xA0000,
        count=48,
        size_words=8,
        length=Field(0, 16, 0),
        address=Field(1, 18, 0),
        wraps=(Field(2, 26, 17), Field(3, 26, 17), Field(4, 26, 17), None),
        steps=(Field(2, 16, 0), Field(3, 16, 0), Field(4, 16, 0), Field(5, 16, 0)),
        iteration_wrap=Field(6, 22, 17),
        iteration_step=Field(6, 16, 0),
        use_next=Field(1, 19, 19),
        next=Field(1, 25, 20),
        acquire_id=Field(7, 7, 0),
        acquire_value=Field(7, 14, 8),
        release_id=Field(7, 23, 16),
        release_value=Field(7, 30, 24),
    ),
    "core": Layout(
        base=0x1D000,
        count=16,
        size_words=8,
        length=Field(0, 13, 0),
        address=Field(0, 27, 14),
        wraps=(Field(3, 20, 13), Field(3, 28, 21), None),
        steps=(Field(2, 12, 0), Field(2, 25, 13), Field(3, 12, 0)),
        iteration_wrap=Field(4, 18, 13),
        iteration_step=Field(4, 12, 0),
        use_next=Field(5, 26, 26),
        next=Field(5, 30, 27),
        acquire_id=Field(5, 3, 0),
        acquire_value=Field(5, 11, 5),
        release_id=Field(5, 16, 13),
        release_value=Field(5, 24, 18),
    ),
}


def descriptors(words: Sequence[int]) -> list[Descriptor]:
    """Every BD that a stream (a runtime sequence or a configuration) writes, in order."""
    found = []
    for operation in operations(words):
        if operation[0] != BLOCK_WRITE:
            continue
        address, data = operation[2], operation[4:]
        column, row, register = address >> 25, address >> 20 & 0x1F, address & 0xFFFFF
        layout = LAYOUTS[kind_of(row)]
        size_bytes = layout.size_words * 4
        if not layout.base <= register < layout.base + layout.count * size_bytes:
            continue
        first = (register - layout.base) // size_bytes
        # A configuration may write several neighbouring descriptors at once.
        for i in range(0, len(data), layout.size_words):
            block = [*data[i : i + layout.size_words], 0, 0][: layout.size_words]
            found.append(_descriptor(layout, column, row, first + i // layout.size_words, block))
    return found


def _descriptor(layout: Layout, column: int, row: int, bd: int, words: Sequence[int]) -> Descriptor:
    wraps = (field.read(words) if field else 0 for field in layout.wraps)
    steps = (field.read(words) + 1 for field in layout.steps)
    return Descriptor(
        column,
        row,
        bd,
        length=layout.length.read(words),
        dims=tuple(map(Loop, wraps, steps)),
        iteration=Loop(
            layout.iteration_wrap.read(words) + 1, layout.iteration_step.read(words) + 1
        ),
        next=layout.next.read(words) if layout.use_next.read(words) else None,
        address=layout.address.read(words),
        acquire=(layout.acquire_id.read(words), layout.acquire_value.read_signed(words)),
        release=(layout.release_id.read(words), layout.release_value.read_signed(words)),
    )


# The start queues of a shim's four channels.
QUEUES = {
    0x1D204: ("drain", 0),
    0x1D20C: ("drain", 1),
    0x1D214: ("fill", 0),
    0x1D21C: ("fill", 1),
}


def events(words: Sequence[int]) -> Iterator[Task | Wait]:
    """What a runtime sequence does, in order: the tasks it starts and the tokens it waits for."""
    written: dict[tuple[int, int], Descriptor] = {}
    patched: dict[tuple[int, int], tuple[int, int]] = {}
    for operation in operations(words):
        opcode = operation[0]
        if opcode == BLOCK_WRITE:
            for descriptor in descriptors([0, 0, 0, 0, *operation]):
                written[descriptor.column, descriptor.bd] = descriptor
        elif opcode == PATCH:
            column, bd = operation[6] >> 25, ((operation[6] & 0xFFFFF) - 0x1D004) // 32
            patched[column, bd] = operation[8], operation[10]
        elif opcode == WRITE and (register := operation[2] & 0xFFFFF) in QUEUES:
            column, bd = operation[2] >> 25, operation[4] & 0xF
            runs, token = (operation[4] >> 16 & 0xFF) + 1, bool(operation[4] >> 31)
            place = column, *QUEUES[register]
            yield Task(*place, written[column, bd], runs, token, *patched[column, bd])
        elif opcode == SYNC:
            direction = ("drain", "fill")[operation[2] & 0xFF]
            yield Wait(operation[2] >> 16, direction, operation[3] >> 24)


def operations(words: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The stream cut into its operations; each starts with its opcode."""
    position = 4
    while position < len(words):
        opcode = words[position] & 0xFF
        length_words = {
            WRITE: 6,
            BLOCK_WRITE: words[position + 3] // 4,
            MASK_WRITE: 7,
            SYNC: words[position + 1] // 4,
            PATCH: words[position + 1] // 4,
        }[opcode]
        yield tuple(words[position : position + length_words])
        position += length_words


def loops(descriptor: Descriptor, runs: int = 1) -> list[Loop]:
    """What the words that a BD visits in `runs` runs are as nested loops, outermost first.

    Loops that run once are dropped and loops that continue one another are joined, so that two
    descriptors visit the same words in the same order exactly if their loops are equal.
    """
    nest = []
    left = descriptor.length
    for count, step in descriptor.dims:
        # An unused dimension takes all that is left, and a step that is never repeated no time.
        taken = min(count, left) if count else left
        nest.append(Loop(taken, step))
        assert left % taken == 0, f"{descriptor}: {left} words are no multiple of a wrap of {taken}"
        left //= taken
    assert left == 1, f"{descriptor}: its dimensions cover only a part of its length"
    again = descriptor.iteration if runs > 1 else Loop(1, 1)
    assert again.count == runs, f"{descriptor}: run {runs} times"
    return joined([again, *nest[::-1]])


def joined(nest: Sequence[Loop]) -> list[Loop]:
    """Nested loops, outermost first, in the one shortest form."""
    result: list[Loop] = []
    for loop in nest:
        if loop.count == 1:
            continue
        if result and result[-1].step == loop.count * loop.step:
            loop = Loop(result.pop().count * loop.count, loop.step)
        result.append(loop)
    return result
