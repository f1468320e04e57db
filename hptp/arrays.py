"""Arrays of any library as what the core moves: an address, a shape, byte strides, an element size.

A library is met here and nowhere else. NumPy and PyTorch arrays are read directly; everything else
(JAX, CuPy on the host, memoryview, array.array, …) comes in through DLPack, the buffer protocol or
`__array__` as a NumPy view of the same memory. No library is imported unless the caller did, except
NumPy for the last group.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hptp import _core
from hptp.errors import OutputError, UnsupportedArrayError

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]

# DLPack's numbers for memory the CPU can read: CPU, and what CUDA or ROCm pin or manage for it.
_DLPACK_HOST_DEVICES = (1, 3, 11, 13)


_LINE_BYTES = 64
_LARGE_BYTES = 1 << 20


def empty_ndarray(shape: Shape, dtype: Any) -> np.ndarray:
    """A new C-contiguous NumPy array; a large one begins with a cache line.

    NumPy's own begin 16 bytes behind one, and every line that two columns share has to be read
    before it is written.

    >>> empty_ndarray((2, 1 << 20), "float32").ctypes.data % 64
    0
    """
    import numpy as np

    array: np.ndarray
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if num_bytes < _LARGE_BYTES:
        array = np.ndarray(shape, dtype)  # np.empty would widen strings of no characters
    else:
        memory = np.empty(num_bytes + _LINE_BYTES, np.uint8)
        array = np.ndarray(shape, dtype, memory, -memory.ctypes.data % _LINE_BYTES)
    return array


_HUGE_BYTES = 4 << 20
_MADV_HUGEPAGE = 14


def _advise_huge_pages(address: int, num_bytes: int) -> None:
    """Ask Linux for huge pages where new memory has whole pages, as NumPy does for its own arrays.

    Most of the time of a permutation into new memory goes into the faults of its small pages.
    """
    if sys.platform != "linux":
        return
    page = mmap.PAGESIZE
    begin = -(-address // page) * page
    end = (address + num_bytes) // page * page
    madvise = ctypes.CDLL(None).madvise
    madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_HUGEPAGE)


class Library(Protocol):
    """Where arrays come from and results go."""

    def empty(self, shape: Shape, dtype: Any) -> Any:
        """A new C-contiguous array whose memory may be written through `view`."""
        ...

    def dtype(self, spelling: Any) -> Any:
        """The element type a caller means by `spelling`.

        Raises:
            UnsupportedArrayError: there is none in this library.
        """
        ...

    def dtype_name(self, dtype: Any) -> str:
        """The name of an element type, the same in all libraries."""
        ...

    def finish(self, array: Any) -> Any:
        """Turn a filled array from `empty` into the kind of array the caller gave."""
        ...

    def written(self, array: Any) -> None:
        """Note that the caller's own array was written behind its library's back."""
        ...


class View(NamedTuple):
    """Elements in CPU memory. `array` keeps the memory alive."""

    array: Any
    address: int  # of element (0, …, 0)
    shape: Shape
    strides_bytes: Shape
    elem_bytes: int
    dtype: Any
    unwritable_because: str  # empty where writing is fine
    library: Library

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        expected_bytes = self.elem_bytes
        for size, stride_bytes in zip(reversed(self.shape), reversed(self.strides_bytes)):
            if size == 0:
                return True
            if size > 1 and stride_bytes != expected_bytes:
                return False
            expected_bytes *= size
        return True


def view(x: Any, role: str = "x") -> View:
    """View `x` without copying (a lazily conjugated or negated tensor is resolved first).

    Args:
        x: an array in CPU memory.
        role: what error messages call it.

    Raises:
        UnsupportedArrayError: `x` is not an array of self-contained elements in CPU memory.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic)):
        return _NUMPY.view(x, role)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _TORCH.view(x, role)
    return _view_foreign(x, role)


