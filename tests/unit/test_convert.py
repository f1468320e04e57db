"""`dtype=`, `scale=`, `shift=` and `axis=`: the rules of conversion, for every pair of types.

The oracle converts one element at a time and rounds once: on the way to a narrow type, a wide one
is rounded to odd, which never turns a tie into something else.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hptp as hp
from hptp.convert import CONVERTIBLE, NOT_SCALED
from tests.reference import assert_same_bits, random_array

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in CONVERTIBLE}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def interesting(name: str) -> np.ndarray:
    """Values of a type where conversions go wrong: limits, halves, ties, specials, random bits."""
    dtype = DTYPES[name]
    random = random_array((200,), dtype, seed=3)
    if name in FLOATS:
        special = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 128, 255.5, 256, 65504, 65520, 1e9]
        special += [
            np.inf,
            -np.inf,
            np.nan,
            2.0**31,
            -(2.0**31),
            2.0**63,
            -(2.0**63),
            2.0**64,
            1e30,
        ]
        special += [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 2**-8 + 2**-40, 2.0**-25, 3e-45]
        with np.errstate(over="ignore"):
            values = np.array(special).astype(dtype)
    else:
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, info.max // 2 + 1]
        near += [v for v in (2**24 + 1, 2**53 + 1, 2049, 257, 65520) if v <= info.max]
        values = np.array(near, dtype)
    return np.concatenate([values, random])


def to_integer(value: Any, info: np.iinfo) -> int:
    """Truncated toward zero, saturated, NaN becoming 0."""
    if isinstance(value, float):
        if np.isnan(value):
            return 0
        value = value if np.isinf(value) else int(value)
    return int(min(max(value, info.min), info.max))


def to_float(value: Any, name: str) -> Any:
    """Rounded once to the nearest, ties to even, beyond the range to infinity."""
    if isinstance(value, float) and (not np.isfinite(value) or value == 0):
        return DTYPES[name].type(value)
    exact = int(value) if isinstance(value, int) else value
    near = float(exact)
    if isinstance(exact, int) and int(near) != exact and name != "float64":
        below = near if int(near) < exact else np.nextafter(near, -np.inf)
        above = np.nextafter(below, np.inf)
        near = float(below if int(np.array(below).view(np.int64)) & 1 else above)
    if name != "bfloat16":
        with np.errstate(over="ignore"):
            return DTYPES[name].type(near)
    with np.errstate(over="ignore"):
        single = np.float32(near)
    if float(single) != near and np.isfinite(single):
        inward = single if abs(float(single)) < abs(near) else np.nextafter(single, np.float32(0))
        bits = int(np.array(inward).view(np.uint32)) | 1
        single = np.array(bits, np.uint32).view(np.float32)[()]
    return DTYPES[name].type(single)


def converted(x: np.ndarray, name: str) -> np.ndarray:
    """The oracle: every element of `x`, one by one."""
    values = [v.item() if x.dtype.kind in "iu" else float(v) for v in x.ravel()]
    if name in FLOATS:
        result = [to_float(v, name) for v in values]
    else:
        result = [to_integer(v, np.iinfo(DTYPES[name])) for v in values]
    return np.array(result, DTYPES[name]).reshape(x.shape)


def assert_same_values(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits, but that any NaN will do."""
    if expected.dtype.kind in "iu":
        return assert_same_bits(actual, expected)
    nan = np.isnan(expected.astype("f8"))
    assert (np.isnan(actual.astype("f8")) == nan).all()
    zero = expected.dtype.type(0)
    return assert_same_bits(np.where(nan, zero, actual), np.where(nan, zero, expected))


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("target", CONVERTIBLE)
@pytest.mark.parametrize("source", CONVERTIBLE)
def test_every_pair(source: str, target: str) -> None:
    values = interesting(source)
    x = np.resize(values, (3, 5, values.size)).astype(DTYPES[source], copy=False)
    result = hp.permute(x, (2, 0, 1), dtype=DTYPES[target])
    assert_same_values(result, converted(np.transpose(x, (2, 0, 1)), target))


@pytest.mark.parametrize("target", CONVERTIBLE)
@pytest.mark.parametrize("source", [name for name in CONVERTIBLE if name not in NOT_SCALED])
def test_scale_and_shift(source: str, target: str) -> None:
    """float32 multiply, then float32 add, each rounded, then to the nearest of the target."""
    x = random_array((4, 30, 3), "i1", seed=5).astype(DTYPES[source])
    scale = np.array([0.1, 1.7, -2.3], np.float32)
    shift = np.array([0.5, -7.1, 3.0], np.float32)
    single = x.astype(np.float32) * scale + shift
    single = np.rint(single) if target not in FLOATS else single
    expected = converted(np.transpose(single, (2, 0, 1)), target)
    result = hp.permute(x, (2, 0, 1), dtype=DTYPES[target], scale=scale, shift=shift, axis=-1)
    assert_same_values(result, expected)


def test_scale_alone_shift_alone_and_one_for_all() -> None:
    x = random_array((5, 7), "u1")
    single = x.astype(np.float32).T.copy()
    assert_same_bits(hp.permute(x, (1, 0), dtype="f4", scale=0.3), single * np.float32(0.3))
    assert_same_bits(hp.permute(x, (1, 0), dtype="f4", shift=np.float32(7)), single + np.float32(7))
    same = hp.permute(x, (1, 0), dtype="f4", scale=[2.0] * 5, shift=1, axis=0)
    assert_same_bits(same, single * np.float32(2) + np.float32(1))
    assert hp.permute(x, (1, 0), scale=2).dtype == np.uint8


