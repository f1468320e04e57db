"""`make run`: what it prints, what it refuses, and which way it goes on which machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aie_design import build, run
from aie_design.__main__ import main
from aie_design.build import Tool, Toolchain
from aie_design.combined_transpose import kernel_symbol
from aie_design.instructions import assemble, to_bytes
from aie_design.plan import TransposePlan
from hptp.errors import DeviceError
from hptp.npu.artifacts import Artifact, Cache, Design
from tests.device.conftest import hardware, machine  # noqa: F401 (fixtures)
from tests.device.fake_pyxrt import put_program
from tests.device.machine import Machine

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def parameters_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in run.DEFAULTS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NPU and no tools, whatever this machine has."""

    def no_npu() -> None:
        raise DeviceError("npu: pyxrt is not importable")

    monkeypatch.setattr(run.runtime, "npu", no_npu)
    monkeypatch.setattr(Toolchain, "find", classmethod(lambda cls: found()))


def found(**paths: Path | None) -> Toolchain:
    """A toolchain with these tools."""
    names = {"mlir_aie": "mlir-aie", "peano": "Peano", "aiecc": "aiecc", "xclbinutil": "xclbinutil"}
    return Toolchain(**{key: Tool(name, paths.get(key), "") for key, name in names.items()})


def run_with(monkeypatch: pytest.MonkeyPatch, **parameters: object) -> int:
    for name, value in parameters.items():
        monkeypatch.setenv(name, str(value))
    return main(["run"])


@pytest.mark.usefixtures("bare_machine")
def test_the_seeds_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, M=64, N=32, m=16, n=16, s=4) == 0
    out = capsys.readouterr().out
    assert "64x32 -> 32x64, 4-byte elements" in out
    assert "interpreted here: no NPU (pyxrt is not importable)\n" in out
    assert "to compile for an NPU, missing: mlir-aie, Peano, aiecc, xclbinutil\n" in out
    assert "[   0   32   64   96 ... 1920 1952 1984 2016]" in out
    assert " GB/s, interpreted" in out
    assert out.endswith("PASS\n")


