"""Every refusal: the right class, the offending values in the message, and nothing written."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hptp as hp
from hptp.errors import (
    DeviceError,
    HptpError,
    OutputError,
    PermutationError,
    PlanError,
    UnsupportedArrayError,
)
from tests.reference import random_array


def refused(error: type[HptpError], quoted: str, x: Any, perm: Any, **arguments: Any) -> None:
    """`hp.permute` must raise `error`, its message containing `quoted`, and leave `out` alone."""
    out = arguments.get("out")
    before = out.tobytes() if isinstance(out, np.ndarray) else b""
    with pytest.raises(error) as raised:
        hp.permute(x, perm, **arguments)
    assert type(raised.value) is error
    assert quoted in str(raised.value)
    assert not isinstance(out, np.ndarray) or out.tobytes() == before


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (PermutationError, ValueError),
        (OutputError, ValueError),
        (UnsupportedArrayError, TypeError),
        (DeviceError, RuntimeError),
        (PlanError, ValueError),
    ],
)
def test_errors_are_also_the_expected_built_in_ones(
    error: type[HptpError], builtin: type[Exception]
) -> None:
    assert issubclass(error, HptpError)
    assert issubclass(error, builtin)


X = random_array((2, 3, 4), np.float32)


@pytest.mark.parametrize(
    ("perm", "quoted"),
    [
        ((0, 0, 1), "(0, 0, 1)"),
        ((0, 1, -2), "(0, 1, -2)"),
        ((0, 1), "(0, 1)"),
        ((0, 1, 2, 3), "(0, 1, 2, 3)"),
        ((0, 1, 3), "3"),
        ((0, 1, -4), "-4"),
        ((0, 1, 2**70), str(2**70)),
        ((0, 1, 2.0), "2.0"),
        ((0, 1, True), "True"),
        ((np.bool_(False), 1, 2), "False"),
        ((0, 1, None), "None"),
        ("012", "012"),
        (None, "None"),
        (3, "3"),
        (np.array([0.0, 1.0, 2.0]), "0.0"),
        (np.array([[0, 1, 2]]), "array([[0, 1, 2]])"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("arguments", [{}, {"num_threads": 1}], ids=["fast", "general"])
def test_perm(perm: Any, quoted: str, arguments: dict[str, Any]) -> None:
    refused(PermutationError, quoted, X, perm, **arguments)


@pytest.mark.parametrize(
    ("out", "quoted"),
    [
        (np.zeros((2, 3, 4), np.float32), "(2, 3, 4)"),
        (np.zeros((4, 2, 3, 1), np.float32), "(4, 2, 3, 1)"),
        (np.zeros((4, 2, 3), np.int32), "int32"),
        (np.zeros((4, 2, 3), ">f4"), ">f4"),
        ([0.0] * 24, "list"),
        (7, "int"),
    ],
    ids=["shape", "rank", "dtype", "byte order", "a list", "a number"],
)
def test_out(out: Any, quoted: str) -> None:
    error = OutputError if isinstance(out, np.ndarray) else UnsupportedArrayError
    refused(error, quoted, X, (2, 0, 1), out=out)


def test_out_read_only() -> None:
    out = np.zeros((4, 2, 3), np.float32)
    out.flags.writeable = False
    refused(OutputError, "read-only", X, (2, 0, 1), out=out)


def test_out_whose_elements_share_memory() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (4, 2, 3), (4, 4, 4))
    refused(OutputError, "[4, 4, 4]", X, (2, 0, 1), out=out)


@pytest.mark.parametrize("perm", [(2, 0, 1), (1, 2, 0)])
def test_out_in_place_of_what_is_no_exchange_of_equal_axes(perm: tuple[int, ...]) -> None:
    x = random_array((3, 3, 3), np.float32)
    refused(OutputError, "two axes of equal size", x, perm, out=x)


def test_out_in_place_on_a_device_that_needs_two_arrays() -> None:
    x = random_array((32, 32), np.float32)
    refused(PlanError, "'sim'", x, (1, 0), out=x, device="sim")


@pytest.mark.parametrize("offset", [-8, -1, 0, 1, 8])  # 0: the same place, but another shape
def test_out_overlapping(offset: int) -> None:
    memory = random_array((64,), np.int16)
    x = memory[20:32].reshape(3, 4)
    out = memory[20 + offset : 32 + offset].reshape(4, 3)
    refused(OutputError, "shares memory", x, (1, 0), out=out)


def test_out_next_to_x_is_fine() -> None:
    memory = random_array((24,), np.int16)
    x, out = memory[:12].reshape(3, 4), memory[12:].reshape(4, 3)
    assert hp.permute(x, (1, 0), out=out) is out


@pytest.mark.parametrize(
    ("x", "quoted"),
    [
        (np.array([[1, None]]), "object"),
        (np.zeros((2, 2), [("a", "i4"), ("b", "O")]), "'O'"),
        (np.ma.masked_array([[1, 2]], [[False, True]]), "masked"),
        ([[1, 2], [3, 4]], "list"),
        ("ab", "str"),
        (3.5, "float"),
        (None, "NoneType"),
    ],
    ids=["objects", "struct with objects", "masked", "list", "str", "float", "None"],
)
def test_unsupported_array(x: Any, quoted: str) -> None:
    refused(UnsupportedArrayError, quoted, x, (1, 0))


def test_unsupported_string_dtype() -> None:
    dtypes = getattr(np, "dtypes", None)
    if not hasattr(dtypes, "StringDType"):
        pytest.skip("this NumPy has no StringDType")
    refused(
        UnsupportedArrayError,
        "StringDType",
        np.array([["a", "b"]], np.dtypes.StringDType()),
        (1, 0),
    )


@pytest.mark.parametrize("num_threads", [0, -1, 1.0, True, "2"], ids=repr)
def test_num_threads(num_threads: Any) -> None:
    refused(PlanError, repr(num_threads), X, (2, 0, 1), num_threads=num_threads)
    with pytest.raises(PlanError, match="num_threads"):
        hp.contiguous(X, num_threads=num_threads)


@pytest.mark.parametrize("device", ["gpu", "", "CPU", None], ids=repr)
def test_unknown_device(device: Any) -> None:
    out = np.zeros((4, 2, 3), np.float32)
    refused(DeviceError, repr(device), X, (2, 0, 1), device=device, out=out)


def test_torch_tensors(torch: ModuleType) -> None:
    square = torch.zeros(2, 2)
    cases = {
        "sparse_coo": square.to_sparse(),
        "sparse_csr": _sparse_csr(square),
        "quantized": _quantized(torch, square),
        "nested": torch.nested.nested_tensor([square, square], layout=torch.jagged),
        "meta": torch.zeros(2, 2, device="meta"),
    }
    for quoted, x in cases.items():
        refused(UnsupportedArrayError, quoted, x, (1, 0))


def _sparse_csr(x: Any) -> Any:
    import warnings

    with warnings.catch_warnings():  # "in beta state"
        warnings.simplefilter("ignore")
        return x.to_sparse_csr()


def _quantized(torch: ModuleType, x: Any) -> Any:
    import warnings

    with warnings.catch_warnings():  # deprecated, and still what users may hold
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(x, 0.5, 1, torch.qint8)


def test_torch_without_memory(torch: ModuleType) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(2, 2)
    for _ in range(2):  # PyTorch warns of the first address only
        refused(UnsupportedArrayError, "x is", fake, (1, 0))


def test_torch_out(torch: ModuleType) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for quoted, out in {
        "(2, 3)": torch.zeros(2, 3),
        "torch.float64": torch.zeros(3, 2, dtype=torch.float64),
        "grad": torch.zeros(3, 2, requires_grad=True),
        "numpy.ndarray": np.zeros((3, 2), np.float32),
    }.items():
        before = out.tolist()
        refused(OutputError, quoted, x, (1, 0), out=out)
        assert out.tolist() == before
    lazy = torch.zeros(3, 2, dtype=torch.complex64).conj()
    refused(OutputError, "conjugated", x.to(torch.complex64), (1, 0), out=lazy)
    refused(OutputError, "torch.Tensor", X[0], (1, 0), out=torch.zeros(4, 3))
