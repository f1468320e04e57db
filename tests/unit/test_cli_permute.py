"""`hptp permute`: exact for any box size, bounded, and never a half-written file."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hptp as hp
from hptp import cli
from hptp.cli import _npy, _progress
from tests.cases import TABLE, Case
from tests.reference import assert_same_bits, permuted, random_array


@pytest.fixture
def tiny_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes of a few elements, so that small files are cut like large ones."""
    monkeypatch.setattr(_npy, "BOX_BYTES", 600)
    monkeypatch.setattr(_npy, "INPUT_RUN_BYTES", 48)


def permute(source: Path, target: Path, perm: tuple[int, ...], *more: str) -> int:
    axes = ",".join(map(str, perm))
    return cli.main(["permute", str(source), "-o", str(target), f"--perm={axes}", *more])


def saved(folder: Path, x: np.ndarray) -> Path:
    np.save(folder / "in.npy", x)
    return folder / "in.npy"


@pytest.mark.usefixtures("tiny_boxes")
@pytest.mark.parametrize("case", TABLE[::5], ids=lambda case: case.id)
def test_exact_in_boxes(case: Case, tmp_path: Path) -> None:
    x = case.source()[tuple([slice(20)] * len(case.perm))]
    assert permute(saved(tmp_path, x), tmp_path / "out.npy", case.perm, "-q") == 0
    assert_same_bits(np.load(tmp_path / "out.npy"), permuted(x, case.perm))


@given(st.data())
def test_boxes_cover_the_array_once(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 40), min_size=0, max_size=4))
    perm = data.draw(st.permutations(range(len(shape))))
    elem_bytes = data.draw(st.integers(1, 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_npy, "BOX_BYTES", 700)
        patch.setattr(_npy, "INPUT_RUN_BYTES", 64)
        covered = np.zeros(shape, int)
        for box in _npy.boxes(shape, perm, elem_bytes):
            assert covered[box].size * elem_bytes <= 700
            covered[box] += 1
    assert (covered == 1).all()


def test_a_box_of_a_large_file_has_long_runs_on_both_sides() -> None:
    rows, columns = _npy.box_shape((38730, 38730), (1, 0), 4)
    assert columns * 4 >= _npy.INPUT_RUN_BYTES
    assert rows * 4 >= 4096
    assert rows * columns * 4 <= _npy.BOX_BYTES
    assert math.prod(_npy.box_shape((8, 64, 4096, 4096), (0, 2, 3, 1), 2)) * 2 > _npy.BOX_BYTES // 2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_unusual_shapes(shape: tuple[int, ...], tmp_path: Path) -> None:
    x, perm = random_array(shape, "f4"), tuple(reversed(range(len(shape))))
    source = saved(tmp_path, x)
    assert permute(source, source, perm, "-q") == 0
    assert_same_bits(np.load(source), permuted(x, perm))


@pytest.mark.usefixtures("tiny_boxes")
@pytest.mark.parametrize(
    ("dtype", "full"), [("f32", "float32"), ("i8", "int8"), ("f64", "float64")]
)
def test_conversion(dtype: str, full: str, tmp_path: Path) -> None:
    x = random_array((40, 30, 3), "i2")
    source, target = saved(tmp_path, x), tmp_path / "out.npy"
    assert permute(source, target, (2, 0, 1), "-q", "--dtype", dtype) == 0
    assert_same_bits(np.load(target), hp.permute(x, (2, 0, 1), dtype=full))


def test_fortran_order_input(tmp_path: Path) -> None:
    x = np.asfortranarray(random_array((6, 7, 8), "i2"))
    assert permute(saved(tmp_path, x), tmp_path / "out.npy", (1, 0, 2), "-q") == 0
    assert_same_bits(np.load(tmp_path / "out.npy"), permuted(x, (1, 0, 2)))


def test_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = saved(tmp_path, random_array((6, 8), "i2")), tmp_path / "out.npy"
    assert permute(source, target, (1, 0)) == 0
    assert f"{target}: shape (8, 6), int16" in capsys.readouterr().out
    assert permute(source, target, (1, 0), "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["shape"], summary["dtype"]) == ([8, 6], "int16")


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    progress = _progress.Progress(shown=True)
    progress(10**9, 4 * 10**9)
    progress(4 * 10**9, 4 * 10**9)
    drawn = capsys.readouterr().err
    assert " 25%" in drawn
    assert "100%" in drawn
    assert "GB/s" in drawn
    assert drawn.endswith("\n")


EMPTY_ZIP = b"PK\x05\x06" + bytes(18)  # what numpy.savez makes of no arrays


@pytest.mark.parametrize(
    ("perm", "content", "sentence"),
    [
        ("0,0", b"", "repeats axis 0"),
        ("0,1,2", b"", "3 entries for 2 axes"),
        ("1,0", b"not an array", "it holds no NumPy array"),
        ("1,0", EMPTY_ZIP, "is not a .npy file"),
        ("1,0", None, "in.npy: No such file"),
    ],
)
def test_errors_are_one_sentence_and_leave_the_target(
    perm: str, content: bytes | None, sentence: str, tmp_path: Path, capsys: Any
) -> None:
    source, target = saved(tmp_path, random_array((3, 4), "i4")), tmp_path / "out.npy"
    if content:
        source.write_bytes(content)
    elif content is None:
        source.unlink()
    target.write_bytes(b"what was there")
    assert cli.main(["permute", str(source), "-o", str(target), "--perm", perm]) == 1
    errors = capsys.readouterr().err
    assert sentence in errors
    assert errors.count("\n") == 1
    assert target.read_bytes() == b"what was there"


def test_a_missing_folder_is_named(tmp_path: Path, capsys: Any) -> None:
    source, target = saved(tmp_path, random_array((3, 4), "i4")), tmp_path / "none" / "out.npy"
    assert cli.main(["permute", str(source), "-o", str(target), "--perm", "1,0"]) == 1
    assert f"there is no folder {target.parent}" in capsys.readouterr().err


def test_a_full_disk_leaves_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.npy"
    target.write_bytes(b"what was there")

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_npy, "_write", full)
    assert permute(saved(tmp_path, random_array((3, 4), "i4")), target, (1, 0)) == 1
    assert target.read_bytes() == b"what was there"
    assert sorted(os.listdir(tmp_path)) == ["in.npy", "out.npy"]


SLOW = """
import sys, time
from hptp.cli import _npy, main
_npy.BOX_BYTES = 64
write = _npy._write
def slowly(*arguments):
    write(*arguments)
    print("writing", flush=True)
    time.sleep(0.2)
_npy._write = slowly
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(number: int, tmp_path: Path) -> None:
    source, target = saved(tmp_path, random_array((300, 40), "i4")), tmp_path / "out.npy"
    arguments = ["permute", str(source), "-o", str(target), "--perm", "1,0"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert os.listdir(tmp_path) == ["in.npy"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_permissions_are_those_of_a_new_or_of_the_replaced_file(tmp_path: Path) -> None:
    source, target = saved(tmp_path, random_array((3, 4), "i4")), tmp_path / "out.npy"
    assert permute(source, target, (1, 0), "-q") == 0
    assert target.stat().st_mode == source.stat().st_mode
    target.chmod(0o640)
    assert permute(source, target, (1, 0), "-q") == 0
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    source, real = saved(tmp_path, random_array((3, 4), "i4")), tmp_path / "real.npy"
    link = tmp_path / "link.npy"
    link.symlink_to(real)
    assert permute(source, link, (1, 0), "-q") == 0
    assert link.is_symlink()
    assert np.load(real).shape == (4, 3)
