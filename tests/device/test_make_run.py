"""`make run` and `make xclbin` on a machine that has an NPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from aie_design import build as builder
from aie_design.__main__ import main
from aie_design.build import Toolchain
from hptp.npu.artifacts import Design
from tests.device.fake_pyxrt import put_program
from tests.device.machine import Machine
from tests.fake_tools import Tools

DESIGN = Design("npu", 4, 16, 16, 4, 1, 1, 2, "transpose_4x4")


@pytest.fixture(autouse=True)
def parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("M", "N", "m", "n", "s", "dtype", "device", "kernel"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("kernel", ["transpose", "copy"])
def test_run_uses_the_npu_when_there_is_a_program(
    machine: Machine,
    kernel: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    symbol = "copy" if kernel == "copy" else DESIGN.kernel
    put_program(machine.cache, Design(**{**vars(DESIGN), "kernel": symbol}))
    monkeypatch.setenv("kernel", kernel)
    assert main(["run"]) == 0
    shown = capsys.readouterr().out
    assert "on the NPU" in shown
    assert shown.endswith("PASS\n")
    assert machine.hardware.count("run") == 1


def test_run_without_a_program_interprets_and_says_why(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run"]) == 0
    shown = capsys.readouterr().out
    assert "interpreted here: there is an NPU, but no program for this tile" in shown
    assert machine.hardware.count("run") == 0


def test_xclbin_compiles_the_same_design(
    machine: Machine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = Tools(tmp_path / "tools")
    monkeypatch.setattr(Toolchain, "find", tools.find)
    monkeypatch.setattr(builder, "emit_mlir", lambda plan, kernel: "module {}")
    monkeypatch.setenv("TEST_PEANO", str(tmp_path / "tools/site/llvm-aie"))
    monkeypatch.setenv("TEST_WORDS", "00")
    assert main(["xclbin"]) == 0
    (entry,) = machine.cache.entries()
    assert capsys.readouterr().out == f"{entry.folder}\n"
    assert entry.design == DESIGN
