"""Finding pyxrt, the Python module of AMD's run time XRT.

pyxrt is compiled for one Python version and installed outside the virtual environment, so "not
found" is the usual first experience. This file turns it into a sentence: which files are there,
which Python each is for, and what to do.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hptp.errors import DeviceError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ABI = f"cp{sys.version_info.major}{sys.version_info.minor}"
ROOT = Path("/")
DISTRIBUTION = Path("usr/lib/python3/dist-packages")  # where Debian and Ubuntu put modules


@dataclass(frozen=True)
class Binding:
    """A pyxrt on disk; `abi` is the Python it is for (cp312), empty where its name does not
    tell."""

    path: Path
    abi: str

    def __str__(self) -> str:
        return f"{self.path} for {self.abi or 'an unnamed Python'}"


def xrt_folder(root: Path, environment: Mapping[str, str]) -> Path:
    """Where XRT is installed: XILINX_XRT, or the place its packages use."""
    chosen = environment.get("XILINX_XRT")
    return Path(chosen) if chosen else root / "opt/xilinx/xrt"


def bindings(
    root: Path = ROOT,
    environment: Mapping[str, str] = os.environ,
    packages: Sequence[str] = tuple(sys.path),
) -> list[Binding]:
    """Every pyxrt on the module path and in the folders that XRT's packages install to."""
    folders = [Path(p) for p in packages if p]
    folders.append(xrt_folder(root, environment) / "python")
    folders.append(root / DISTRIBUTION)
    found: dict[Path, None] = {}
    for folder in folders:
        found.update(dict.fromkeys(sorted(folder.glob("pyxrt*.so"))))
    return [Binding(path, _abi(path.name)) for path in found]


def _abi(name: str) -> str:
    tag = re.search(r"\.cpython-(\d+)", name)
    return f"cp{tag[1]}" if tag else ""


def why_not(found: Sequence[Binding]) -> str:
    """Why `import pyxrt` fails although these files are there, with the fix."""
    fitting = next((b.path for b in found if b.abi in (ABI, "")), None)
    if fitting:
        fix = f"run `source {fitting.parent.parent / 'setup.sh'}` first"
        if fitting.parent.name == DISTRIBUTION.name:
            fix = "make the virtual environment with --system-site-packages"
        return f"pyxrt is not importable for Python {PYTHON} although {fitting} is there: {fix}"
    if found:
        listed = ", ".join(map(str, found))
        return f"pyxrt is not importable for Python {PYTHON} (found {listed}): use that Python"
    return f"pyxrt is not importable for Python {PYTHON} (none found): install XRT"


def load() -> ModuleType:
    """Import pyxrt.

    Raises:
        DeviceError: it is missing, for another Python, or does not load; the message says which.
    """
    try:
        return importlib.import_module("pyxrt")
    except ModuleNotFoundError:
        raise DeviceError(f"npu: {why_not(bindings())}") from None
    except ImportError as error:
        raise DeviceError(f"npu: pyxrt does not load: {error}") from error
