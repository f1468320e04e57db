"""How long a permutation will take on the NPU, before it runs.

    dispatch · runs  +  idle penalty  +  copies into and out of buffers  +  the slabs themselves

The slabs' own time is the plan's prediction, from clocks and channels. The other numbers start as
what people report (mlir-aie issues 2381, 2944, 3793) and are replaced by what `calibrate` measures
here.
"""

from __future__ import annotations

from dataclasses import dataclass

from hptp.npu.slabs import Slabs


@dataclass(frozen=True)
class Rates:
    """The costs around the slabs.

    dispatch_seconds       from the call to the device and back, for one run
    wake_seconds           extra for the first run after `idle_after_seconds` without one
    copy_bytes_per_second  loading or unloading a buffer on the CPU
    """

    dispatch_seconds: float = 100e-6
    wake_seconds: float = 0.130
    idle_after_seconds: float = 5.0
    copy_bytes_per_second: float = 10e9


DEFAULT_RATES = Rates()


def predicted_seconds(slabs: Slabs, rates: Rates, idle_seconds: float) -> float:
    """The predicted time of executing `slabs` on a device that has been idle for so long."""
    seconds = len(slabs.runs()) * rates.dispatch_seconds
    if idle_seconds > rates.idle_after_seconds:
        seconds += rates.wake_seconds
    seconds += 2 * slabs.npu_bytes / rates.copy_bytes_per_second
    return seconds + len(slabs.origins) * slabs.transpose.predicted_seconds()
