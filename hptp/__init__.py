"""hptp: permute the axes of tensors at memory speed, on CPUs and AMD NPUs.

>>> import numpy as np, hptp as hp
>>> hp.permute(np.zeros((2, 3, 5)), (2, 0, 1)).shape
(5, 2, 3)
"""

from pkgutil import extend_path

# From a source tree with an installed wheel, Python finds this folder first; the compiled core is
# in the other one.
__path__ = extend_path(__path__, __name__)

from hptp._core import auto_threads
from hptp._core import version as __version__
from hptp.api import Plan, contiguous, explain, permute, plan
from hptp.calibration import Calibration, calibrate
from hptp.devices.base import DeviceInfo
from hptp.dispatch import devices
from hptp.errors import (
    DeviceError,
    HptpError,
    OutputError,
    PermutationError,
    PlanError,
    UnsupportedArrayError,
)

__all__ = [
    "Calibration",
    "DeviceError",
    "DeviceInfo",
    "HptpError",
    "OutputError",
    "PermutationError",
    "Plan",
    "PlanError",
    "UnsupportedArrayError",
    "__version__",
    "auto_threads",
    "calibrate",
    "contiguous",
    "devices",
    "explain",
    "permute",
    "plan",
]
