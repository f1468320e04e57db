"""Who is measured: hptp, the copies that set the limit, and every library that can permute.

A contestant binds itself to a job (source and destination are NumPy arrays) and returns the call to
time. The call gives its result, which is compared with the expected bits before it is timed.
Libraries that are not installed are left out, with the reason; a contestant that cannot do a job
says so by raising when it binds or when it is first called.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hptp.bench.cases import Case

if TYPE_CHECKING:
    import numpy as np

COPY = "nt copy"  # the yardstick: shares are shares of its speed
OURS = "hptp"


@dataclass(frozen=True)
class Job:
    """A case with its memory: `dst` is preallocated and has the shape of the result."""

    case: Case
    src: np.ndarray
    dst: np.ndarray
    num_threads: int


Call = Callable[[], Any]


@dataclass(frozen=True)
class Contestant:
    """
    Args:
        name: as in tables.
        version: of its library.
        bind: the call to time for a job. It returns what it wrote, an array or its like.
        allocates: every call makes its own output; `dst` stays unused.
        permutes: False of the copies, whose result is the source itself.
        converts: for cases that convert, and for no others.
    """

    name: str
    version: str
    bind: Callable[[Job], Call]
    allocates: bool = False
    permutes: bool = True
    converts: bool = False

    def takes(self, case: Case) -> bool:
        """Whether this is a contestant of that kind of case."""
        return not self.permutes or self.converts == (case.to_dtype is not None)


class Unable(Exception):
    """This contestant does not do this kind of job."""


def contestants(num_threads: int, hptt: Path | None) -> tuple[list[Contestant], dict[str, str]]:
    """Everyone who is here, and of the others why not."""
    from hptp.bench import convert_peers

    present = [*_ours(), *_copies(), *convert_peers.ours()]
    missing = {}
    entries: dict[str, Callable[[], list[Contestant]]] = {
        "numpy": lambda: [*_numpy(), *convert_peers.numpy()],
        "torch": lambda: [*_torch(num_threads), *convert_peers.torch()],
        "jax": _jax,
        "opencv": lambda: _opencv(num_threads),
        "mkl": _mkl,
        "hptt": lambda: _hptt(hptt),
    }
    for name, enter in entries.items():
        try:
            present += enter()
        except (ImportError, OSError, metadata.PackageNotFoundError) as error:
            missing[name] = str(error) or type(error).__name__
    return present, missing


# ---- hptp, and what memory can do


def _ours() -> list[Contestant]:
    import hptp

    def into(job: Job) -> Call:
        return lambda: hptp.permute(job.src, job.case.perm, out=job.dst, device="cpu")

    def new(job: Job) -> Call:
        return lambda: hptp.permute(job.src, job.case.perm)

    version = hptp.__version__
    return [Contestant(OURS, version, into), Contestant(OURS, version, new, allocates=True)]


def _copies() -> list[Contestant]:
    """Two copies of the same bytes on the same threads: with the C library, and past the caches."""
    from hptp import _core

    def copy(function: Callable[[int, int, int, int], None]) -> Callable[[Job], Call]:
        def bind(job: Job) -> Call:
            src, dst, nbytes = job.src.ctypes.data, job.dst.ctypes.data, job.src.nbytes

            def call() -> np.ndarray:
                function(src, dst, nbytes, job.num_threads)
                return job.dst

            return call

        return bind

    libc = " ".join(_libc_version())
    return [
        Contestant(COPY, _core.version, copy(_core.nt_copy), permutes=False),
        Contestant("memcpy", libc, copy(_core.memcpy), permutes=False),
    ]


def _libc_version() -> tuple[str, str]:
    import platform

    return platform.libc_ver()


# ---- Python libraries


def _numpy() -> list[Contestant]:
    import numpy as np

    def into(job: Job) -> Call:
        view = job.src.transpose(job.case.perm)

        def call() -> np.ndarray:
            np.copyto(job.dst, view)
            return job.dst

        return call

    def new(job: Job) -> Call:
        return lambda: job.src.transpose(job.case.perm).copy()

    version = np.__version__
    return [Contestant("numpy", version, into), Contestant("numpy", version, new, allocates=True)]


def _torch(num_threads: int) -> list[Contestant]:
    import torch

    import hptp

    torch.set_num_threads(num_threads)
    version = torch.__version__

    def tensors(job: Job) -> tuple[Any, Any]:
        # Not every version knows unsigned types above 8 bits; a copy of int16 is the same copy.
        dtype = job.case.dtype.replace("uint16", "int16")
        return torch.from_numpy(job.src.view(dtype)), torch.from_numpy(job.dst.view(dtype))

    def into(job: Job) -> Call:
        src, dst = tensors(job)
        return lambda: dst.copy_(src.permute(job.case.perm))

    def new(job: Job) -> Call:
        src, _ = tensors(job)
        return lambda: src.permute(job.case.perm).contiguous()

    def ours_on_tensors(job: Job) -> Call:
        src, _ = tensors(job)
        return lambda: hptp.permute(src, job.case.perm)

    return [
        Contestant("torch", version, into),
        Contestant("torch", version, new, allocates=True),
        Contestant("hptp-torch", hptp.__version__, ours_on_tensors, allocates=True),
    ]


def _jax() -> list[Contestant]:
    import jax

    def new(job: Job) -> Call:
        src = jax.device_put(job.src)
        if src.dtype != job.src.dtype:
            raise Unable(f"makes {src.dtype} of {job.src.dtype} unless JAX_ENABLE_X64 is set")
        permute = jax.jit(lambda x: jax.numpy.transpose(x, job.case.perm))
        # Awaited inside the timed block: JAX returns before it has done the work.
        return lambda: permute(src).block_until_ready()

    return [Contestant("jax", jax.__version__, new, allocates=True)]


def _opencv(num_threads: int) -> list[Contestant]:
    import cv2

    cv2.setNumThreads(num_threads)

    def into(job: Job) -> Call:
        # Without this wrapping the last axis would be taken for colour channels.
        src = cv2.Mat(job.src, wrap_channels=False)
        dst = cv2.Mat(job.dst, wrap_channels=False)

        def call() -> np.ndarray:
            cv2.transposeND(src, job.case.perm, dst)
            return job.dst

        return call

    return [Contestant("opencv", cv2.__version__, into)]


# ---- C libraries


def _mkl() -> list[Contestant]:
    """MKL_?omatcopy of the package `mkl`: 2-D, elements of 4, 8 and 16 bytes."""
    ctypes.CDLL(str(_installed_file("intel-openmp", "libiomp5")), ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(_installed_file("mkl", "libmkl_rt")), ctypes.RTLD_GLOBAL)

    class Complex(ctypes.Structure):
        _fields_ = (("real", ctypes.c_double), ("imag", ctypes.c_double))

    kinds: dict[int, tuple[str, Any, Any]] = {
        4: ("MKL_Somatcopy", ctypes.c_float, 1.0),
        8: ("MKL_Domatcopy", ctypes.c_double, 1.0),
        16: ("MKL_Zomatcopy", Complex, Complex(1.0, 0.0)),
    }

    def into(job: Job) -> Call:
        if job.case.perm != (1, 0):
            raise Unable("omatcopy transposes matrices only")
        if job.src.itemsize not in kinds:
            raise Unable(f"omatcopy has no elements of {job.src.itemsize} bytes")
        name, scalar, one = kinds[job.src.itemsize]
        function = getattr(library, name)
        char, size, pointer = ctypes.c_char, ctypes.c_size_t, ctypes.c_void_p
        function.argtypes = [char, char, size, size, scalar, pointer, size, pointer, size]
        function.restype = None
        rows, cols = job.case.shape
        arguments = (
            b"R",
            b"T",
            rows,
            cols,
            one,
            job.src.ctypes.data,
            cols,
            job.dst.ctypes.data,
            rows,
        )

        def call() -> np.ndarray:
            function(*arguments)
            return job.dst

        return call

    return [Contestant("mkl", metadata.version("mkl"), into)]


def _hptt(path: Path | None) -> list[Contestant]:
    """sTensorTranspose and dTensorTranspose of an HPTT library; a call makes its plan, too."""
    if path is None:
        raise ImportError("no path to its shared library was given")
    library = ctypes.CDLL(str(path))
    kinds: dict[str, tuple[str, Any]] = {
        "float32": ("sTensorTranspose", ctypes.c_float),
        "float64": ("dTensorTranspose", ctypes.c_double),
    }

    def into(job: Job) -> Call:
        if job.case.dtype not in kinds:
            raise Unable(f"no function for {job.case.dtype}")
        name, scalar = kinds[job.case.dtype]
        function = getattr(library, name)
        ndim = len(job.case.shape)
        ints, pointer = ctypes.c_int * ndim, ctypes.c_void_p
        function.argtypes = [
            ints, ctypes.c_int, scalar, pointer, ints, pointer,
            scalar, pointer, pointer, ctypes.c_int, ctypes.c_int,
        ]  # fmt: skip
        function.restype = None
        row_major = 1
        arguments = (
            ints(*job.case.perm), ndim, 1.0, job.src.ctypes.data, ints(*job.case.shape), None,
            0.0, job.dst.ctypes.data, None, job.num_threads, row_major,
        )  # fmt: skip

        def call() -> np.ndarray:
            function(*arguments)
            return job.dst

        return call

    return [Contestant("hptt", path.name, into)]


def _installed_file(package: str, stem: str) -> Path:
    """The shared library `stem` that came with an installed package."""
    for file in metadata.files(package) or ():
        if file.name.startswith(stem) and ".so" in file.name:
            return Path(str(file.locate()))
    raise ImportError(f"{package} has no {stem}")