def test_out_and_strides() -> None:
    x = random_array((6, 40, 50), "u1")[::2, ::-1]
    expected = np.transpose(x, (2, 0, 1)).astype("f4", order="C")
    memory = np.zeros((50, 3, 80), "f4")
    out = memory[..., ::2]
    assert hp.permute(x, (2, 0, 1), dtype="f4", out=out) is out
    assert_same_bits(out.copy(), expected)
    assert not memory[..., 1::2].any()
    with pytest.raises(hp.OutputError, match=r"float64.*float32"):
        hp.permute(x, (2, 0, 1), dtype="f4", out=np.zeros(expected.shape))


def test_out_sharing_memory_is_refused() -> None:
    memory = bytearray(400)
    x, out = np.ndarray((5, 4), "u1", memory, 100), np.ndarray((4, 5), "f4", memory, 40)
    with pytest.raises(hp.OutputError, match="shares memory"):
        hp.permute(x, (1, 0), dtype="f4", out=out)


def test_same_dtype_is_a_plain_permute() -> None:
    x = random_array((5, 7), "f4")  # random bits: NaNs keep theirs
    assert_same_bits(hp.permute(x, (1, 0), dtype=np.float32), x.T.copy())
    flags = random_array((5, 7), "?")
    assert_same_bits(hp.permute(flags, (1, 0), dtype=bool), flags.T.copy())


def test_torch(torch: ModuleType) -> None:
    x = torch.arange(-10, 110, dtype=torch.float32).reshape(4, 30)
    for dtype in (torch.bfloat16, torch.float16, "int64"):
        result = hp.permute(x, (1, 0), dtype=dtype)
        expected = x.mT.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        assert result.dtype == expected.dtype
        assert torch.equal(result, expected)
    scaled = hp.permute(x, (1, 0), scale=torch.tensor([1.0, 2, 3, 4]), axis=0)
    assert torch.equal(scaled, (x * torch.tensor([[1.0], [2], [3], [4]])).mT)


X = random_array((2, 3), "u1")


@pytest.mark.parametrize(
    ("x", "arguments", "error", "quoted"),
    [
        (X, {"dtype": bool}, hp.UnsupportedArrayError, "bool"),
        (X.astype(bool), {"dtype": "f4"}, hp.UnsupportedArrayError, "bool"),
        (X, {"dtype": "c8"}, hp.UnsupportedArrayError, "complex64"),
        (X, {"dtype": ">f4"}, hp.UnsupportedArrayError, "float32 of foreign byte order"),
        (X, {"dtype": "no-such"}, hp.UnsupportedArrayError, "no-such"),
        (X.astype("i8"), {"scale": 2.0}, hp.UnsupportedArrayError, "int64"),
        (X.astype("f8"), {"shift": 2.0, "dtype": "f4"}, hp.UnsupportedArrayError, "float64"),
        (X, {"scale": [1.0, 2.0]}, hp.PlanError, "2 values: axis="),
        (X, {"scale": [1.0], "axis": 0}, hp.PlanError, "1 values for an axis of size 2"),
        (X, {"scale": "much", "axis": 0}, hp.PlanError, "'much'"),
        (X, {"scale": 2, "axis": 2}, hp.PlanError, "axis 2 of an array with 2 axes"),
        (X, {"scale": 2, "axis": 0.5}, hp.PlanError, "0.5"),
        (X, {"scale": 2, "axis": True}, hp.PlanError, "axis True"),
        (X, {"scale": 10**400}, hp.PlanError, "beyond float64"),
        (X, {"axis": 0}, hp.PlanError, "axis 0 without"),
        (X, {"dtype": "f4", "device": "sim"}, hp.PlanError, "'sim'"),
        (X, {"dtype": "f4", "device": "abacus"}, hp.DeviceError, "'abacus'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_refusals(x: Any, arguments: dict[str, Any], error: type[Exception], quoted: str) -> None:
    with pytest.raises(error) as raised:
        hp.permute(x, (1, 0), **arguments)
    assert quoted in str(raised.value)


@pytest.mark.parametrize("shape", [(5, 5), (2, 40, 40), (3, 70, 70, 2), (1, 1)])
def test_in_place(shape: tuple[int, ...]) -> None:
    axes = [0, 1] if len(shape) == 2 else [1, 2]
    perm = list(range(len(shape)))
    perm[axes[0]], perm[axes[1]] = axes[1], axes[0]
    for dtype in ("u1", "f4", "f8", "V3"):
        x = random_array(shape, dtype)
        expected = np.transpose(x, perm).copy()
        assert hp.permute(x, perm, out=x) is x
        assert_same_bits(x, expected)


def test_in_place_of_a_view() -> None:
    memory = random_array((60, 60), "i4")
    expected = memory.copy()
    expected[5:45, 10:50] = memory[5:45, 10:50].T.copy()
    block = memory[5:45, 10:50]
    hp.permute(block, (1, 0), out=block)
    assert_same_bits(memory, expected)