@pytest.mark.usefixtures("bare_machine")
def test_defaults_are_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 0
    assert "64x32 -> 32x64, 4-byte elements" in capsys.readouterr().out


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("dtype", run.DTYPES)
@pytest.mark.parametrize("kernel", run.KERNELS)
def test_every_dtype_and_kernel(
    dtype: str,
    kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parameters = {"M": 48, "N": 40, "m": 16, "n": 8, "s": 8, "dtype": dtype, "kernel": kernel}
    assert run_with(monkeypatch, **parameters) == 0
    assert capsys.readouterr().out.endswith("PASS\n")


@pytest.mark.usefixtures("bare_machine")
def test_small_matrices_are_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `copy`, the blocks change places but not their insides."""
    assert run_with(monkeypatch, M=8, N=8, m=8, n=8, s=4, kernel="copy", dtype="bf16") == 0
    out = capsys.readouterr().out
    assert "input 8x8\n[[ 0.  1.  2.  3.  4.  5.  6.  7.]" in out
    assert "output 8x8\n[[ 0.  1.  2.  3. 32. 33. 34. 35.]" in out


@pytest.mark.parametrize(
    ("parameters", "messages"),
    [
        ({"M": 66}, ["tile: M=66 is not a multiple of m=16"]),
        (
            {"M": 66, "N": 30},
            ["tile: M=66 is not a multiple of m=16", "tile: N=30 is not a multiple of n=16"],
        ),
        ({"M": "many"}, ["M=many is not an integer"]),
        ({"M": "", "m": -16}, ["m=-16 is not an integer of at least 1"]),
        ({"dtype": "f8"}, ["dtype=f8 is none of i8, i16, i32, i64, bf16, f16, f32, f64"]),
        ({"device": "gpu", "kernel": "sort"}, ["device=gpu is none of npu, npu2",
                                               "kernel=sort is none of transpose, copy"]),
    ],
)  # fmt: skip
def test_impossible_parameters_are_one_line_each(
    parameters: dict[str, object],
    messages: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_with(monkeypatch, **parameters) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"error: {message}" for message in messages]


@pytest.mark.usefixtures("bare_machine")
def test_a_wrong_result_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoiled(
        parameters: run.Parameters, artifact: object, x: run.Array, out: run.Array
    ) -> float:
        out[:] = x.T
        out[3, 5] = -1
        out[4, 6] = -1
        return 1.0

    monkeypatch.setattr(run, "transpose", spoiled)
    assert main(["run"]) == 1
    assert capsys.readouterr().out.endswith(
        "FAIL: 2 of 2048 elements are wrong, the first at [3, 5]: -1 instead of 163\n"
    )


def test_results_are_compared_by_bits() -> None:
    parameters = run.Parameters.from_environment({"dtype": "f32", "device": "npu"})
    zero = np.zeros((32, 64), np.float32)
    assert run.verdict(parameters, -zero, zero).startswith("FAIL: 2048 of 2048")
    nan = np.full((32, 64), np.nan, np.float32)
    assert run.verdict(parameters, nan, nan) == "PASS"


# --- Machines with more than this one ---------------------------------------------------------


@pytest.mark.usefixtures("bare_machine")
def test_with_mlir_aie_alone_the_mlir_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Toolchain, "find", classmethod(lambda cls: found(mlir_aie=tmp_path)))
    monkeypatch.setattr(build, "emit_mlir", lambda plan, kernel: f"module for {plan.M} {kernel}")
    assert main(["run"]) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "build" / "design.mlir").read_text() == "module for 64 transpose"
    assert "the MLIR is in build/design.mlir\n" in out
    assert "to compile for an NPU, missing: Peano, aiecc, xclbinutil" in out
    assert out.endswith("PASS\n")


@pytest.mark.usefixtures("bare_machine")
def test_with_all_tools_the_program_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    built = []

    def build_it(plan: TransposePlan, kernel: str, **options: object) -> Artifact:
        built.append((plan.M, kernel))
        design = Design.of(plan, kernel_symbol(plan, kernel))
        return put_program(Cache(tmp_path), design)

    monkeypatch.chdir(tmp_path)
    tools = found(mlir_aie=tmp_path, peano=tmp_path, aiecc=tmp_path, xclbinutil=tmp_path)
    monkeypatch.setattr(Toolchain, "find", classmethod(lambda cls: tools))
    monkeypatch.setattr(build, "emit_mlir", lambda plan, kernel: "module")
    monkeypatch.setattr(build, "build", build_it)
    assert main(["run"]) == 0
    assert built == [(64, "transpose")]
    assert f"the program for an NPU is in {tmp_path}" in capsys.readouterr().out


def test_with_an_npu_and_a_program_it_runs_there(
    machine: Machine,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    device = run.runtime.npu().model.device
    plan = TransposePlan(96, 64, 32, 16, 8, 2, device=device)
    design = Design.of(plan.representative(), kernel_symbol(plan))
    folder = put_program(machine.cache, design).folder
    assert run_with(monkeypatch, M=96, N=64, m=32, n=16, s=8, dtype="f16") == 0
    out = capsys.readouterr().out
    assert f"on the NPU, with the program in {folder}" in out
    assert "GB/s, with copies and dispatch" in out
    assert out.endswith("PASS\n")


def test_with_an_npu_but_no_program_it_is_interpreted(
    machine: Machine,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run"]) == 0
    assert (
        "interpreted here: there is an NPU, but no program for this tile" in capsys.readouterr().out
    )
    other = {"npu": "npu2", "npu2": "npu"}[run.runtime.npu().model.device]
    assert run_with(monkeypatch, device=other) == 0
    assert f"interpreted here: the NPU here is {run.runtime.npu().model.device}, not {other}" in (
        capsys.readouterr().out
    )


# --- The command line itself -----------------------------------------------------------------


def test_streams_are_disassembled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "insts.bin"
    file.write_bytes(to_bytes(assemble(TransposePlan(64, 32, 16, 16, 4, 4))))
    assert main(["disassemble", str(file)]) == 0
    assert "shim 0 MM2S 0: queue BD 0, 4 runs" in capsys.readouterr().out
    file.write_bytes(b"no instructions")
    assert main(["disassemble", str(file)]) == 2
    assert "error: instructions: 15 bytes is not a whole number" in capsys.readouterr().err
    assert main(["disassemble", str(tmp_path / "missing")]) == 1
    assert main(["walk"]) == 2


@pytest.mark.skipif(
    not (ROOT / "Makefile").exists() or shutil.which("make") is None,
    reason="needs make and the source tree",
)
def test_make_passes_the_parameters_on() -> None:
    """The recipe itself; the set-up it depends on is this test's own environment."""
    venv = Path(sys.prefix)
    command = ["make", "-s", "-o", f"{venv}/.run", "run", f"VENV={venv}"]
    sizes = {"M": "64", "N": "32", "m": "16", "n": "8", "s": "4", "dtype": "i16"}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **sizes}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "tiles 16x8 (256 B) of 4x4 blocks" in done.stdout
    assert "dtype i16" in done.stdout
    assert done.stdout.endswith("PASS\n")
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "M": "66"}, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "error: tile: M=66 is not a multiple of m=16" in done.stderr
