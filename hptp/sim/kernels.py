"""The kernels of aie_kernels/ on this machine: compiled by its C++ compiler, checked, callable.

A kernel's source is compiled once per element width against the AIE API of aie_kernels/host, which
records what a core would not forgive: accesses outside the buffers of the call, misaligned vectors,
impossible shuffles. On the AIE the size of the tile is a constant; here it is set before each call,
so one library serves every tile. Libraries are cached by content next to hptp's other artifacts.

    >>> tile = np.ndarray[(4, 16), np.dtype[np.int32]]
    >>> transpose = load("transpose_4x4", "transpose.o", [tile, tile])
    >>> x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    >>> transpose(x, y)
    Work(bytes_loaded=256, bytes_stored=256, vshuffles=12)
    >>> y[:8].tolist()
    [0, 4, 8, 12, 1, 5, 9, 13]
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aie_design
from hptp.errors import DeviceError
from hptp.npu.artifacts import cache_dir, digest

SOURCES = Path(aie_design.__file__).parent.parent / "aie_kernels"
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra")
TILE_SIZE = ("-DDIM_M=aie::host::state.dim_m", "-DDIM_N=aie::host::state.dim_n")
MAX_BUFFERS = 8  # Region slots in aie_kernels/host


class Work(NamedTuple):
    """What one call did: memory traffic, and shuffles of 64 bytes."""

    bytes_loaded: int
    bytes_stored: int
    vshuffles: int


class _Region(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_size_t), ("end", ctypes.c_size_t))


class HostKernel:
    """One function of a compiled kernel source, for tiles of one size.

    Call it with an array for every array type and an int for every scalar type. Raises DeviceError
    if the arguments do not fit the types, or for the first thing a core would not have forgiven.
    """

    def __init__(self, symbol: str, library: ctypes.CDLL, arg_types: Sequence[Any]) -> None:
        self.symbol = symbol
        self._arrays = [_array_type(t) for t in arg_types]
        self._tile = _tile_size(self._arrays)
        self._begin, self._end = library.aie_host_begin, library.aie_host_end
        self._end.restype = ctypes.c_char_p
        try:
            self._function = library[symbol]
        except AttributeError:
            raise DeviceError(f"the kernel library has no function {symbol!r}") from None
        self._function.restype = None

    def __call__(self, *args: Any) -> Work:
        if len(args) != len(self._arrays):
            raise DeviceError(
                f"kernel {self.symbol} takes {len(self._arrays)} arguments, not {len(args)}"
            )
        values: list[Any] = []
        regions: list[_Region] = []
        for position, (arg, expected) in enumerate(zip(args, self._arrays, strict=True)):
            if expected is None:
                values.append(ctypes.c_int64(int(arg)))
                continue
            shape, dtype = expected
            size = int(np.prod(shape))
            if arg.dtype != dtype or arg.size != size or not arg.flags.c_contiguous:
                raise DeviceError(
                    f"kernel {self.symbol}, argument {position}: expected {size} contiguous "
                    f"{dtype}, got {arg.dtype} of shape {arg.shape}"
                )
            address = arg.__array_interface__["data"][0]
            values.append(ctypes.c_void_p(address))
            regions.append(_Region(address, address + arg.nbytes))
        self._begin(*self._tile, len(regions), (_Region * len(regions))(*regions))
        self._function(*values)
        counts = (ctypes.c_uint64 * 3)()
        if error := self._end(counts):
            m, n = self._tile
            raise DeviceError(f"kernel {self.symbol}, m={m}, n={n}: {error.decode()}")
        return Work(*counts)


def load(symbol: str, object_file: str, arg_types: Sequence[Any]) -> HostKernel:
    """The function `symbol` of the source behind `object_file` ("transpose.o": transpose.cc).

    The first array type fixes the element width and the tile's size, (m, n).

    Raises:
        DeviceError: there is no such source or function, no C++ compiler, or it fails.
    """
    arrays = [_array_type(t) for t in arg_types]
    elem_bytes = next(dtype.itemsize for _, dtype in filter(None, arrays))
    source = SOURCES / f"{Path(object_file).stem}.cc"
    if len(arg_types) > MAX_BUFFERS:
        raise DeviceError(f"kernel {symbol} has {len(arg_types)} arguments; at most {MAX_BUFFERS}")
    return HostKernel(symbol, library(source, elem_bytes), arg_types)


def _array_type(annotation: Any) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and dtype of `np.ndarray[(4, 8), np.dtype[np.int16]]`; None for a scalar type."""
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return None
    shape, dtype = annotation.__args__
    return tuple(shape), np.dtype(dtype.__args__[0])


def _tile_size(arrays: Sequence[tuple[tuple[int, ...], np.dtype[Any]] | None]) -> tuple[int, int]:
    """(m, n) of the first array: its own shape if it has two axes, else its size and 1."""
    shape = next(shape for shape, _ in filter(None, arrays))
    return (shape[0], shape[1]) if len(shape) == 2 else (int(np.prod(shape)), 1)


@cache
def library(source: Path, elem_bytes: int) -> ctypes.CDLL:
    """`source` compiled for elements of `elem_bytes`, from the cache if it is there."""
    if not source.is_file():
        raise DeviceError(f"no kernel source {source}")
    host = SOURCES / "host"
    runtime = host / "runtime.cc"
    compiler = find_compiler()
    options = (*FLAGS, f"-DELEM_BYTES={elem_bytes}", *TILE_SIZE)
    contents = [path.read_bytes() for path in (source, runtime, host / "aie_api" / "aie.hpp")]
    folder = cache_dir() / "kernels"
    target = folder / f"{source.stem}-{elem_bytes}-{digest(compiler, *options, *contents)}.so"
    if not target.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _compile([compiler, *options, f"-I{host}", str(source), str(runtime)], target)
        except OSError as error:
            raise DeviceError(f"cannot write {folder} ({error}); set HPTP_CACHE_DIR") from error
    return ctypes.CDLL(str(target))


def find_compiler() -> str:
    """The path of the C++ compiler: what CXX names, else the first of the usual names."""
    for name in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        if path := shutil.which(name):
            return path
    raise DeviceError("no C++ compiler: install g++ or clang++, or name one in CXX")


def _compile(command: Sequence[str], target: Path) -> None:
    """Run `command` with its output moved to `target` when complete: processes may race."""
    handle, unfinished = tempfile.mkstemp(dir=target.parent, suffix=".so")
    os.close(handle)
    try:
        done = subprocess.run([*command, "-o", unfinished], capture_output=True, text=True)
        if done.returncode != 0:
            raise DeviceError(f"{' '.join(command)} failed:\n{done.stderr}")
        os.replace(unfinished, target)
    finally:
        Path(unfinished).unlink(missing_ok=True)
