"""What a runtime sequence can do: configure a shim DMA's descriptors, queue them, wait for tokens.

These are the operations behind the words of insts.bin (`instructions` encodes and decodes them) and
the steps the interpreter executes (`hptp.sim`). Lengths and steps are in words of 4 bytes, the unit
of every DMA in the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from hptp.errors import PlanError

WORD_BYTES = 4


# --- Buffer descriptors -----------------------------------------------------------------------


class Dim(NamedTuple):
    """One dimension of a BD: after `wrap` steps of `step` words the next dimension advances.

    Wrap 0 never wraps: the dimension goes on until the length of the transfer is reached.
    """

    wrap: int
    step: int


ONCE = Dim(1, 1)


@dataclass(frozen=True)
class BufferDescriptor:
    """One transfer of `length` words, `dims` innermost first; a run starts `iteration.step` later
    than the one before.

    >>> BufferDescriptor.from_pattern((2, 16, 8), (8, 32, 1), elem_bytes=2, num_dims=3)
    BufferDescriptor(length=128, dims=(4×1, 16×16, ∞×4))
    """

    length: int
    dims: tuple[Dim, ...]
    iteration: Dim = ONCE

    @classmethod
    def from_pattern(
        cls, sizes: Sequence[int], strides: Sequence[int], elem_bytes: int, num_dims: int
    ) -> BufferDescriptor:
        """The BD that visits elements in the order of nested loops, outermost first.

        A contiguous pattern uses no dimension at all, as the compiler emits it.

        Raises:
            PlanError: a size or stride is no whole number of words, or there are too many of them.
        """
        if len(sizes) > num_dims:
            raise PlanError(f"BD dimensions: sizes {tuple(sizes)} need {len(sizes)} > {num_dims}")
        inner_step = 1 if strides[-1] == 1 else _words(strides[-1], elem_bytes, "stride")
        if strides[-1] != 1 and elem_bytes != WORD_BYTES:
            raise PlanError(
                f"granularity: an innermost stride of {strides[-1]} elements of {elem_bytes} B "
                "would be read as 1; only 4-byte elements can have one"
            )
        dims = [Dim(_words(sizes[-1], elem_bytes, "size"), inner_step)]
        for size, stride in zip(sizes[-2::-1], strides[-2::-1], strict=True):
            dims.append(Dim(size, _words(stride, elem_bytes, "stride") if size > 1 else 1))
        length = 1
        for dim in dims:
            length *= dim.wrap
        if inner_step == 1 and not any(strides[:-1]):
            dims = []
        dims += [Dim(0, 1)] * (num_dims - len(dims))
        dims[-1] = Dim(0, dims[-1].step)
        return cls(length, tuple(dims))

    def __repr__(self) -> str:
        text = f"BufferDescriptor(length={self.length}, dims=({self.loops()})"
        if self.iteration != ONCE:
            text += f", iteration={_loop(self.iteration)}"
        return text + ")"

    def loops(self) -> str:
        """The dimensions as `wrap×step`, innermost first."""
        return ", ".join(map(_loop, self.dims))


def _loop(dim: Dim) -> str:
    return f"{dim.wrap or '∞'}×{dim.step}"


def _words(elements: int, elem_bytes: int, what: str) -> int:
    words, rest = divmod(elements * elem_bytes, WORD_BYTES)
    if rest:
        raise PlanError(
            f"granularity: a {what} of {elements} elements of {elem_bytes} B is not a multiple of "
            f"{WORD_BYTES} B"
        )
    return words


# --- Operations -------------------------------------------------------------------------------


class Direction(IntEnum):
    """S2MM: stream to memory (a drain). MM2S: memory to stream (a fill)."""

    S2MM = 0
    MM2S = 1


@dataclass(frozen=True)
class WriteDescriptor:
    """Write BD number `bd` of the shim tile in `column`. The address is patched separately."""

    column: int
    bd: int
    descriptor: BufferDescriptor
    offset_bytes: int

    def __str__(self) -> str:
        d = self.descriptor
        text = f"{_shim(self)} BD {self.bd}: {d.length} words a run, dims {d.loops()}"
        if d.iteration != ONCE:
            text += f", each run {d.iteration.step} later (mod {d.iteration.wrap})"
        return text


@dataclass(frozen=True)
class PatchAddress:
    """Make the BD point at buffer `argument` of the kernel call, plus an offset."""

    column: int
    bd: int
    argument: int
    offset_bytes: int

    def __str__(self) -> str:
        return f"{_shim(self)} BD {self.bd}: at argument {self.argument} + {self.offset_bytes} B"


@dataclass(frozen=True)
class SetController:
    """Say which controller receives the tokens of a channel."""

    column: int
    direction: Direction
    channel: int
    controller: int

    def __str__(self) -> str:
        return f"{_channel(self)}: tokens go to controller {self.controller}"


@dataclass(frozen=True)
class PushTask:
    """Queue `runs` runs of a BD on a channel; `token` asks for a token once they are done."""

    column: int
    direction: Direction
    channel: int
    bd: int
    runs: int
    token: bool

    def __str__(self) -> str:
        text = f"{_channel(self)}: queue BD {self.bd}, {self.runs} run" + "s" * (self.runs != 1)
        return text + (", then return a token" if self.token else "")


@dataclass(frozen=True)
class AwaitTask:
    """Wait for one token of a channel."""

    column: int
    direction: Direction
    channel: int

    def __str__(self) -> str:
        return f"{_channel(self)}: wait for a token"


Operation = WriteDescriptor | PatchAddress | SetController | PushTask | AwaitTask


def _shim(operation: WriteDescriptor | PatchAddress) -> str:
    return f"shim {operation.column}"


def _channel(operation: SetController | PushTask | AwaitTask) -> str:
    return f"shim {operation.column} {operation.direction.name} {operation.channel}"


# --- From access patterns ---------------------------------------------------------------------

TOKEN_CONTROLLER = 15  # the id the compiler gives the controller of every shim tile


class Pattern(Protocol):
    """A four-dimensional access pattern in elements, outermost first."""

    @property
    def offset(self) -> int: ...

    @property
    def sizes(self) -> Sequence[int]: ...

    @property
    def strides(self) -> Sequence[int]: ...


def start_task(
    column: int,
    direction: Direction,
    channel: int,
    bd: int,
    argument: int,
    pattern: Pattern,
    elem_bytes: int,
    *,
    token: bool,
) -> Iterator[Operation]:
    """Configure a BD for one access pattern and push it: what a fill or a drain becomes."""
    descriptor, runs = shim_descriptor(pattern.sizes, pattern.strides, elem_bytes)
    offset_bytes = pattern.offset * elem_bytes
    yield WriteDescriptor(column, bd, descriptor, offset_bytes)
    yield PatchAddress(column, bd, argument, offset_bytes)
    if token:
        yield SetController(column, direction, channel, TOKEN_CONTROLLER)
    yield PushTask(column, direction, channel, bd, runs, token)


def shim_descriptor(
    sizes: Sequence[int], strides: Sequence[int], elem_bytes: int
) -> tuple[BufferDescriptor, int]:
    """The shim BD of a four-dimensional pattern, and how often it runs.

    The outermost dimension becomes the iteration: as many runs, each one stride later. Leading
    dimensions of size 1 count as having no stride, as in IRON's TensorAccessPattern; it decides
    whether a pattern is contiguous.
    """
    leading = next((axis for axis, size in enumerate(sizes[:-1]) if size > 1), len(sizes) - 1)
    cleaned = (0,) * leading + tuple(strides[leading:])
    inner = BufferDescriptor.from_pattern(sizes[1:], cleaned[1:], elem_bytes, num_dims=3)
    runs, stride = sizes[0], cleaned[0]
    if runs == 1 or stride == 0:
        return inner, runs
    step = _words(stride, elem_bytes, "stride")
    return BufferDescriptor(inner.length, inner.dims, Dim(runs, step)), runs
