"""A machine with an NPU that is not there: fake hardware, its pyxrt, and a cache of programs."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from aie_design.combined_transpose import kernel_symbol
from hptp._core import Problem
from hptp.npu import runtime
from hptp.npu.artifacts import Artifact, Cache, Design
from hptp.npu.slabs import plan_slabs
from tests.device.fake_pyxrt import Hardware, put_program


class Machine:
    """The fake hardware, its pyxrt and the cache that holds its programs."""

    def __init__(self, hardware: Hardware, pyxrt: ModuleType, cache: Cache) -> None:
        self.hardware, self.pyxrt, self.cache = hardware, pyxrt, cache

    def provide_for(self, x: np.ndarray[Any, Any], perm: Sequence[int]) -> Artifact:
        """Put the best program for a permutation into the cache, as `hptp build` would have."""
        return put_program(self.cache, self.best_design(x, perm))

    def best_design(self, x: np.ndarray[Any, Any], perm: Sequence[int]) -> Design:
        """What a build for a permutation would compile."""
        problem = Problem(x.dtype.itemsize, x.shape, perm, x.strides)
        slabs = plan_slabs(problem, runtime.npu().model.device)
        return Design.of(slabs.transpose, kernel_symbol(slabs.transpose, slabs.kernel))
