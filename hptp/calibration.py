"""What this machine was measured to do, so that devices can be compared before anything runs.

A CPU is described by how fast it transposes elements of several sizes: what matters is how many
bytes stay together. An NPU is described by the costs around its slabs (`hptp.npu.cost.Rates`).
Until `calibrate` has run, both are typical figures.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hptp import _core
from hptp.errors import DeviceError

if TYPE_CHECKING:
    from hptp._core import Problem
    from hptp.npu.cost import Rates

# By the bytes that stay together: one way, on a desktop of two memory channels.
TYPICAL_CPU = {1: 2e9, 2: 3e9, 4: 5e9, 8: 6e9, 16: 6e9, 64: 7e9, 256: 9e9}
CALL_SECONDS = 2e-6

MEASURED_BYTES = 32 << 20
REPEATS = 3


@dataclass(frozen=True)
class Calibration:
    """The rates that predictions are made of.

    cpu_bytes_per_second   one way, by the number of bytes that stay together
    npu                    costs around an NPU's slabs; None where none has been measured
    measured               whether `calibrate` has run on this machine
    """

    cpu_bytes_per_second: Mapping[int, float]
    npu: Rates | None = None
    measured: bool = False

    def cpu_seconds(self, problem: Problem) -> float:
        """How long the CPU will take, with as many threads as pay."""
        together_bytes = problem.elem_bytes
        last_strides = {*problem.src_strides_bytes[-1:], *problem.dst_strides_bytes[-1:]}
        if last_strides == {problem.elem_bytes}:  # whole rows move
            together_bytes *= problem.shape[-1]
        width = max(w for w in self.cpu_bytes_per_second if w <= max(together_bytes, 1))
        return CALL_SECONDS + problem.nbytes / self.cpu_bytes_per_second[width]

    def __str__(self) -> str:
        lines = ["measured here" if self.measured else "typical figures, not measured here"]
        for width, rate in self.cpu_bytes_per_second.items():
            lines.append(f"cpu  {width:3} bytes together  {rate / 1e9:6.2f} GB/s")
        if self.npu is None:
            lines.append("npu  not measured")
        else:
            dispatch, copy = self.npu.dispatch_seconds, self.npu.copy_bytes_per_second
            lines.append(f"npu  dispatch {dispatch * 1e6:.0f} µs, copies {copy / 1e9:.2f} GB/s")
        return "\n".join(lines)


def calibrate() -> Calibration:
    """Measure how fast this machine's CPU and NPU permute, and remember it for `device="auto"`.

    Takes a few seconds. The result is stored in the folder HPTP_CACHE_DIR, or the user's cache.

    Raises:
        OSError: the result cannot be stored.
    """
    found = Calibration(
        {width: _measure_cpu(width) for width in TYPICAL_CPU}, _measure_npu(), measured=True
    )
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(dataclasses.asdict(found), indent=2))
    os.replace(aside, path)
    current.cache_clear()
    return found


@cache
def current() -> Calibration:
    """What was measured on this machine, else typical figures."""
    try:
        stored = json.loads(_path().read_text())
        rates = {int(width): float(rate) for width, rate in stored["cpu_bytes_per_second"].items()}
        npu = None
        if stored["npu"] is not None:
            from hptp.npu.cost import Rates

            npu = Rates(**stored["npu"])
        return Calibration({**TYPICAL_CPU, **rates}, npu, measured=True)
    except (OSError, ValueError, TypeError, KeyError):
        return Calibration(TYPICAL_CPU)


def _path() -> Path:
    from hptp.npu.artifacts import cache_dir

    return cache_dir() / "calibration.json"


def _measure_cpu(elem_bytes: int) -> float:
    """Bytes a second, one way, of transposing a square of elements of this size."""
    side = int((MEASURED_BYTES / elem_bytes) ** 0.5)
    plan = _core.Plan(_core.Problem(elem_bytes, (side, side), (1, 0)))
    source, target = (ctypes.create_string_buffer(plan.problem.nbytes) for _ in range(2))
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        plan.execute(ctypes.addressof(source), ctypes.addressof(target))
        seconds.append(time.perf_counter() - start)
    return plan.problem.nbytes / min(seconds[1:])  # the first one met cold memory


def _measure_npu() -> Rates | None:
    from hptp.devices.npu import DEVICE

    try:
        return DEVICE.measure()
    except DeviceError:
        return None
