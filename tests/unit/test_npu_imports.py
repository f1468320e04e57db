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
from hptp.devices.npu import DEVICE
from hptp.npu.slabs import plan_slabs
info = DEVICE.info()
assert not info.available and "pyxrt" in info.reason, info
from hptp._core import Problem
assert plan_slabs(Problem(4, (64, 32), (1, 0)), "npu").npu_bytes == 8192
"""


def test_the_npu_device_needs_nothing_to_say_that_it_is_not_there() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, cwd=ROOT, timeout=120)
