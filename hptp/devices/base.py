"""What a device is: something that plans a canonical problem and then moves its bytes.

A device lives in `hptp/devices/<name>.py` as the module attribute `DEVICE`. Planning looks at no
data and raises when the device cannot do the problem; executing takes the raw addresses of element
0 of source and destination, the memory behind them being exactly what the problem's strides
describe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hptp._core import Problem


@dataclass(frozen=True)
class DeviceInfo:
    """A device by name, whether it can be used here, and why or why not in one sentence."""

    name: str
    available: bool
    reason: str


class DevicePlan(Protocol):
    """How one device will solve one problem. Immutable; may be executed from many threads."""

    @property
    def problem(self) -> Problem: ...

    @property
    def kernel(self) -> str: ...

    @property
    def isa(self) -> str: ...

    def describe(self) -> str:
        """The plan in words, one fact a line."""
        ...

    def execute(self, src_ptr: int, dst_ptr: int) -> None:
        """Move the data. The pointers are the addresses of element (0, …, 0)."""
        ...


class Device(Protocol):
    """A place where permutations run."""

    @property
    def name(self) -> str: ...

    def info(self) -> DeviceInfo: ...

    def plan(self, problem: Problem, num_threads: int) -> DevicePlan:
        """Plan `problem`; `num_threads` bounds the CPU threads used, 0 meaning automatic.

        Raises:
            DeviceError: the device is not there or has failed.
            PlanError: the device cannot solve this problem; the message says which limit it breaks.
        """
        ...
