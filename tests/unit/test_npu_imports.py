"""What hptp may not need: NumPy to say which devices there are, XRT or mlir-aie to import it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

WITHOUT = """
import sys
for name in ("numpy", "torch", "aie", "pyxrt"):
    sys.modules[name] = None
"""

DEVICES = """
import hptp
found = {info.name: info for info in hptp.devices()}
assert found["cpu"].available
assert not found["npu"].available and "pyxrt" in found["npu"].reason, found
assert not found["sim"].available and "NumPy" in found["sim"].reason, found
from hptp._core import Problem
from hptp.npu.slabs import plan_slabs
assert plan_slabs(Problem(4, (64, 32), (1, 0)), "npu").npu_bytes == 8192
"""

ASKING = """
from hptp.cli import main
assert main(["doctor"]) == 1
assert main(["build", "--model", "npu"]) == 1
"""


def test_saying_which_devices_there_are_needs_nothing_but_python() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT + DEVICES], check=True, cwd=ROOT, timeout=120)


def test_saying_what_is_missing_needs_nothing_but_python(tmp_path: Path) -> None:
    """The first thing that a new user may ask, before anything is set up."""
    environment = {"HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + ASKING],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "pyxrt" in done.stdout
    assert "hptp: " in done.stderr
