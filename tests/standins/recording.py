"""What the stand-ins share: parts that remember how they were called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Tile:
    col: int
    row: int


@dataclass(frozen=True)
class Device:
    name: str


class Move(NamedTuple):
    """A fill or drain; `pattern` is (offset, sizes, strides) in the numbered buffer."""

    direction: str
    fifo: str
    tile: Tile
    buffer: int
    pattern: tuple[int, tuple[int, ...], tuple[int, ...]]
    group: int
    wait: bool


@dataclass
class Recording:
    """A resolved program. `steps` are moves, and the numbers of the groups that are finished."""

    device: str
    workers: list[Any]
    buffer_types: list[Any]
    steps: list[Move | int] = field(default_factory=list)


class TensorAccessPattern:
    # python/helpers/taplib/tap.py and utils.py: alike in all generations
    def __init__(self, tensor_dims: Any, offset: int, sizes: Any, strides: Any) -> None:
        if not sizes or len(sizes) != len(strides):
            raise ValueError(f"len(sizes) ({len(sizes)}) != len(strides) ({len(strides)})")
        if min(sizes) < 1 or min(strides) < 0:
            raise ValueError(f"sizes must be >= 1 and strides >= 0: {sizes}, {strides}")
        size = 1
        for dim in tensor_dims:
            size *= dim
        if not 0 <= offset < size:
            raise ValueError(f"Offset too large: {offset}. Max value allowed for tensor: {size}")
        self.tensor_size = size
        self.offset, self.sizes, self.strides = offset, list(sizes), list(strides)

    def numbers(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return self.offset, tuple(self.sizes), tuple(self.strides)


class Kernel:
    # python/iron/kernel.py
    def __init__(self, name: str, object_file_name: str, arg_types: list[Any] = []) -> None:  # noqa: B006
        if not name:
            raise ValueError("Kernel name cannot be empty.")
        self.name, self.object_file_name, self.arg_types = name, object_file_name, arg_types


class Fifo:
    """The base of every ObjectFifo: its name, its objects, and its one producer."""

    def __init__(self, obj_type: Any, depth: int | None, name: str | None) -> None:
        check_types([obj_type])
        if depth is not None and depth < 1:
            raise ValueError(f"Default ObjectFifo depth must be > 0, but got {depth}")
        self.obj_type, self.depth, self.name = obj_type, depth, name
        self.producer: Any = None
        self.source: Endpoint | None = None  # what it forwards


class Endpoint:
    """One end of a fifo: a worker, a memtile or the host may be put there, once."""

    def __init__(self, fifo: Fifo, is_prod: bool, layout: Any = None, tile: Any = None) -> None:
        self.fifo, self.is_prod, self.layout, self.tile = fifo, is_prod, layout, tile
        self.user: Any = None

    def connect(self, user: Any) -> None:
        if self.user is not None and self.user != user:
            raise ValueError(f"Endpoint already set for {self.fifo.name}: {self.user}, {user}")
        self.user = user

    def carry_on(self, tile: Any, obj_type: Any, depth: int | None, name: str | None) -> Any:
        """The fifo that a forward makes, with the memtile at both ends of the link."""
        if self.is_prod:
            raise ValueError("Cannot forward a prod ObjectFifoHandle")
        fifo = self.fifo
        made: Any = type(fifo)(obj_type or fifo.obj_type, depth=depth or fifo.depth, name=name)
        made.source = self
        self.connect(tile)
        made.prod().connect(tile)
        return made


def npu_device(name: str) -> Any:
    """NPU1, NPU1Col1 ... : a module's `__getattr__`, for the devices of every generation."""
    if name.startswith("NPU"):
        return lambda: Device(name)
    raise AttributeError(name)


def range_(*args: int) -> range:
    return range(*args)


def check_types(types: Any) -> None:
    for array_type in types:
        shape, dtype = array_type.__args__
        if not all(type(size) is int and size > 0 for size in shape):
            raise ValueError(f"bad shape {shape}")
        if dtype.__args__[0].__name__ == "uint64":
            raise ValueError("uint64 would be an index")


def check_dims(dims: Any) -> None:
    if type(dims) is not list or not all(len(pair) == 2 for pair in dims):
        raise TypeError(f"a plain list of (size, stride) pairs is expected, not {dims!r}")


def connect_worker(worker: Any, fn_args: Any) -> None:
    for arg in fn_args:
        if isinstance(arg, Fifo):
            raise ValueError("Cannot give an ObjectFifo directly to a worker")
        if isinstance(arg, Endpoint):
            arg.connect(worker)
