"""Compiled NPU programs on disk, found by what they were made from.

Two things go stale separately, so there are two keys. An *xclbin* knows a tile and nothing of a
shape: its key is the `Design` plus the sources, flags and tools that made it. An *instruction
stream* knows a shape: its key is the whole plan plus the sources of the assembler. A shape
therefore never needs a rebuild, and a change to a kernel, a header, a flag or a tool always causes
one.

    <cache>/npu/<design>-<key>/    design.xclbin, manifest.json, and the insts.bin of its first plan
    <cache>/instructions/<key>     little-endian 32-bit words

Several processes may share the folder: an entry is written aside and renamed into place whole, so a
reader sees all of it or nothing, and a lock keeps two processes from compiling the same design.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import aie_design

if TYPE_CHECKING:
    from aie_design.plan import TransposePlan

XCLBIN = "design.xclbin"
INSTRUCTIONS = "insts.bin"
MANIFEST = "manifest.json"

# Sources in aie_design that an xclbin, and an instruction stream, are made from. The kernels and
# their headers join the first; `host/` does not, because only the interpreter compiles it.
PROGRAM_SOURCES = ("plan.py", "combined_transpose.py", "frontend.py", "build.py")
ASSEMBLER_SOURCES = ("plan.py", "operations.py", "instructions.py")


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Where hptp keeps what it compiles: HPTP_CACHE_DIR, or `hptp` in the user's cache folder."""
    if chosen := environment.get("HPTP_CACHE_DIR"):
        return Path(chosen)
    base = environment.get("XDG_CACHE_HOME")
    return (
        Path(base) if base else Path(environment.get("HOME", "~")).expanduser() / ".cache"
    ) / "hptp"


@dataclass(frozen=True)
class Design:
    """What one xclbin is compiled for; m, n, s in elements, `kernel` the core function's symbol."""

    device: str
    elem_bytes: int
    m: int
    n: int
    s: int
    columns: int
    channels: int
    depth: int
    kernel: str

    @classmethod
    def of(cls, plan: TransposePlan, kernel: str) -> Design:
        """The design that runs `plan` with the core function `kernel`."""
        fixed = ("device", "elem_bytes", "m", "n", "s", "columns", "channels", "depth")
        return cls(**{name: getattr(plan, name) for name in fixed}, kernel=kernel)

    def __str__(self) -> str:
        return (
            f"{self.device}-{self.elem_bytes}B-m{self.m}-n{self.n}-s{self.s}"
            f"-c{self.columns}x{self.channels}-d{self.depth}-{self.kernel}"
        )


@dataclass(frozen=True)
class Artifact:
    """A design compiled and checked: an entry of the cache whose xclbin is whole."""

    design: Design
    folder: Path
    sources: str
    tools: str

    @property
    def xclbin(self) -> Path:
        return self.folder / XCLBIN

    @property
    def key(self) -> str:
        """Names the content; two artifacts with one key are the same program."""
        return self.folder.name


def digest(*parts: str | bytes) -> str:
    """A short name for a sequence of parts; where one ends and the next begins counts."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()[:16]


def _digest_files(files: list[Path]) -> str:
    return digest(*(part for file in files for part in (file.name, file.read_bytes())))


@cache
def program_sources() -> str:
    """The key part of everything of ours that an xclbin is made from."""
    design = Path(aie_design.__file__).parent
    kernels = design.parent / "aie_kernels"
    return _digest_files(
        [design / name for name in PROGRAM_SOURCES]
        + sorted(p for p in kernels.iterdir() if p.suffix in {".cc", ".h", ".hpp"})
    )


@cache
def assembler_sources() -> str:
    """The key part of everything of ours that an instruction stream is made from."""
    return _digest_files([Path(aie_design.__file__).parent / name for name in ASSEMBLER_SOURCES])


class Cache:
    """The programs under `root`, by default in `cache_dir()`.

    >>> Cache(Path("/nowhere")).entries()
    []
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = cache_dir() if root is None else root

    def entries(self, names: str = "[!.]*") -> list[Artifact]:
        """Every whole entry whose folder matches `names`; damaged ones are left out."""
        entries = map(_read_entry, sorted(self._programs.glob(names)))
        return [entry for entry in entries if entry is not None]

    def find(self, design: Design, tools: str | None = None) -> Artifact | None:
        """The program of `design` made from today's sources, or None.

        With `tools` (`Toolchain.fingerprint()`) it must come from those very tools. None says that
        there are no tools here to rebuild it with, and then whatever built it will do.
        """
        return next(iter(self.current(f"{design}-*", tools)), None)

    def current(self, names: str, tools: str | None = None) -> list[Artifact]:
        """The entries whose folder matches `names` and that are not stale, as for `find`."""
        return [
            entry
            for entry in self.entries(names)
            if entry.sources == program_sources() and tools in (None, entry.tools)
        ]

    def store(self, design: Design, tools: str, fill: Callable[[Path], None]) -> Artifact:
        """Have `fill` write the xclbin into an empty folder, then publish that folder whole."""
        sources = program_sources()
        final = self._programs / f"{design}-{digest(str(design), sources, tools)}"
        with self._aside(self._programs) as folder:
            fill(folder)
            manifest = {
                "design": asdict(design),
                "sources": sources,
                "tools": tools,
                "sha256": hashlib.sha256((folder / XCLBIN).read_bytes()).hexdigest(),
            }
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
            while True:
                try:
                    os.rename(folder, final)
                    break
                except OSError as error:
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
                    # A folder of that name is there: the same content, which a reader may be using,
                    # or a damaged one, which has to make way.
                    if _read_entry(final) is not None:
                        break
                    shutil.rmtree(final)
        return Artifact(design, final, sources, tools)

    def instructions(self, plan: str, assemble: Callable[[], bytes]) -> bytes:
        """The instruction words of the plan that `plan` spells out, kept or from `assemble`.

        Keeping them only saves time, so a folder that cannot be written is no error.
        """
        folder = self.root / "instructions"
        final = folder / digest(plan, assembler_sources())
        with contextlib.suppress(OSError):
            return final.read_bytes()
        words = assemble()
        with contextlib.suppress(OSError), self._aside(folder) as aside:
            (aside / INSTRUCTIONS).write_bytes(words)
            os.replace(aside / INSTRUCTIONS, final)
        return words

    @contextlib.contextmanager
    def lock(self, design: Design) -> Iterator[None]:
        """Wait until no other process is building `design`, and keep them from starting."""
        import fcntl  # only here, for only Linux builds

        self._programs.mkdir(parents=True, exist_ok=True)
        # The file stays: removing it would let two processes hold "the" lock on two files.
        with open(self._programs / f".{design}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @property
    def _programs(self) -> Path:
        return self.root / "npu"

    @contextlib.contextmanager
    def _aside(self, folder: Path) -> Iterator[Path]:
        """A scratch folder on the same file system, so that a rename out of it is atomic."""
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _read_entry(folder: Path) -> Artifact | None:
    """The entry in `folder`, or None if it is not whole: a full disk, a copy cut short."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        found = hashlib.sha256((folder / XCLBIN).read_bytes()).hexdigest()
        if found != manifest["sha256"]:
            return None
        return Artifact(
            Design(**manifest["design"]), folder, manifest["sources"], manifest["tools"]
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
