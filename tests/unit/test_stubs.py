"""The stub of the compiled core says what the core is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

# Differences that no stub can say: pybind11's classes have a metaclass of their own.
ALLOWED = ["hptp._core.Plan", "hptp._core.Problem"]


def test_stub_agrees_with_the_extension(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    allowlist = tmp_path / "allowed"
    allowlist.write_text("\n".join(ALLOWED))
    command = [sys.executable, "-m", "mypy.stubtest", "hptp._core", "--allowlist", str(allowlist)]
    environment = {**os.environ, "MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
