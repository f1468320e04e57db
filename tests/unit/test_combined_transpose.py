"""The program, executed by the interpreter with the real kernel: NumPy's transpose, bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aie_design import combined_transpose, frontend
from aie_design.examples import transpose_and_scale
from aie_design.plan import TransposePlan
from hptp.errors import PlanError
from hptp.sim import run_program

GOLDEN = json.loads((Path(__file__).parent.parent / "data" / "lowered.json").read_text())
ELEM_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}
SIM = frontend.load("sim")


def random_elements(count: int, elem_bytes: int) -> Any:
    """`count` opaque elements of random bytes."""
    content = np.random.default_rng(7).integers(0, 256, count * elem_bytes, np.uint8)
    return content.view(f"V{elem_bytes}")


def slabs(plan: TransposePlan, memory: Any, output: bool = False) -> Any:
    """The matrices of a plan inside its input or output buffer, batch first."""
    e = plan.elem_bytes
    pitches = (
        (plan.slab_pitch_out, plan.row_pitch_out) if output
        else (plan.slab_pitch_in, plan.row_pitch_in)
    )  # fmt: skip
    shape = (plan.batch, plan.N, plan.M) if output else (plan.batch, plan.M, plan.N)
    strides = (pitches[0] * e, pitches[1] * e, e)
    return np.lib.stride_tricks.as_strided(memory, shape, strides)


def bits(elements: Any) -> bytes:
    return bytes(np.ascontiguousarray(elements).tobytes())


def check_matrix(plan: TransposePlan) -> None:
    """Run a plan of one dense matrix of any size, on integers, which NumPy moves fast."""
    x = np.arange(plan.M * plan.N, dtype=f"i{plan.elem_bytes}").reshape(plan.M, plan.N)
    out = np.zeros((plan.N, plan.M), x.dtype)
    run_program(combined_transpose.build(plan, SIM), [x, out])
    assert np.array_equal(out, x.T)


def shape(entry: dict[str, Any]) -> str:
    return f"{entry['M']}x{entry['N']} {entry['dtype']}"


@pytest.mark.parametrize("entry", GOLDEN["designs"], ids=shape)
def test_designs_that_the_compiler_has_lowered(entry: dict[str, Any]) -> None:
    values = {name: entry[name] for name in ("M", "N", "m", "n", "s", "device")}
    check_matrix(TransposePlan(elem_bytes=ELEM_BYTES[entry["dtype"]], **values))


@pytest.mark.parametrize("entry", GOLDEN["refused"][:5], ids=shape)
def test_shapes_that_one_task_cannot_do(entry: dict[str, Any]) -> None:
    """Too many tile rows, too long strides, too large tiles: free to choose, a plan does them."""
    check_matrix(TransposePlan.for_problem(entry["M"], entry["N"], ELEM_BYTES[entry["dtype"]]))


@pytest.mark.parametrize(
    "entry, changes",
    [(0, {"M": 1040, "N": 64, "m": 8}), (2, {"M": 128}), (4, {"depth": 1})],
    ids=["iteration", "shim stride", "L1"],
)
def test_the_refused_tiles_in_other_tasks(entry: int, changes: dict[str, Any]) -> None:
    """The refused tile itself: several tasks, strides folded into offsets, or depth 1 (fewer rows
    than there, but no shorter strides)."""
    values = {name: GOLDEN["refused"][entry][name] for name in ("M", "N", "m", "n", "s")}
    plan = TransposePlan(elem_bytes=4, **(values | changes))
    assert len(plan.tasks_of(0, 0)) > 1 or plan.depth == 1
    assert plan.depth == 1 or replace(plan, tasks=1).violations()
    check_matrix(plan)


@pytest.mark.parametrize("s", [4, 8])
@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8])
def test_tiles_are_transposed_in_l1(s: int, elem_bytes: int) -> None:
    """Each tile that leaves the core is its tile of the input, transposed: work can be fused."""
    plan = TransposePlan(48, 64, 24, 16, s, elem_bytes)
    source = random_elements(plan.size_in, elem_bytes)
    target = np.zeros_like(source)
    tiles: list[bytes] = []
    run_program(
        combined_transpose.build(plan, SIM),
        [source, target],
        observe=lambda fifo, number, contents: tiles.append(bits(contents)),
    )
    x = source.reshape(2, 24, 4, 16)
    assert tiles == [bits(x[r, :, c].T) for r in range(2) for c in range(4)]


def test_copy_shows_the_data_movement_alone() -> None:
    """The blocks of a tile are where they belong, their insides are not."""
    plan = TransposePlan(32, 32, 16, 16, 4, 4)
    x = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    out = np.zeros((32, 32), np.int32)
    run_program(combined_transpose.build(plan, SIM, "copy"), [x, out])
    blocks = x.reshape(8, 4, 8, 4)
    assert np.array_equal(out, blocks.transpose(2, 1, 0, 3).reshape(32, 32))


def test_work_fused_behind_the_transpose() -> None:
    plan = TransposePlan(64, 32, 16, 16, 4, 4, columns=2)
    x = np.arange(64 * 32, dtype=np.int32).reshape(64, 32)
    out = np.zeros((32, 64), np.int32)
    run_program(transpose_and_scale.build(plan, SIM, factor=-7), [x, out])
    assert np.array_equal(out, -7 * x.T)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    transpose_and_scale.main()
    assert capsys.readouterr().out.endswith("PASS\n")


def test_kernel_names_and_defines() -> None:
    plan = TransposePlan(64, 32, 16, 8, 8, 8)
    assert combined_transpose.kernel_symbol(plan) == "transpose_8x8"
    assert combined_transpose.kernel_symbol(plan, "copy") == "copy"
    assert combined_transpose.kernel_defines(plan) == ["-DELEM_BYTES=8", "-DDIM_M=16", "-DDIM_N=8"]
    wide = TransposePlan(12, 10, 6, 5, 1, 12)
    assert combined_transpose.kernel_symbol(wide) == "copy"
    assert combined_transpose.kernel_defines(wide) == ["-DELEM_BYTES=4", "-DDIM_M=6", "-DDIM_N=15"]
    with pytest.raises(PlanError, match="kernel='scale' is neither 'transpose' nor 'copy'"):
        combined_transpose.kernel_symbol(plan, "scale")
