"""Building with stand-ins for the tools: what they are called with, and how their failures read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aie_design import build as builder
from aie_design.build import Toolchain, build
from aie_design.instructions import assemble, to_bytes
from aie_design.plan import TransposePlan
from hptp.cli import main
from hptp.errors import DeviceError, PlanError
from hptp.npu.artifacts import INSTRUCTIONS, MANIFEST, XCLBIN, Cache
from tests.fake_tools import AIECC, CLANG, Tools

PLAN = TransposePlan(64, 32, 16, 16, 4, 4)
WORDS = to_bytes(assemble(PLAN.representative()))


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setattr(builder, "emit_mlir", lambda plan, kernel: "module {}")
    monkeypatch.setenv("TEST_WORDS", WORDS.hex())
    monkeypatch.setenv("TEST_PEANO", str(tmp_path / "tools/site/llvm-aie"))
    return Tools(tmp_path / "tools")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def run(tools: Tools, cache: Cache, plan: TransposePlan = PLAN, kernel: str = "transpose") -> str:
    """Build, and return what was shown meanwhile."""
    shown: list[str] = []
    build(plan, kernel, cache=cache, toolchain=tools.find(), progress=shown.append)
    return "\n".join(shown)


def test_it_leaves_a_whole_entry_in_the_cache(tools: Tools, cache: Cache) -> None:
    shown = run(tools, cache)
    (entry,) = cache.entries()
    target = "--target=aie2-none-unknown-elf -DELEM_BYTES=4 -DDIM_M=16 -DDIM_N=16"
    assert entry.xclbin.read_text() == f"compiled with {target}"
    assert (entry.folder / INSTRUCTIONS).read_bytes() == WORDS
    assert sorted(p.name for p in entry.folder.iterdir()) == [XCLBIN, INSTRUCTIONS, MANIFEST]
    assert str(entry.design) == "npu-4B-m16-n16-s4-c1x1-d2-transpose_4x4"
    for step in ("1/3", "2/3", "3/3", "building npu-4B-m16-n16-s4"):
        assert step in shown
    assert "note" not in shown


def test_it_builds_once(tools: Tools, cache: Cache) -> None:
    run(tools, cache)
    assert run(tools, cache) == ""
    assert run(tools, cache, TransposePlan(512, 256, 16, 16, 4, 4, order="cols")) == ""


@pytest.mark.parametrize(
    "plan, kernel, compiled",
    [
        (
            TransposePlan(64, 64, 8, 32, 8, 1, device="npu2"),
            "transpose",
            "--target=aie2p-none-unknown-elf -DELEM_BYTES=1 -DDIM_M=8 -DDIM_N=32",
        ),
        (
            TransposePlan(6, 10, 3, 5, 1, 16),
            "copy",
            "--target=aie2-none-unknown-elf -DELEM_BYTES=4 -DDIM_M=3 -DDIM_N=20",
        ),
    ],
)
def test_the_kernel_is_compiled_for_the_tile(
    tools: Tools, cache: Cache, plan: TransposePlan, kernel: str, compiled: str
) -> None:
    run(tools, cache, plan, kernel)
    assert cache.entries()[0].xclbin.read_text() == f"compiled with {compiled}"


REBUILD: dict[str, Callable[[Tools], object]] = {
    "aiecc": lambda t: t.write("mlir_aie/bin/aiecc", AIECC + "# newer\n"),
    "Peano": lambda t: t.write("site/llvm-aie/bin/clang++", CLANG + "# newer\n"),
    "xclbinutil": lambda t: t.write("bin/xclbinutil", "# newer\n"),
    "header": lambda t: t.write("mlir_aie/include/aie_api/aie.hpp", "newer"),
    "new header": lambda t: t.write("mlir_aie/include/aie_api/detail.h", "new"),
}


@pytest.mark.parametrize("changed", REBUILD)
def test_another_tool_or_header_makes_another_program(
    tools: Tools, cache: Cache, changed: str
) -> None:
    run(tools, cache)
    REBUILD[changed](tools)
    assert "3/3" in run(tools, cache)
    assert len(cache.entries()) == 2


MISSING = {
    "mlir-aie": ("mlir_aie/python/aie/iron/__init__.py", "pip install mlir_aie"),
    "Peano": ("site/llvm-aie/bin/clang++", "PEANO_INSTALL_DIR"),
    "aiecc": ("mlir_aie/bin/aiecc", "PATH"),
    "xclbinutil": ("bin/xclbinutil", "setup.sh"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_tool_is_named_with_how_to_get_it(tools: Tools, cache: Cache, name: str) -> None:
    path, fix = MISSING[name]
    (tools.root / path).unlink()
    with pytest.raises(DeviceError) as caught:
        run(tools, cache)
    _, *lines = str(caught.value).splitlines()
    line = next(line for line in lines if line.strip().startswith(name))
    assert fix in line


def test_all_missing_tools_are_named_at_once(tmp_path: Path, cache: Cache) -> None:
    nothing = Toolchain.find({}, [], tmp_path)
    with pytest.raises(DeviceError) as caught:
        build(PLAN, cache=cache, toolchain=nothing)
    lines = str(caught.value).splitlines()
    assert [line.split(" is missing")[0].strip() for line in lines[1:]] == list(MISSING)


def test_tools_are_found_where_the_environment_says(tools: Tools) -> None:
    (tools.root / "site/llvm-aie").rename(tools.root / "peano")
    tools.environment["PEANO_INSTALL_DIR"] = str(tools.root / "peano")
    (tools.root / "bin/xclbinutil").unlink()
    tools.write("xrt/bin/xclbinutil", "")
    tools.environment["XILINX_XRT"] = str(tools.root / "xrt")
    assert tools.find().missing() == []


def test_the_tools_find_each_other_and_the_same_python(tools: Tools) -> None:
    path = tools.find().environment({"PATH": "/venv/bin", "HOME": "/h"})
    assert path["PATH"].split(":") == [
        "/venv/bin",
        str(tools.root / "bin"),
        str(tools.root / "mlir_aie/bin"),
    ]
    assert path["HOME"] == "/h"


def test_the_older_aiecc_script_will_do(tools: Tools, cache: Cache) -> None:
    aiecc = tools.root / "mlir_aie/bin/aiecc"
    aiecc.rename(aiecc.with_name("aiecc.py"))
    run(tools, cache)
    assert len(cache.entries()) == 1


@pytest.mark.parametrize("output", [XCLBIN, INSTRUCTIONS])
@pytest.mark.parametrize("how", ["os.remove('{}')", "open('{}', 'w').close()"])
def test_success_without_output_is_a_failure(
    tools: Tools, cache: Cache, output: str, how: str
) -> None:
    tools.write("mlir_aie/bin/aiecc", AIECC + how.format(output))
    with pytest.raises(DeviceError, match=f"reported success but wrote no {output}"):
        run(tools, cache)
    assert cache.entries() == []


@pytest.mark.parametrize(
    "path, name", [("site/llvm-aie/bin/clang++", r"clang\+\+"), ("mlir_aie/bin/aiecc", "aiecc")]
)
def test_a_failing_tool_is_quoted(tools: Tools, cache: Cache, path: str, name: str) -> None:
    tools.write(path, r"print(*range(40), 'no good', sep='\n'); sys.exit(3)")
    with pytest.raises(DeviceError, match=f"{name} failed with status 3: .*{name}") as caught:
        run(tools, cache)
    assert str(caught.value).endswith("39\nno good")
    assert "\n19\n" not in str(caught.value)
    assert cache.entries() == []


def test_other_instructions_than_ours_are_noted(
    tools: Tools, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_WORDS", "00000000")
    assert "differs from the assembled words" in run(tools, cache)
    assert len(cache.entries()) == 1


def test_a_slow_tool_shows_that_it_is_alive(tools: Tools, cache: Cache) -> None:
    tools.write("mlir_aie/bin/aiecc", "import time; time.sleep(1.2)\n" + AIECC)
    assert "3/3 MLIR → xclbin … 1 s …" in run(tools, cache)


def test_an_illegal_plan_calls_no_tool(tools: Tools, cache: Cache) -> None:
    with pytest.raises(PlanError, match="M=66"):
        run(tools, cache, TransposePlan(66, 32, 16, 16, 4, 4))


def test_mlir_needs_mlir_aie() -> None:
    try:
        import aie.iron  # noqa: F401
    except ImportError:
        with pytest.raises(DeviceError, match="mlir-aie"):
            builder.emit_mlir(PLAN, "transpose")
    else:
        assert "aie.device" in builder.emit_mlir(PLAN, "transpose")


def test_the_command_builds_a_program_for_each_width(
    tools: Tools,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = tools.find()
    (tools.root / "bin/xclbinutil").unlink()
    broken = tools.find()
    tools.write("bin/xclbinutil", "")
    monkeypatch.setattr(Toolchain, "find", lambda: whole)
    monkeypatch.setattr(builder, "_compare_instructions", lambda *_: None)
    monkeypatch.setenv("HPTP_CACHE_DIR", str(tmp_path))
    options = ["--model", "npu2", "--elem-bytes", "1,16", "--shape", "64,96"]
    assert main(["build", *options]) == 0
    folders = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [folder.name[:7] for folder in folders] == ["npu2-1B", "npu2-16"]
    assert all((folder / XCLBIN).is_file() for folder in folders)
    monkeypatch.setattr(Toolchain, "find", lambda: broken)
    assert main(["build", *options]) == 1
    assert "xclbinutil is missing: it comes with XRT" in capsys.readouterr().err
