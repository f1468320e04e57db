"""The instruction stream: a run of the design as the 32-bit words of insts.bin, and back.

The program in the array knows only tiles; the stream says which memory they come from and go to.
It is a list of writes to the shim tiles' registers and of operations with a meaning of their own
(patch an address, wait for a token):

    plan ── sequence() ──> operations ── encode() ──> words
                           operations <── decode() ── words ── disassemble() ──> text

    >>> from aie_design.plan import TransposePlan
    >>> words = assemble(TransposePlan(64, 32, 16, 16, 4, 4))
    >>> print(len(words), decode(words).operations[2])
    75 shim 0 MM2S 0: queue BD 0, 4 runs

The format is that of mlir-aie (lib/Targets/AIETargetNPU.cpp, AIEDmaToNpu.cpp, AIETargetModel.cpp):
transactions of version 0.1, the only ones it emits for a runtime sequence.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aie_design.operations import (
    WORD_BYTES,
    AwaitTask,
    BufferDescriptor,
    Dim,
    Direction,
    Operation,
    PatchAddress,
    PushTask,
    SetController,
    WriteDescriptor,
    start_task,
)
from aie_design.plan import Finish, TransposePlan
from hptp.errors import PlanError

ARGUMENTS = {"fill": 0, "drain": 1}

# Header: version 0.1, the device generation, 6 rows of tiles of which 1 is memtiles.
GENERATIONS = {"npu": 3, "npu2": 4}
VERSION = 0x0100
NUM_ROWS = 6
NUM_MEMTILE_ROWS = 1
HEADER_WORDS = 4

# Operation codes, and where an operation says how many bytes it has.
WRITE, BLOCK_WRITE, MASK_WRITE, MASK_POLL, NOOP, PREEMPT, LOAD_PDI = 0, 1, 3, 4, 5, 6, 8
AWAIT_TOKEN, PATCH_ADDRESS = 128, 129
FIXED_WORDS = {NOOP: 1, PREEMPT: 1, LOAD_PDI: 4}
SIZE_WORD = {WRITE: 5, BLOCK_WRITE: 3, MASK_WRITE: 6, MASK_POLL: 6}
FIRST_CUSTOM, CUSTOM_SIZE_WORD = 128, 1

# A register address is column, row and offset in the tile; the shim is row 0.
COLUMN_SHIFT, ROW_SHIFT, OFFSET_MASK = 25, 20, 0xFFFFF
SHIM_BDS, BD_BYTES, NUM_SHIM_BDS = 0x1D000, 0x20, 16
BD_ADDRESS_WORD = 1  # the word of a BD that holds the low half of its address
SHIM_CHANNELS = 0x1D200  # control and queue registers, 8 bytes a channel: S2MM 0, 1, MM2S 0, 1
CONTROLLER_SHIFT, CONTROLLER_MASK = 8, 0x1F00

# Bits of a shim BD that are the same in every transfer of ours.
BURST_LENGTHS = {"npu": 2, "npu2": 3}  # the longest burst of the device: 256 B, 512 B
BURST_SHIFT = 30
AXI_CACHE = 2 << 24  # lets the network on chip combine transfers
VALID = 1 << 25
STEP_BITS, WRAP_BITS, ITERATION_BITS = 20, 10, 6


@dataclass(frozen=True)
class RawOperation:
    """An operation with no meaning here, as the words it is made of."""

    words: tuple[int, ...]

    def __str__(self) -> str:
        return _describe(self.words)


@dataclass(frozen=True)
class Instructions:
    """A stream: the device, the number of columns its program uses, and what it does in order."""

    device: str
    columns: int
    operations: tuple[Operation | RawOperation, ...]


# --- From a plan ------------------------------------------------------------------------------


def sequence(plan: TransposePlan) -> Iterator[Operation]:
    """What the runtime sequence of `plan` does, in order."""
    for step in plan.schedule():
        if isinstance(step, Finish):
            for drain in step.drains:
                yield AwaitTask(drain.column, Direction.S2MM, drain.channel)
        else:
            yield from start_task(
                step.column,
                Direction.MM2S if step.direction == "fill" else Direction.S2MM,
                step.channel,
                step.bd,
                ARGUMENTS[step.direction],
                step.tap,
                plan.elem_bytes,
                token=step.direction == "drain",
            )


def assemble(plan: TransposePlan) -> list[int]:
    """The words of the runtime sequence of `plan`, equal to what the compiler emits.

    Raises:
        PlanError: the plan is not legal.
    """
    return encode(Instructions(plan.device, plan.columns, tuple(sequence(plan))))


def to_bytes(words: Sequence[int]) -> bytes:
    """The words as they stand in insts.bin: little-endian."""
    return struct.pack(f"<{len(words)}I", *words)


def from_bytes(data: bytes) -> list[int]:
    """The words of an insts.bin.

    Raises:
        PlanError: the length is not a whole number of words.
    """
    if len(data) % WORD_BYTES:
        raise PlanError(f"instructions: {len(data)} bytes is not a whole number of 4-byte words")
    return list(struct.unpack(f"<{len(data) // WORD_BYTES}I", data))


# --- Encoding ---------------------------------------------------------------------------------


def encode(instructions: Instructions) -> list[int]:
    """The words of a stream."""
    device = instructions.device
    body: list[int] = []
    for operation in instructions.operations:
        body += _encode(operation, device)
    return [
        NUM_ROWS << 24 | GENERATIONS[device] << 16 | VERSION,
        NUM_MEMTILE_ROWS << 8 | instructions.columns,
        len(instructions.operations),
        (HEADER_WORDS + len(body)) * WORD_BYTES,
        *body,
    ]


def _encode(operation: Operation | RawOperation, device: str) -> Sequence[int]:
    match operation:
        case WriteDescriptor(column, bd):
            payload = _descriptor_words(operation, device)
            size = (4 + len(payload)) * WORD_BYTES
            return [BLOCK_WRITE, 0, _bd_address(column, bd), size, *payload]
        case PatchAddress(column, bd, argument, offset_bytes):
            address = _bd_address(column, bd) + BD_ADDRESS_WORD * WORD_BYTES
            size = 12 * WORD_BYTES
            return [PATCH_ADDRESS, size, 0, 0, 0, 0, address, 0, argument, 0, offset_bytes, 0]
        case SetController(column, direction, channel, controller):
            address = _control_address(column, direction, channel)
            value = controller << CONTROLLER_SHIFT
            return [MASK_WRITE, 0, address, 0, value, CONTROLLER_MASK, 7 * WORD_BYTES]
        case PushTask(column, direction, channel, bd, runs, token):
            address = _control_address(column, direction, channel) + WORD_BYTES
            value = token << 31 | (runs - 1) << 16 | bd
            return [WRITE, 0, address, 0, value, 6 * WORD_BYTES]
        case AwaitTask(column, direction, channel):
            one_column_one_row = 1 << 16 | 1 << 8
            tile = column << 16 | direction
            return [AWAIT_TOKEN, 4 * WORD_BYTES, tile, channel << 24 | one_column_one_row]
        case RawOperation(words):
            return words


def _bd_address(column: int, bd: int) -> int:
    return column << COLUMN_SHIFT | SHIM_BDS + bd * BD_BYTES


def _control_address(column: int, direction: Direction, channel: int) -> int:
    return column << COLUMN_SHIFT | SHIM_CHANNELS + (2 * direction + channel) * 8


def _descriptor_words(write: WriteDescriptor, device: str) -> list[int]:
    """The eight registers of a shim BD. Steps are stored minus one, as is the iteration's wrap."""
    (wrap0, step0), (wrap1, step1), (_, step2) = write.descriptor.dims
    runs, run_step = write.descriptor.iteration
    return [
        write.descriptor.length,
        write.offset_bytes,
        0,
        wrap0 << STEP_BITS | step0 - 1,
        BURST_LENGTHS[device] << BURST_SHIFT | wrap1 << STEP_BITS | step1 - 1,
        AXI_CACHE | step2 - 1,
        runs - 1 << STEP_BITS | run_step - 1,
        VALID,
    ]


