"""`hptp doctor` on machines made of files: a good one, and one broken in each way people report."""

from __future__ import annotations

import importlib.machinery
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hptp.cli import main
from hptp.npu import doctor
from hptp.npu.artifacts import XCLBIN, Cache, Design
from hptp.npu.doctor import Check, Host, examine, exit_status

DESIGN = Design("npu", 4, 16, 16, 4, 1, 1, 2, "transpose_4x4")
LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  {0}  {0}  bytes\n"
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
OTHER_PYTHON = ".cpython-39-x86_64-linux-gnu.so"


class Machine:
    """A root folder with everything in place; tests take things away."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("sys/module/amdxdna/version", "2.20.0_20250101")
        self.write("proc/sys/kernel/osrelease", "6.14.0-generic")
        self.write("proc/self/limits", LIMITS.format("unlimited"))
        self.write("dev/accel/accel0", "")
        self.write("sys/class/accel/accel0/device/vbnv", "RyzenAI-npu4")
        self.write("sys/class/accel/accel0/device/fw_version", "1.0.0.63")
        xrt = "opt/xilinx/xrt"
        self.write(f"{xrt}/version.json", '{"BUILD_VERSION": "2.20.0"}')
        for library in ("libxrt_coreutil.so.2", "libxrt_driver_xdna.so.2"):
            self.write(f"{xrt}/lib/{library}", "")
        self.write(f"{xrt}/python/pyxrt{SUFFIX}", "")
        self.tool(f"{xrt}/bin/xclbinutil")
        self.write("site/aie/iron/__init__.py", "")
        self.write("site/aie/iron/placers.py", "class SequentialPlacer: ...")
        self.mlir_aie = self.root / "mlir_aie"
        self.write("mlir_aie/include/aie_api/aie.hpp", "")
        self.tool("mlir_aie/bin/aiecc")
        self.tool("site/llvm-aie/bin/clang++")
        self.environment = {
            "HPTP_CACHE_DIR": str(root / "cache"),
            "MLIR_AIE_INSTALL_DIR": str(self.mlir_aie),
            "PATH": "",
        }
        self.packages = [str(root / "site"), str(root / xrt / "python")]
        Cache(root / "cache").store(DESIGN, "t", lambda f: (f / XCLBIN).touch())

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def tool(self, path: str) -> None:
        self.write(path, "#!/bin/sh\n").chmod(0o755)

    def remove(self, path: str) -> None:
        target = self.root / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    def examine(self, **changes: object) -> dict[str, Check]:
        host = Host(self.root, self.environment, self.packages, lambda path: True, lambda name: "")
        return {check.name: check for check in examine(replace(host, **changes))}  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_good_machine_is_ok(machine: Machine) -> None:
    checks = machine.examine()
    assert {check.name: str(check) for check in checks.values() if check.status != "ok"} == {}
    assert exit_status(list(checks.values())) == 0
    assert not any(check.fix for check in checks.values())


def test_it_says_what_it_saw(machine: Machine) -> None:
    checks = machine.examine()
    for name, seen in {
        "driver": "2.20.0_20250101",
        "device": "RyzenAI-npu4",
        "memlock": "unlimited",
        "firmware": "1.0.0.63",
        "XRT": "2.20.0",
        "pyxrt": str(machine.root / "opt/xilinx/xrt/python"),
        "mlir-aie": "until March 2026",
        "programs": "1 compiled program",
    }.items():
        assert seen in checks[name].detail


Change = Callable[[Machine], None]
BROKEN: dict[str, tuple[Change, str, str, str, str]] = {
    # case: what is done to the machine, the check that notices, status, in the detail, in the fix
    "no driver": (
        lambda m: m.remove("sys/module/amdxdna"),
        "driver", "missing", "amdxdna is not loaded", "modprobe amdxdna",
    ),
    "no device": (
        lambda m: m.remove("dev/accel/accel0"),
        "device", "missing", "no /dev/accel", "dmesg",
    ),
    "unknown device": (
        lambda m: m.write("sys/class/accel/accel0/device/vbnv", "RyzenAI-npu99") and None,
        "device", "wrong", "RyzenAI-npu99", "xrt-smi",
    ),
    "memlock": (
        lambda m: m.write("proc/self/limits", LIMITS.format(8 << 20)) and None,
        "memlock", "wrong", "8192 KiB", "limits.d",
    ),
    "firmware unknown": (
        lambda m: m.remove("sys/class/accel/accel0/device/fw_version"),
        "firmware", "wrong", "does not tell", "dmesg",
    ),
    "firmware dead": (
        lambda m: m.write("sys/class/accel/accel0/device/fw_version", "0.0.0.0") and None,
        "firmware", "wrong", "0.0.0.0", "dmesg",
    ),
    "no XRT": (
        lambda m: m.remove("opt/xilinx/xrt/lib"),
        "XRT", "missing", "libxrt_coreutil", "xdna-driver",
    ),
    "no plug-in": (
        lambda m: m.remove("opt/xilinx/xrt/lib/libxrt_driver_xdna.so.2"),
        "XRT", "wrong", "plug-in", "xrt_plugin",
    ),
    "no pyxrt": (
        lambda m: m.remove("opt/xilinx/xrt/python"),
        "pyxrt", "missing", "none found", "install XRT",
    ),
    "pyxrt of another Python": (
        lambda m: (m.root / f"opt/xilinx/xrt/python/pyxrt{SUFFIX}").rename(
            m.root / f"opt/xilinx/xrt/python/pyxrt{OTHER_PYTHON}"
        ) and None,
        "pyxrt", "wrong", "cp39", "use that Python",
    ),
    "XRT not set up": (
        lambda m: m.packages.pop() and None,
        "pyxrt", "wrong", "is there", "setup.sh",
    ),
    "pyxrt of the distribution": (
        lambda m: m.remove("opt/xilinx/xrt/python")
        or (m.write(f"usr/lib/python3/dist-packages/pyxrt{SUFFIX}", "") and None),
        "pyxrt", "wrong", "is there", "--system-site-packages",
    ),
    "no mlir-aie": (
        lambda m: m.remove("site/aie"),
        "mlir-aie", "missing", "no package `aie`", "pip install mlir_aie",
    ),
    "no headers": (
        lambda m: m.remove("mlir_aie/include"),
        "AIE API", "missing", "aie.hpp", "pip install mlir_aie",
    ),
    "no Peano": (
        lambda m: m.remove("site/llvm-aie"),
        "Peano", "missing", "not found", "PEANO_INSTALL_DIR",
    ),
    "no aiecc": (
        lambda m: m.remove("mlir_aie/bin"),
        "aiecc", "missing", "not found", "mlir-aie",
    ),
    "no xclbinutil": (
        lambda m: m.remove("opt/xilinx/xrt/bin"),
        "xclbinutil", "missing", "not found", "setup.sh",
    ),
    "no programs": (
        lambda m: m.remove("cache"),
        "programs", "missing", "0 compiled programs", "hptp build",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_named_with_its_fix(machine: Machine, case: str) -> None:
    change, name, status, detail, fix = BROKEN[case]
    change(machine)
    check = machine.examine()[name]
    assert check.status == status
    assert detail in check.detail
    assert fix in check.fix
    assert exit_status([check]) == 1


def test_a_device_of_another_group_is_named_with_its_fix(machine: Machine) -> None:
    check = machine.examine(usable=lambda path: False)["permissions"]
    assert (check.status, "render" in check.fix) == ("wrong", True)
    assert str(machine.root / "dev/accel/accel0") in check.detail


@pytest.mark.parametrize("module, name", [("pyxrt", "pyxrt"), ("aie.iron", "mlir-aie")])
def test_a_module_that_does_not_load_is_quoted(machine: Machine, module: str, name: str) -> None:
    def import_error(imported: str) -> str:
        return "ImportError: libxrt_coreutil.so.2" if imported == module else ""

    checks = machine.examine(import_error=import_error)
    assert [check.name for check in checks.values() if check.status != "ok"] == [name]
    assert "does not load: ImportError: libxrt_coreutil.so.2" in checks[name].detail
    assert checks[name].fix


def test_modules_are_imported_in_a_process_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fine.py").write_text("")
    (tmp_path / "crashing.py").write_text("import os; os._exit(11)")
    monkeypatch.syspath_prepend(tmp_path)
    import_error = Host().import_error
    assert import_error("fine") == ""
    assert import_error("crashing") == "exit status 11"
    assert import_error("absent") == "ModuleNotFoundError: No module named 'absent'"


def test_the_permission_check_opens_the_device_as_this_user(machine: Machine) -> None:
    node = machine.root / "dev/accel/accel0"
    assert doctor.Host().usable(node)
    assert not doctor.Host().usable(machine.root / "dev/accel/accel1")


def test_programs_of_other_sources_are_stale(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "program_sources", lambda: "edited")
    check = machine.examine()["programs"]
    assert (check.status, "1 from other sources" in check.detail) == ("wrong", True)


def test_the_generations_of_iron_are_told_apart(machine: Machine) -> None:
    machine.remove("site/aie/iron/placers.py")
    machine.write("site/aie/iron/runtime/runtime.py", "def sequence(self): ...")
    assert "spring 2026" in machine.examine()["mlir-aie"].detail
    machine.write("site/aie/iron/runtime/runtime.py", "def fill(self): ...")
    assert "1.4 or later" in machine.examine()["mlir-aie"].detail


def test_aiecc_may_be_the_older_script(machine: Machine) -> None:
    machine.remove("mlir_aie/bin/aiecc")
    machine.tool("mlir_aie/bin/aiecc.py")
    assert machine.examine()["aiecc"].detail.endswith("aiecc.py")


def test_every_check_says_whom_it_concerns(machine: Machine) -> None:
    build = {name for name, check in machine.examine().items() if check.need == "build"}
    assert build == {"mlir-aie", "AIE API", "Peano", "aiecc", "xclbinutil"}


def test_an_empty_machine_is_examined_to_the_end(tmp_path: Path) -> None:
    checks = examine(Host(tmp_path, {"HOME": str(tmp_path), "PATH": ""}, []))
    assert [check.status for check in checks if check.status == "ok"] == []
    assert all(check.fix for check in checks)


def test_the_command_prints_every_check_and_exits_accordingly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)
    assert status == int(any(check["status"] != "ok" for check in checks))
    assert {"name", "status", "need", "detail", "fix"} == set(checks[0])
    assert main(["doctor", "--for", "run"]) in (0, 1)
    text = capsys.readouterr().out
    assert "pyxrt" in text
    assert "Peano" not in text


@pytest.mark.skipif(os.name != "posix", reason="the NPU's driver is for Linux")
def test_this_machine_gets_an_answer() -> None:
    names = [check.name for check in examine(Host())]
    assert names[:3] == ["driver", "device", "permissions"]
    assert len(names) == len(set(names)) == 13
    assert sys.version_info >= (3, 10)