def view_output(out: Any, source: View, shape: Shape, dtype: Any) -> View:
    """View `out` for writing the elements of `source`, rearranged to `shape`, as `dtype`.

    Raises:
        OutputError: `out` cannot hold the result.
        UnsupportedArrayError: `out` is not an array in CPU memory.
    """
    target = view(out, "out")
    if type(target.library) is not type(source.library):
        raise OutputError(f"out is a {_type_name(out)} but x is a {_type_name(source.array)}")
    if target.dtype != dtype:
        raise OutputError(f"out has dtype {target.dtype}, the result has dtype {dtype}")
    if target.shape != shape:
        raise OutputError(f"out has shape {target.shape}, the result has shape {shape}")
    if target.unwritable_because:
        raise OutputError(f"out cannot be written: {target.unwritable_because}")
    return target


def are_one(source: View, target: View) -> bool:
    """Whether both are the same elements in the same places."""
    places = (source.address, source.shape, source.strides_bytes, source.elem_bytes)
    return places == (target.address, target.shape, target.strides_bytes, target.elem_bytes)


def check_apart(source: View, target: View) -> None:
    """Raise OutputError if the target shares memory with the source."""
    if source.elem_bytes != target.elem_bytes:  # bytes are the elements they have in common
        source, target = _as_bytes(source), _as_bytes(target)
    if _core.overlaps(
        source.address,
        source.shape,
        source.strides_bytes,
        target.address,
        target.shape,
        target.strides_bytes,
        source.elem_bytes,
    ):
        raise OutputError(
            f"out shares memory with x: out starts at {target.address:#x}, x at "
            f"{source.address:#x}; permute into a separate array"
        )


def _as_bytes(view: View) -> View:
    shape, strides_bytes = (*view.shape, view.elem_bytes), (*view.strides_bytes, 1)
    return view._replace(shape=shape, strides_bytes=strides_bytes, elem_bytes=1)


def _type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")


class _NumPy:
    """NumPy arrays and scalars. Subclasses other than masked arrays are taken as plain arrays."""

    def view(self, x: Any, role: str) -> View:
        import numpy as np

        if type(x) is not np.ndarray:
            if isinstance(x, np.ma.MaskedArray):
                raise UnsupportedArrayError(
                    f"{role} is a masked array: its mask would be lost; "
                    f"permute {role}.data and {role}.mask separately"
                )
            x = np.asarray(x)
        if x.dtype.hasobject:
            raise UnsupportedArrayError(
                f"{role} has dtype {x.dtype}: its elements point to Python objects or strings "
                f"kept elsewhere, which cannot be moved as bytes"
            )
        return View(
            x,
            x.ctypes.data,
            x.shape,
            x.strides,
            x.itemsize,
            x.dtype,
            "" if x.flags.writeable else "it is read-only",
            self,
        )

    def empty(self, shape: Shape, dtype: Any) -> Any:
        return empty_ndarray(shape, dtype)

    def dtype(self, spelling: Any) -> Any:
        import numpy as np

        try:
            if spelling == "bfloat16":
                import ml_dtypes  # noqa: F401  (makes the name known to NumPy)
            return np.dtype(spelling)
        except (TypeError, ImportError) as error:
            raise UnsupportedArrayError(f"dtype {spelling!r} is no NumPy dtype: {error}") from None

    def dtype_name(self, dtype: Any) -> str:
        return str(dtype) if dtype.isnative else f"{dtype.name} of foreign byte order"

    def finish(self, array: Any) -> Any:
        return array

    def written(self, array: Any) -> None:
        pass


def _torch_address(x: Any, role: str) -> int:
    """The address of element (0, …, 0). Fake, functorch-wrapped and similar tensors have none."""
    import torch

    try:
        # A fake tensor claims to be on the CPU, and gives a wild address; its storage does not.
        if type(x) is torch.Tensor or x.untyped_storage().device.type == "cpu":
            return int(x.data_ptr())
    except RuntimeError as error:
        raise UnsupportedArrayError(f"{role} is a tensor without memory: {error}") from None
    raise UnsupportedArrayError(f"{role} is a tensor without memory: a {type(x).__name__}")