# --- Decoding ---------------------------------------------------------------------------------


def decode(words: Sequence[int]) -> Instructions:
    """What a stream does. Encoding the result gives the same words again.

    Raises:
        PlanError: the words are not a transaction of version 0.1, or are cut short.
    """
    if len(words) < HEADER_WORDS:
        raise PlanError(f"instructions: {len(words)} words are fewer than the header's 4")
    version, generation = words[0] & 0xFFFF, words[0] >> 16 & 0xFF
    devices = {number: name for name, number in GENERATIONS.items()}
    if version != VERSION or generation not in devices:
        raise PlanError(
            f"instructions: the first word {words[0]:08x} starts no transaction of version 0.1"
        )
    if words[3] != len(words) * WORD_BYTES:
        raise PlanError(
            f"instructions: the header says {words[3]} bytes, there are {len(words) * WORD_BYTES}"
        )
    device = devices[generation]
    records = list(_records(words))
    if words[2] != len(records):
        raise PlanError(
            f"instructions: the header says {words[2]} operations, there are {len(records)}"
        )
    return Instructions(device, words[1] & 0xFF, tuple(_decode(r, device) for r in records))


def _records(words: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The words of each operation."""
    position = HEADER_WORDS
    while position < len(words):
        count = _record_words(words, position)
        if count < 1 or position + count > len(words):
            raise PlanError(f"instructions: the operation at word {position} is cut short")
        yield tuple(words[position : position + count])
        position += count


def _record_words(words: Sequence[int], position: int) -> int:
    """How many words the operation at `position` has; 0 if that cannot be read."""
    code = words[position] & 0xFF
    if code in FIXED_WORDS:
        return FIXED_WORDS[code]
    size_word = CUSTOM_SIZE_WORD if code >= FIRST_CUSTOM else SIZE_WORD.get(code)
    if size_word is None:
        raise PlanError(f"instructions: unknown operation code {code} at word {position}")
    if position + size_word >= len(words):
        return 0
    return words[position + size_word] // WORD_BYTES


def _decode(record: tuple[int, ...], device: str) -> Operation | RawOperation:
    """The meaning of an operation, if it has exactly the form `encode` gives it."""
    meaning = _meaning(record)
    if meaning is not None and tuple(_encode(meaning, device)) == record:
        return meaning
    return RawOperation(record)


def _meaning(record: tuple[int, ...]) -> Operation | None:
    match record:
        case (code, _, address, _, length, offset_bytes, _, w3, w4, w5, w6, _) if (
            code == BLOCK_WRITE
        ):
            dims = (_dim(w3, WRAP_BITS), _dim(w4, WRAP_BITS), _dim(w5, 0))
            runs, step = _dim(w6, ITERATION_BITS)
            descriptor = BufferDescriptor(length, dims, Dim(runs + 1, step))
            return WriteDescriptor(_column(address), _bd(address), descriptor, offset_bytes)
        case (code, _, _, _, _, _, address, _, argument, _, offset_bytes, _) if (
            code == PATCH_ADDRESS
        ):
            return PatchAddress(_column(address), _bd(address), argument, offset_bytes)
        case (code, _, address, _, value, _, _) if code == MASK_WRITE:
            return SetController(*_channel(address), value >> CONTROLLER_SHIFT)
        case (code, _, address, _, value, _) if code == WRITE:
            bd, runs, token = value & 0xF, (value >> 16 & 0xFF) + 1, bool(value >> 31)
            return PushTask(*_channel(address), bd, runs, token)
        case (code, _, tile, channel) if code == AWAIT_TOKEN:
            return AwaitTask(tile >> 16 & 0xFF, Direction(tile & 1), channel >> 24)
    return None


def _dim(word: int, wrap_bits: int) -> Dim:
    return Dim(word >> STEP_BITS & (1 << wrap_bits) - 1, (word & (1 << STEP_BITS) - 1) + 1)


def _column(address: int) -> int:
    return address >> COLUMN_SHIFT


def _bd(address: int) -> int:
    return ((address & OFFSET_MASK) - SHIM_BDS) // BD_BYTES


def _channel(address: int) -> tuple[int, Direction, int]:
    number = ((address & OFFSET_MASK) - SHIM_CHANNELS) // 8
    return _column(address), Direction(number >> 1 & 1), number & 1


# --- Disassembly ------------------------------------------------------------------------------


def disassemble(words: Sequence[int]) -> str:
    """The stream as text, one operation a line, with the index of its first word.

    Raises:
        PlanError: the words are not a transaction of version 0.1, or are cut short.
    """
    stream = decode(words)
    plural = "" if stream.columns == 1 else "s"
    lines = [
        f"{stream.device}, {stream.columns} column{plural}, {len(stream.operations)} operations, "
        f"{len(words)} words"
    ]
    position = HEADER_WORDS
    for operation in stream.operations:
        lines.append(f"{position:5}  {operation}")
        position += len(_encode(operation, stream.device))
    return "\n".join(lines)


def _describe(record: tuple[int, ...]) -> str:
    """An operation without a meaning above, as far as its code tells."""
    code, rest = record[0] & 0xFF, record[1:]
    match code:
        case 0:
            return f"{register(record[2])} = {record[4]:#010x}"
        case 1:
            payload = " ".join(f"{word:08x}" for word in record[4:])
            return f"{register(record[2])} … = {payload}"
        case 3:
            return f"{register(record[2])} = {record[4]:#010x} under mask {record[5]:#010x}"
        case 4:
            return (
                f"poll {register(record[2])} until {record[4]:#010x} under mask {record[5]:#010x}"
            )
        case 5:
            return "nothing"
        case 6:
            return f"preemption point, level {record[0] >> 8 & 0xFF}"
        case 8:
            return f"load configuration {record[0] >> 16}"
        case 128:
            column, row = record[2] >> 16 & 0xFF, record[2] >> 8 & 0xFF
            direction, channel = Direction(record[2] & 1).name, record[3] >> 24
            columns, rows = record[3] >> 16 & 0xFF, record[3] >> 8 & 0xFF
            return (
                f"wait for a token of {direction} {channel} of each of {columns}×{rows} tiles "
                f"from column {column}, row {row}"
            )
        case 129:
            return f"{register(record[6])}: at argument {record[8]} + {record[10]} B"
    return f"operation {code}: " + " ".join(f"{word:08x}" for word in rest)


# Blocks of registers by kind of tile: name, first offset, bytes an entry, number of entries.
REGISTER_BLOCKS = {
    "shim": (
        ("BD", SHIM_BDS, BD_BYTES, NUM_SHIM_BDS),
        ("DMA channel", SHIM_CHANNELS, 8, 4),
        ("lock", 0x14000, 0x10, 16),
    ),
    "memtile": (
        ("BD", 0xA0000, BD_BYTES, 48),
        ("DMA channel", 0xA0600, 8, 12),
        ("lock", 0xC0000, 0x10, 64),
        ("memory", 0, 1, 0x80000),
    ),
    "core": (
        ("BD", 0x1D000, BD_BYTES, 16),
        ("DMA channel", 0x1DE00, 8, 4),
        ("lock", 0x1F000, 0x10, 16),
        ("memory", 0, 1, 0x10000),
    ),
}


def register(address: int) -> str:
    """A register address by tile and block, as far as they are known.

    >>> register(0x0201D204)
    'shim 1 DMA channel 0 + 0x4'
    """
    column, row, offset = (
        address >> COLUMN_SHIFT,
        address >> ROW_SHIFT & 0x1F,
        address & OFFSET_MASK,
    )
    kind = ("shim", "memtile")[row] if row < 1 + NUM_MEMTILE_ROWS else "core"
    tile = f"{kind} {column}" if kind != "core" else f"core ({column}, {row})"
    for name, first, entry_bytes, count in REGISTER_BLOCKS[kind]:
        entry, rest = divmod(offset - first, entry_bytes)
        if 0 <= entry < count:
            return f"{tile} {name} {entry}" + (f" + {rest:#x}" if rest else "")
    return f"{tile} register {offset:#x}"
