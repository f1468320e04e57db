from collections.abc import Sequence
from typing import Any, final

version: str

@final
class Problem:
    """A permutation in canonical form: a strided copy whose axes are in destination order.

    Args:
        elem_bytes: the size of an element.
        shape: the source's axes.
        perm: the source axis that becomes each destination axis.
        src_strides_bytes: per source axis; None means C-contiguous.
        dst_strides_bytes: per destination axis; None means C-contiguous.

    Raises:
        PermutationError: `perm` is not a permutation of the axes.
        OutputError: elements of the destination share memory.
        ValueError: a size is negative or too large, there are more than 64 axes.
    """

    def __init__(
        self,
        elem_bytes: int,
        shape: Sequence[int],
        perm: Any,
        src_strides_bytes: Sequence[int] | None = None,
        dst_strides_bytes: Sequence[int] | None = None,
    ) -> None: ...
    @property
    def elem_bytes(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def src_strides_bytes(self) -> tuple[int, ...]: ...
    @property
    def dst_strides_bytes(self) -> tuple[int, ...]: ...
    @property
    def src_shape(self) -> tuple[int, ...]: ...
    @property
    def perm(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Plan:
    """How the CPU will solve a problem. `num_threads` 0 is automatic."""

    def __init__(self, problem: Problem, num_threads: int = 0) -> None: ...
    @property
    def problem(self) -> Problem: ...
    @property
    def kernel(self) -> str: ...
    @property
    def isa(self) -> str: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def tile(self) -> tuple[int, int] | None:
        """Elements along the destination's last axis and along the source's; None without tiles."""
    def describe(self) -> str: ...
    def execute(self, src_ptr: int, dst_ptr: int) -> None: ...

def normalize_perm(perm: Any, ndim: int) -> tuple[int, ...]: ...
def permute(
    src_ptr: int,
    src_strides_bytes: Sequence[int] | None,
    dst_ptr: int,
    dst_strides_bytes: Sequence[int] | None,
    shape: Sequence[int],
    perm: Any,
    elem_bytes: int,
    num_threads: int = 0,
) -> None: ...
def permute_in_place(
    ptr: int,
    strides_bytes: Sequence[int] | None,
    shape: Sequence[int],
    perm: Any,
    elem_bytes: int,
    num_threads: int = 0,
) -> None:
    """Exchange two axes of equal size within the array's own memory.

    Raises:
        PermutationError: `perm` is not a permutation of the axes.
        OutputError: `perm` does something else, or the elements share memory.
    """

def permute_convert(
    src_ptr: int,
    src_strides_bytes: Sequence[int] | None,
    src_dtype: str,
    dst_ptr: int,
    dst_strides_bytes: Sequence[int] | None,
    dst_dtype: str,
    shape: Sequence[int],
    perm: Any,
    num_threads: int = 0,
    scale: Sequence[float] | None = None,
    shift: Sequence[float] | None = None,
    axis: int = -1,
) -> None:
    """Permute and convert numbers in one pass.

    The types are "int8" … "int64", "uint8" … "uint64", "float16", "bfloat16", "float32", "float64".
    With `scale` or `shift`, value · scale + shift in float32, then to the nearest of the target;
    each has one value (axis -1) or one per index of the source's `axis`.

    Raises:
        PermutationError: `perm` is not a permutation of the axes.
        OutputError: source and destination share memory, or elements of the destination do.
        ValueError: an unknown type, a wrong number of values, or scaling a 64-bit source.
    """

def permute_plain(x: Any, perm: Any, out: Any = None, /) -> Any: ...
def overlaps(
    ptr_a: int,
    shape_a: Sequence[int],
    strides_bytes_a: Sequence[int],
    ptr_b: int,
    shape_b: Sequence[int],
    strides_bytes_b: Sequence[int],
    elem_bytes: int,
) -> bool: ...
def nt_copy(src_ptr: int, dst_ptr: int, nbytes: int, num_threads: int) -> None: ...
def memcpy(src_ptr: int, dst_ptr: int, nbytes: int, num_threads: int) -> None: ...
def auto_threads(nbytes: int) -> int: ...
def usable_cpus() -> int: ...
def isa() -> str: ...
def isas() -> tuple[str, ...]: ...
def plan_cache_info() -> dict[str, int]: ...
