"""What a number depends on besides the code: processor, caches, huge pages, CPUs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CPUS = Path("/sys/devices/system/cpu")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def describe() -> dict[str, Any]:
    """This machine, as it is recorded with every result."""
    from hptp import __version__, _core

    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "usable_cpus": _core.usable_cpus(),
        "caches": caches(),
        "isas": list(_core.isas()),
        "transparent_huge_pages": _chosen(_read(_HUGE_PAGES)),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.version.split()[0],
        "hptp": __version__,
    }


def cpu_model() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def caches() -> dict[str, str]:
    """Sizes of the caches of one CPU, as the kernel spells them: {"L1d": "32K", "L2": "512K"}."""
    sizes = {}
    for folder in sorted((_CPUS / "cpu0/cache").glob("index*")):
        kind = _read(folder / "type").strip()
        if kind != "Instruction":
            level = _read(folder / "level").strip()
            sizes[f"L{level}{'d' if kind == 'Data' else ''}"] = _read(folder / "size").strip()
    return sizes


def pick_cpus(count: int) -> list[int]:
    """The CPUs to pin `count` threads to: one of every core before the second of any.

    Empty where the system does not let a program choose.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    usable = sorted(os.sched_getaffinity(0))
    cores: dict[str, list[int]] = {}
    for cpu in usable:
        siblings = _read(_CPUS / f"cpu{cpu}/topology/thread_siblings_list").strip() or str(cpu)
        cores.setdefault(siblings, []).append(cpu)
    by_turn = sorted(usable, key=lambda cpu: max(c.index(cpu) for c in cores.values() if cpu in c))
    return by_turn[:count]


@contextmanager
def pinned(cpus: list[int]) -> Iterator[None]:
    """Let this thread, and the processes it starts meanwhile, run on these CPUs only."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def huge_page_share(address: int, nbytes: int) -> float | None:
    """How much of the mapping that holds this memory is in huge pages; None where nobody says."""
    inside, size_kib = False, 0
    for line in _read(Path("/proc/self/smaps")).splitlines():
        key, _, value = line.partition(" ")
        if "-" in key and not key.endswith(":"):
            start, end = (int(edge, 16) for edge in key.split("-"))
            inside = start <= address and address + nbytes <= end
        elif inside and key == "Size:":
            size_kib = int(value.split()[0])
        elif inside and key == "AnonHugePages:":
            return round(int(value.split()[0]) / size_kib, 3)
    return None


def _chosen(options: str) -> str:
    """`madvise` of "always [madvise] never"."""
    return options.partition("[")[2].partition("]")[0] or "unknown"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
