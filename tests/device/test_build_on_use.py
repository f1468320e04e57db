"""An NPU and a toolchain: the first use of a design builds it, everything after that finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hptp as hp
from aie_design import build as builder
from aie_design.build import Toolchain
from hptp._core import Problem
from hptp.devices import npu
from hptp.npu import runtime
from tests.device.fake_pyxrt import xclbin_text
from tests.device.machine import Machine
from tests.fake_tools import AIECC, Tools
from tests.reference import assert_same_bits, permuted, random_array

X = random_array((64, 64), "i4")
PERM = (1, 0)


@pytest.fixture
def tools(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Tools next to the NPU, whose aiecc writes the program for X."""
    tools = Tools(tmp_path / "tools")
    monkeypatch.setattr(Toolchain, "find", tools.find)
    monkeypatch.setattr(builder, "emit_mlir", lambda plan, kernel: "module {}")
    monkeypatch.setenv("TEST_PEANO", str(tmp_path / "tools/site/llvm-aie"))
    monkeypatch.setenv("TEST_WORDS", "00")
    monkeypatch.setenv("TEST_XCLBIN", xclbin_text(machine.best_design(X, PERM)))
    return tools


def permute(shape: tuple[int, int] = (64, 64)) -> None:
    x = random_array(shape, "i4")
    assert_same_bits(hp.permute(x, PERM, device="npu"), permuted(x, PERM))


def test_the_first_use_builds_and_shows_it(
    tools: Tools, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    permute()
    assert "3/3 MLIR → xclbin" in capsys.readouterr().err
    assert len(machine.cache.entries()) == 1
    for shape in ((64, 64), (128, 64), (64, 192)):
        permute(shape)
    assert capsys.readouterr().err == ""
    assert len(machine.cache.entries()) == 1


def test_a_newer_tool_makes_the_program_stale(
    tools: Tools, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    permute()
    tools.write("mlir_aie/bin/aiecc", AIECC + "# newer\n")
    permute()
    assert len(machine.cache.entries()) == 1, "this process has its plan and its program"
    monkeypatch.setattr(npu.DEVICE, "_plans", runtime.Recent(npu.MAX_PLANS))
    permute()
    assert len(machine.cache.entries()) == 2


def test_planning_only_with_what_is_built_never_builds(tools: Tools, machine: Machine) -> None:
    problem = Problem(4, X.shape, PERM)
    with pytest.raises(hp.DeviceError, match="no compiled program"):
        npu.DEVICE.plan_built(problem, 0)
    assert machine.cache.entries() == []
    permute()
    assert npu.DEVICE.plan_built(problem, 0).npu_bytes == X.nbytes


def test_a_build_that_fails_fails_the_call(tools: Tools, machine: Machine) -> None:
    tools.write("mlir_aie/bin/aiecc", "print('no route'); sys.exit(1)")
    with pytest.raises(hp.DeviceError, match="aiecc failed with status 1"):
        permute()
    assert machine.hardware.count("run") == 0
