"""The core functions on this machine: right for every legal tile, with the work they should do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aie_design.plan import L1_BYTES, STACK_BYTES
from hptp.errors import DeviceError
from hptp.sim import kernels

DATA = Path(__file__).parent.parent / "data"
DTYPES = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
MAX_TILE_BYTES = (L1_BYTES - STACK_BYTES) // 2  # depth 1
CANARY = 0xA5


def tile_type(m: int, n: int, elem_bytes: int) -> Any:
    return np.ndarray[(m, n), np.dtype[DTYPES[elem_bytes]]]  # type: ignore[misc]


def aligned(size_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Memory that starts at a multiple of 64 bytes, like a bank of L1, full of canaries."""
    memory = np.full(size_bytes + 64, CANARY, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64
    return memory[start : start + size_bytes]


def legal_tiles(s: int, elem_bytes: int) -> Iterator[tuple[int, int]]:
    sides = range(s, 129, s)
    for m in sides:
        for n in sides:
            if m * n * elem_bytes <= MAX_TILE_BYTES:
                yield m, n


def blocks_transposed(tile: Any, m: int, n: int, s: int) -> Any:
    """An n×m tile with every s×s block transposed."""
    return tile.reshape(n // s, s, m // s, s).transpose(0, 3, 2, 1).reshape(-1)


def expected_shuffles(m: int, n: int, s: int, elem_bytes: int) -> int:
    """log2(s) + 1 for every 64 bytes of full vectors, log2(s) where a vector is one block."""
    piece_bytes = min(64, m * elem_bytes & -(m * elem_bytes))
    pieces = m * n * elem_bytes // (piece_bytes * s)
    vectors = -(-pieces * piece_bytes // 64) * s
    return vectors * ((s - 1).bit_length() + (s * elem_bytes < 64))


@pytest.mark.parametrize("elem_bytes", DTYPES)
@pytest.mark.parametrize("s", [4, 8])
def test_every_legal_tile_up_to_128(s: int, elem_bytes: int) -> None:
    """Bit-exact, each byte loaded and stored once, aligned however the buffers are packed in L1."""
    content = np.random.default_rng(s).integers(0, 256, MAX_TILE_BYTES, np.uint8)
    for m, n in legal_tiles(s, elem_bytes):
        nbytes = m * n * elem_bytes
        # Sequential placement: in follows another buffer of its size, out follows in.
        memory = aligned(4 * nbytes)
        source, target = memory[nbytes : 2 * nbytes], memory[2 * nbytes : 3 * nbytes]
        source[:] = content[:nbytes]
        tile = tile_type(m, n, elem_bytes)
        transpose = kernels.load(f"transpose_{s}x{s}", "transpose.o", [tile, tile])
        dtype = DTYPES[elem_bytes]
        work = transpose(source.view(dtype), target.view(dtype))
        expected = blocks_transposed(source.view(dtype), m, n, s)
        assert np.array_equal(target.view(dtype), expected), f"m={m}, n={n}"
        assert np.array_equal(source, content[:nbytes]), f"m={m}, n={n}: the input changed"
        outside = np.concatenate([memory[:nbytes], memory[3 * nbytes :]])
        assert (outside == CANARY).all(), f"m={m}, n={n}: written outside"
        assert work == (nbytes, nbytes, expected_shuffles(m, n, s, elem_bytes)), f"m={m}, n={n}"


def test_shuffles_per_vector(capsys: pytest.CaptureFixture[str]) -> None:
    """Never more than the 2·log2(s) of zips and unzips; one above the bound of log2(s)."""
    lines = []
    for s in (4, 8):
        for elem_bytes in DTYPES:
            m, n = 64 // elem_bytes, 64
            tile = tile_type(m, n, elem_bytes)
            transpose = kernels.load(f"transpose_{s}x{s}", "transpose.o", [tile, tile])
            buffers = aligned(2 * m * n * elem_bytes).view(DTYPES[elem_bytes]).reshape(2, -1)
            work = transpose(*buffers)
            per_vector = work.vshuffles * 64 / work.bytes_stored
            log2_s = (s - 1).bit_length()
            lines.append(f"  s={s}, {elem_bytes} B: {per_vector:g} (of {log2_s} ... {2 * log2_s})")
            assert log2_s <= per_vector <= log2_s + 1 <= 2 * log2_s
    with capsys.disabled():
        print("\nVSHUFFLEs per 64 bytes:", *lines, sep="\n")


@pytest.mark.parametrize("shape", [(16, 16), (4, 4), (12, 4), (20, 12), (3, 3), (1, 5), (2, 3)])
@pytest.mark.parametrize("elem_bytes", [4, 8])
def test_copy(shape: tuple[int, int], elem_bytes: int) -> None:
    m, n = shape
    buffers = aligned(2 * m * n * elem_bytes)
    buffers[:] = np.arange(buffers.size) % 251
    source, target = buffers.view(DTYPES[elem_bytes]).reshape(2, -1)
    tile = tile_type(m, n, elem_bytes)
    work = kernels.load("copy", "transpose.o", [tile, tile])(source, target)
    assert np.array_equal(source, target)
    assert work == (source.nbytes, source.nbytes, 0)


# --- The host's AIE API ---------------------------------------------------------------------------

LINE = np.ndarray[(64,), np.dtype[np.uint8]]
PAIR = np.ndarray[(128,), np.dtype[np.uint8]]


def probe(symbol: str, *arg_types: Any) -> kernels.HostKernel:
    return kernels.HostKernel(
        symbol, kernels.library(DATA / "probe_kernels.cc", 1), list(arg_types)
    )


def vectors() -> tuple[Any, Any]:
    """a = 0 ... 63 and b = 64 ... 127."""
    memory = aligned(128)
    memory[:] = np.arange(128)
    return memory[:64], memory[64:]


def test_shuffle_is_the_silicons() -> None:
    """All 48 modes against the table probed on AIE2."""
    modes = json.loads((DATA / "vshuffle.json").read_text())["modes"]
    assert [mode["mode"] for mode in modes] == list(range(48))
    (a, b), out = vectors(), aligned(64)
    shuffle = probe("shuffle_mode", LINE, LINE, LINE, np.int32)
    for mode in modes:
        shuffle(a, b, out, mode["mode"])
        assert out.tolist() == mode["bytes"], mode["name"]


@pytest.mark.parametrize("chunk", [1, 2, 4, 8, 16, 32, 64])
def test_zip_and_unzip(chunk: int) -> None:
    """By their definition: chunks alternate; the even ones, then the odd ones."""
    (a, b), out = vectors(), aligned(128)
    interleave = probe("interleave", LINE, LINE, PAIR, np.int32, np.int32)
    chunks_a, chunks_b = a.reshape(-1, chunk), b.reshape(-1, chunk)
    both = np.concatenate([chunks_a, chunks_b])
    zipped = np.stack([chunks_a, chunks_b], axis=1).reshape(-1)
    unzipped = np.concatenate([both[::2], both[1::2]]).reshape(-1)
    if chunk == 64:
        zipped = unzipped = both.reshape(-1)  # the API returns (v, w) for whole vectors
    interleave(a, b, out, 0, chunk)
    assert np.array_equal(out, zipped)
    interleave(a, b, out, 1, chunk)
    assert np.array_equal(out, unzipped)


@pytest.mark.parametrize("chunk", [0, 3, 128])
def test_impossible_chunks_are_refused(chunk: int) -> None:
    (a, b), out = vectors(), aligned(128)
    interleave = probe("interleave", LINE, LINE, PAIR, np.int32, np.int32)
    with pytest.raises(DeviceError, match=f"interleave by chunks of {chunk} in vectors of 64"):
        interleave(a, b, out, 0, chunk)


@pytest.mark.parametrize(
    "symbol, position, message",
    [
        ("load_at", 1, "load of 64 bytes at .* is outside every buffer"),
        ("load_at", -64, "load of 64 bytes at .* is outside every buffer"),
        ("load_narrow_at", 8, "load of 16 bytes at byte 8 of buffer 0 is not aligned to 16 bytes"),
        ("store_at", 16, "store of 64 bytes at .* is outside every buffer"),
        ("get_element", 64, "index 64 of 64 in a vector"),
    ],
)
def test_what_a_core_would_not_forgive(symbol: str, position: int, message: str) -> None:
    buffer = aligned(64)
    with pytest.raises(DeviceError, match=f"kernel {symbol}, m=64, n=1: {message}"):
        probe(symbol, LINE, np.int32)(buffer, position)
    assert (buffer == CANARY).all()


def test_a_misaligned_store_does_not_happen() -> None:
    buffer = aligned(128)
    with pytest.raises(DeviceError, match=r"store of 64 bytes at byte 32 .* to 64 bytes"):
        probe("store_at", PAIR, np.int32)(buffer, 32)
    assert (buffer == CANARY).all()


def test_there_is_no_mode_48() -> None:
    (a, b), out = vectors(), aligned(64)
    with pytest.raises(DeviceError, match="VSHUFFLE has no mode 48"):
        probe("shuffle_mode", LINE, LINE, LINE, np.int32)(a, b, out, 48)


# --- The loader -----------------------------------------------------------------------------------


def test_wrong_arguments_are_refused() -> None:
    tile = tile_type(16, 16, 4)
    transpose = kernels.load("transpose_4x4", "transpose.o", [tile, tile])
    good = aligned(1024).view(np.int32)
    with pytest.raises(DeviceError, match="takes 2 arguments, not 1"):
        transpose(good)
    with pytest.raises(DeviceError, match="argument 1: expected 256 contiguous int32, got int16"):
        transpose(good, good.view(np.int16))
    with pytest.raises(DeviceError, match="no function 'transpose_3x3'"):
        kernels.load("transpose_3x3", "transpose.o", [tile, tile])
    with pytest.raises(DeviceError, match=r"no kernel source .*scale\.cc"):
        kernels.load("scale", "scale.o", [tile])


def test_a_source_that_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "wide.cc"
    source.write_text("#define TOO_WIDE\n" + (DATA / "probe_kernels.cc").read_text())
    with pytest.raises(DeviceError, match="a vector has 128 to 1024 bits"):
        kernels.library(source, 1)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("elem_bytes", DTYPES)
def test_no_warnings(compiler: str, elem_bytes: int) -> None:
    """With the tile's size fixed, as for the core, in both standards that compile it."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    host = kernels.SOURCES / "host"
    options = [f"-DELEM_BYTES={elem_bytes}", "-DDIM_M=24", "-DDIM_N=16", f"-I{host}"]
    for standard in ("c++17", "c++20"):
        checks = [f"-std={standard}", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        command = [compiler, *checks, *options, str(kernels.SOURCES / "transpose.cc")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_an_unwritable_cache_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HPTP_CACHE_DIR", str(file))
    with pytest.raises(DeviceError, match="set HPTP_CACHE_DIR"):
        kernels.library.__wrapped__(DATA / "probe_kernels.cc", 2)


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    source = tmp_path / "empty.cc"
    source.touch()
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler"):
        kernels.library(source, 1)


def test_processes_share_the_cache(tmp_path: Path) -> None:
    """Several processes that compile the same source at once all work and leave one library."""
    program = (
        "import numpy as np; from hptp.sim import kernels;"
        "tile = np.ndarray[(4, 4), np.dtype[np.int32]];"
        "kernels.load('copy', 'transpose.o', [tile, tile])"
    )
    environment = {**os.environ, "HPTP_CACHE_DIR": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in "abc"]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".so"]
