"""Every kind of array comes in without a copy and leaves as the kind it was."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hptp as hp
from hptp import arrays
from tests.reference import assert_same_bits, permuted, random_array

NUMPY_DTYPES = [
    "bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "longdouble",
    "complex64", "complex128", ">i4", "<f8", "M8[ns]", "m8[D]", "S3", "S17", "U2", "V5", "V24",
    "(2,3)i2",
    [("a", "i1"), ("b", "f8"), ("c", "S3")],
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
]  # fmt: skip


@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=str)
@pytest.mark.parametrize("num_threads", [None, 2], ids=["fast", "general"])
def test_numpy_dtypes(dtype: Any, num_threads: int | None) -> None:
    x = random_array((3, 4, 5), np.dtype(dtype).base)
    result = hp.permute(x, (2, 0, 1), num_threads=num_threads)
    assert type(result) is np.ndarray
    assert_same_bits(result, permuted(x, (2, 0, 1)))


@pytest.mark.parametrize("dtype", ["S0", "U0", "V0"])
def test_elements_of_no_bytes(dtype: str) -> None:
    x = np.ndarray((2, 3), dtype)
    assert x.itemsize == 0
    result = hp.permute(x, (1, 0))
    assert (result.shape, result.dtype) == ((3, 2), x.dtype)


def test_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"):
        x = random_array((3, 4, 5), getattr(ml_dtypes, name))
        assert_same_bits(hp.permute(x, (2, 0, 1)), permuted(x, (2, 0, 1)))


def test_numpy_subclasses_and_scalars() -> None:
    matrix = random_array((2, 3), "f4").view(type("Subclass", (np.ndarray,), {}))
    result = hp.permute(matrix, (1, 0))
    assert type(result) is np.ndarray
    assert_same_bits(result, permuted(np.asarray(matrix), (1, 0)))
    assert hp.permute(np.float32(2.5), ()) == np.float32(2.5)


def test_memmap(tmp_path: Any) -> None:
    path = tmp_path / "x.npy"
    np.save(path, random_array((30, 40), "f8"))
    mapped = np.load(path, mmap_mode="r")
    result = hp.permute(mapped, (1, 0))
    assert type(result) is np.ndarray
    assert_same_bits(result, permuted(np.asarray(mapped), (1, 0)))


# --- PyTorch ------------------------------------------------------------------------------------


def torch_dtypes(torch: ModuleType) -> list[Any]:
    """Every dtype this PyTorch can make a plain strided tensor of."""
    found = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return sorted((d for d in found if not str(d).startswith("torch.q")), key=str)


def torch_bytes(torch: ModuleType, x: Any) -> Any:
    """A torch tensor's elements as NumPy void elements: what has to be equal."""
    contiguous = x.detach().resolve_conj().resolve_neg().contiguous()
    flat = contiguous.reshape(-1).view(torch.uint8).numpy()
    return flat.view(f"V{x.element_size()}").reshape(tuple(x.shape))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_torch_dtypes(torch: ModuleType) -> None:
    tried = []
    for dtype in torch_dtypes(torch):
        elem_bytes = torch.empty((), dtype=dtype).element_size()
        data = torch.from_numpy(random_array((60 * elem_bytes,), np.uint8))
        x = data.view(dtype).reshape(3, 4, 5)
        result = hp.permute(x, (2, 0, 1))
        assert type(result) is torch.Tensor
        assert result.dtype == dtype
        assert result.is_contiguous()
        expected = permuted(data.numpy().view(f"V{elem_bytes}").reshape(3, 4, 5), (2, 0, 1))
        assert_same_bits(torch_bytes(torch, result), expected)
        tried.append(str(dtype))
    assert {"torch.bfloat16", "torch.float8_e4m3fn", "torch.bool", "torch.complex64"} < set(tried)


def test_torch_views(torch: ModuleType) -> None:
    x = torch.arange(4 * 6 * 10, dtype=torch.int32).reshape(4, 6, 10)
    for view in (
        x.permute(1, 2, 0),
        x[::2, 1:, ::3],
        x[:1].expand(4, 6, 10),
        x.as_strided((8, 4, 3), (10, 1, 1)),
    ):
        result = hp.permute(view, (2, 0, 1))
        assert torch.equal(result, view.permute(2, 0, 1))
        assert result.is_contiguous()
    assert hp.contiguous(x) is x
    assert torch.equal(hp.contiguous(x.mT), x.mT)
    assert hp.permute(torch.tensor(3), ()).item() == 3
    assert hp.permute(torch.zeros(0, 3), (1, 0)).shape == (3, 0)