class _Torch:
    """PyTorch tensors. Autograd never sees the move: results carry no history."""

    def view(self, x: Any, role: str) -> View:
        import torch

        if x.is_nested:
            raise UnsupportedArrayError(f"{role} is a nested tensor: it has no single shape")
        if x.is_quantized:
            raise UnsupportedArrayError(
                f"{role} is a quantized tensor ({x.dtype}): its scale and zero point would be "
                f"lost; permute {role}.int_repr()"
            )
        if x.layout is not torch.strided:
            raise UnsupportedArrayError(
                f"{role} is a tensor of layout {x.layout}; only torch.strided can be permuted"
            )
        if x.device.type != "cpu":
            problem = "which has no data" if x.device.type == "meta" else "not in CPU memory"
            raise UnsupportedArrayError(f"{role} is on device '{x.device}', {problem}")
        unwritable_because = ""
        if x.requires_grad:
            unwritable_because = "it requires grad, and the result carries no history"
        elif x.is_conj() or x.is_neg():
            unwritable_because = "it is a lazily conjugated or negated view"
        if unwritable_because:  # each call costs as much as permuting a small tensor
            x = x.detach().resolve_conj().resolve_neg()
        address = _torch_address(x, role)
        elem_bytes = x.element_size()
        return View(
            x,
            address,
            tuple(x.shape),
            tuple(stride * elem_bytes for stride in x.stride()),
            elem_bytes,
            x.dtype,
            unwritable_because,
            self,
        )

    def empty(self, shape: Shape, dtype: Any) -> Any:
        import torch

        result = torch.empty(shape, dtype=dtype, device="cpu")
        if result.nbytes >= _HUGE_BYTES:
            _advise_huge_pages(result.data_ptr(), result.nbytes)
        return result

    def dtype(self, spelling: Any) -> Any:
        import torch

        found = getattr(torch, spelling, None) if isinstance(spelling, str) else spelling
        if not isinstance(found, torch.dtype):
            raise UnsupportedArrayError(f"dtype {spelling!r} is no PyTorch dtype")
        return found

    def dtype_name(self, dtype: Any) -> str:
        return str(dtype).removeprefix("torch.")

    def finish(self, array: Any) -> Any:
        return array

    def written(self, array: Any) -> None:
        import torch

        # Autograd must notice if it had saved this tensor for a backward pass.
        if not array.is_inference():
            torch.autograd.graph.increment_version(array)


class _Foreign(_NumPy):
    """Any other array, as a NumPy view; `wrap` makes the caller's kind from a NumPy array."""

    def __init__(self, wrap: Callable[[Any], Any]) -> None:
        self._wrap = wrap

    def finish(self, array: Any) -> Any:
        return self._wrap(array)


_NUMPY = _NumPy()
_TORCH = _Torch()


def _view_foreign(x: Any, role: str) -> View:
    if hasattr(x, "__dlpack__"):
        return _view_dlpack(x, role)
    try:
        buffer = memoryview(x)
    except TypeError:
        pass
    else:
        return _view_buffer(buffer, role)
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return _NUMPY.view(_read_only(x), role)
    raise UnsupportedArrayError(
        f"{role} is a {_type_name(x)}, not an array: it offers neither DLPack, the buffer "
        f"protocol nor __array__"
    )


def _view_dlpack(x: Any, role: str) -> View:
    import numpy as np

    device = x.__dlpack_device__()
    if device[0] not in _DLPACK_HOST_DEVICES:
        raise UnsupportedArrayError(
            f"{role} is a {_type_name(x)} on DLPack device {tuple(map(int, device))}, "
            f"not in CPU memory"
        )
    # The array API standard names the namespace that can make more arrays of this kind.
    wrap = x.__array_namespace__().asarray if hasattr(x, "__array_namespace__") else np.asarray
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # NumPy's DLPack knows no bfloat16 or float8; __array__ may (JAX gives ml_dtypes arrays).
        if not hasattr(x, "__array__"):
            raise UnsupportedArrayError(
                f"{role} is a {_type_name(x)} that NumPy cannot read: {error}"
            ) from None
        array = _read_only(x)
    return _Foreign(wrap).view(array, role)


def _view_buffer(buffer: memoryview, role: str) -> View:
    import numpy as np

    try:
        array = np.asarray(buffer)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise UnsupportedArrayError(
            f"{role} is a buffer of format {buffer.format!r} that NumPy cannot read: {error}"
        ) from None
    return _Foreign(memoryview).view(array, role)


def _read_only(x: Any) -> Any:
    """`x.__array__()`, never writable: it may be a copy, and what is written to a copy is lost."""
    import numpy as np

    array = np.asarray(x).view()
    array.flags.writeable = False
    return array
