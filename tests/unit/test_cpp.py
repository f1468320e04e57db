"""The C++ core's own tests: configured, built and run as a C++ user would."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CORE = Path(__file__).parents[2] / "cpu_core"
BUILD = CORE.parent / "build" / "core-tests"  # kept, so that the next run builds what changed


def tool(name: str) -> str:
    """CMake's tools: from this environment, else the machine's."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is not installed; pip install hptp[test] brings it"
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


def test_cpp() -> None:
    run(
        tool("cmake"), "-S", str(CORE), "-B", str(BUILD), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
    )  # fmt: skip
    run(tool("cmake"), "--build", str(BUILD))
    run(tool("ctest"), "--test-dir", str(BUILD), "--output-on-failure")