def test_torch_out(torch: ModuleType) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    out = torch.zeros(3, 2)
    assert hp.permute(x, (1, 0), out=out) is out
    assert torch.equal(out, x.mT)


def test_torch_conjugate_and_negative_bits(torch: ModuleType) -> None:
    x = torch.complex(torch.arange(6.0), -torch.arange(6.0)).reshape(2, 3)
    for lazy in (x.conj(), x.conj().imag, x.mT.conj().mT):
        assert lazy.is_conj() or lazy.is_neg()
        result = hp.permute(lazy, (1, 0))
        assert not result.is_conj()
        assert not result.is_neg()
        assert torch.equal(result, lazy.mT)


def test_torch_autograd(torch: ModuleType) -> None:
    x = torch.arange(6.0, requires_grad=True).reshape(2, 3) * 2
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    for tensor in (x, parameter):
        result = hp.permute(tensor, (1, 0))
        assert type(result) is torch.Tensor
        assert not result.requires_grad
        assert result.grad_fn is None
        assert torch.equal(result, tensor.detach().mT)
    with torch.inference_mode():
        assert torch.equal(hp.permute(torch.ones(2, 3), (1, 0)), torch.ones(3, 2))


def test_autograd_notices_a_written_out(torch: ModuleType) -> None:
    """What autograd saved for the backward pass and we overwrote must not be used silently."""
    weight = torch.ones(3, 2, requires_grad=True)
    saved = torch.ones(3, 2)
    product = weight * saved
    hp.permute(torch.zeros(2, 3), (1, 0), out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_torch_default_device_is_not_followed(torch: ModuleType) -> None:
    x = torch.ones(2, 3)
    with torch.device("meta"):
        assert torch.equal(hp.permute(x, (1, 0)), x.mT)


# --- other libraries ----------------------------------------------------------------------------


class DLPackOnly:
    """A producer of nothing but DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnAnotherDevice(DLPackOnly):
    def __dlpack_device__(self) -> Any:
        return (2, 0)


class ArrayOnly:
    """An object that only knows how to become a NumPy array."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


def test_dlpack_in_and_out() -> None:
    x = random_array((3, 4, 5), "f4")
    for view in (x, x[::-1, :, ::-1], x.T):
        result = hp.permute(DLPackOnly(view), (2, 0, 1))
        assert type(result) is np.ndarray
        assert_same_bits(result, permuted(view, (2, 0, 1)))
        assert_same_bits(np.from_dlpack(result), result)
    out = np.zeros((5, 3, 4), "f4")
    producer = DLPackOnly(out)
    assert hp.permute(DLPackOnly(x), (2, 0, 1), out=producer) is producer
    assert_same_bits(out, permuted(x, (2, 0, 1)))


def test_dlpack_read_only_flag_is_respected() -> None:
    x = random_array((3, 4), "f4")
    x.flags.writeable = False
    assert_same_bits(hp.permute(DLPackOnly(x), (1, 0)), permuted(x, (1, 0)))
    out = np.zeros((4, 3), "f4")
    out.flags.writeable = False
    with pytest.raises(hp.OutputError, match="read-only"):
        hp.permute(DLPackOnly(x), (1, 0), out=DLPackOnly(out))


def test_dlpack_on_another_device_is_refused() -> None:
    with pytest.raises(hp.UnsupportedArrayError, match=r"\(2, 0\)"):
        hp.permute(OnAnotherDevice(np.zeros((2, 2))), (1, 0))


def test_numpy_and_torch_exchange(torch: ModuleType) -> None:
    x = random_array((3, 4), "f4")
    assert torch.equal(torch.from_dlpack(hp.permute(x, (1, 0))), torch.from_numpy(x.T.copy()))
    assert_same_bits(np.from_dlpack(hp.permute(torch.from_numpy(x), (1, 0))), permuted(x, (1, 0)))


def test_buffers() -> None:
    x = random_array((3, 4), "i2")
    result = hp.permute(memoryview(x), (1, 0))
    assert type(result) is memoryview
    assert (result.format, result.shape) == ("h", (4, 3))
    assert_same_bits(np.asarray(result), permuted(x, (1, 0)))
    assert bytes(hp.permute(b"abc", (0,))) == b"abc"
    out = bytearray(3)
    assert hp.permute(b"abc", (0,), out=out) is out
    assert out == b"abc"
    with pytest.raises(hp.OutputError, match="read-only"):
        hp.permute(b"abc", (0,), out=b"xyz")


def test_array_protocol() -> None:
    x = random_array((3, 4), "f8")
    assert_same_bits(hp.permute(ArrayOnly(x), (1, 0)), permuted(x, (1, 0)))
    with pytest.raises(hp.OutputError, match="read-only"):
        hp.permute(ArrayOnly(x), (1, 0), out=ArrayOnly(np.zeros((4, 3))))


def test_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    for dtype in ("float32", "bfloat16", "int8", "bool", "complex64"):
        x = jax.numpy.arange(12).reshape(3, 4).astype(dtype)
        result = hp.permute(x, (1, 0))
        assert isinstance(result, jax.Array)
        assert result.dtype == x.dtype
        assert bool((result == x.T).all())
        with pytest.raises(hp.OutputError, match="read-only"):
            hp.permute(x, (1, 0), out=x.T)


# --- what is imported ---------------------------------------------------------------------------

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_without(blocked: set[str], code: str) -> None:
    program = BLOCK.format(blocked=blocked) + code
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_permutes_torch_without_numpy(torch: ModuleType) -> None:
    run_without(
        {"numpy"},
        """
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch regrets that NumPy is missing
    import torch
import hptp as hp
from hptp import arrays
x = torch.arange(24).reshape(2, 3, 4)
assert torch.equal(hp.permute(x, (2, 0, 1)), x.permute(2, 0, 1))
assert torch.equal(hp.contiguous(x.mT), x.mT)
large = torch.arange(1 << 20).reshape(1024, 1024)  # large enough to look for an NPU
assert torch.equal(hp.permute(large, (1, 0)), large.mT)
assert torch.equal(hp.permute(x, (2, 0, 1), dtype=torch.float32), x.permute(2, 0, 1).float())
assert "numpy" not in sys.modules
""",
    )


def test_import_brings_in_no_library() -> None:
    run_without(
        set(),
        """
import hptp
imported = {"numpy", "torch", "jax", "matplotlib"} & set(sys.modules)
assert not imported, imported
""",
    )


def test_devices_without_numpy() -> None:
    run_without(
        {"numpy"},
        """
import hptp
cpu, npu, sim = hptp.devices()
assert cpu.available and not npu.available and not sim.available
assert "numpy" in sim.reason, sim.reason
""",
    )


def test_numpy_arrays_do_not_import_torch() -> None:
    run_without(
        {"torch"},
        """
import numpy as np, hptp as hp
hp.permute(np.zeros((2, 3)), (1, 0), num_threads=1)
hp.permute(memoryview(b"abc"), (0,))
""",
    )


def test_a_large_result_begins_with_a_cache_line() -> None:
    x = np.arange(600 * 1000, dtype=np.float32).reshape(600, 1000)
    for _ in range(3):
        y = hp.permute(x, (1, 0))
        assert y.flags.c_contiguous
        assert y.flags.writeable
        assert np.array_equal(y, x.T)
        assert arrays.empty_ndarray((1 << 20,), np.float64).ctypes.data % 64 == 0


def _advised(address: int) -> bool:
    """Whether the mapping at an address has asked for huge pages: VmFlags has "hg"."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if bounds:
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise AssertionError(f"no mapping at {address:#x}")


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="this system has no transparent huge pages",
)
def test_a_large_torch_result_asks_for_huge_pages() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(8 << 20, dtype=torch.int32).reshape(2048, 4096)
    y = hp.permute(x, (1, 0))
    assert torch.equal(y, x.T)
    assert _advised(y.data_ptr() + y.nbytes // 2)
