"""What stands between this machine and a permute on its NPU, one line a cause.

Each check answers ok, missing or wrong with what it saw and what to do about it; the causes are
those people report publicly (npu: driver, device node, group, memlock, versions, pyxrt's Python;
build: mlir-aie, Peano, aiecc, xclbinutil). A check reads files and the environment through a
`Host`, so that tests can stand up any machine in a folder.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aie_design.build import Tool, Toolchain
from hptp.npu.artifacts import Cache, cache_dir, program_sources
from hptp.npu.models import MODELS, model_named
from hptp.npu.xrt import ABI, PYTHON, ROOT, bindings, why_not, xrt_folder

OK, MISSING, WRONG = "ok", "missing", "wrong"
RUN, BUILD = "run", "build"

# Below this, mapping buffers fails with err=-11 or the device is not listed at all (XRT issue 9132,
# xdna-driver issue 903). [?] The driver maps a heap of 64 MiB for instructions first.
MEMLOCK_BYTES = 64 << 20
INSTALL = "install the driver and XRT from https://github.com/amd/xdna-driver"


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, how it is, what was seen and how to fix it.

    `need` says what fails without it: "run" (using the NPU) or "build" (compiling programs for it).
    """

    name: str
    status: str
    need: str
    detail: str
    fix: str = ""

    def __str__(self) -> str:
        line = f"{self.name:14} {self.status:8} {self.detail}"
        return f"{line}\n{'':23}-> {self.fix}" if self.fix else line


def _readable_and_writable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _import_error(module: str) -> str:
    """Why importing a compiled module fails here, empty if it does not; it may crash, so apart."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"import {module}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return lines[-1] if done.returncode else ""


@dataclass(frozen=True)
class Host:
    """The machine under examination; tests give a folder for `root` and their own environment."""

    root: Path = ROOT
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    packages: Sequence[str] = tuple(sys.path)
    usable: Callable[[Path], bool] = _readable_and_writable
    import_error: Callable[[str], str] = _import_error

    def read(self, path: str) -> str | None:
        """A small file's text without surrounding space, or None."""
        try:
            return (self.root / path).read_text().strip()
        except OSError:
            return None


def examine(host: Host) -> list[Check]:
    """Every check, in the order in which a new machine is set up."""
    checks = [_driver(host), _device(host), _permissions(host), _memlock(host)]
    checks += [_firmware(host), _xrt(host), _pyxrt(host)]
    toolchain = Toolchain.find(host.environment, host.packages, host.root)
    checks += [_mlir_aie(host, toolchain.mlir_aie), _aie_headers(toolchain.mlir_aie)]
    checks += [_tool(tool) for tool in (toolchain.peano, toolchain.aiecc, toolchain.xclbinutil)]
    return [*checks, _programs(host)]


def exit_status(checks: Sequence[Check]) -> int:
    """0: the NPU can run and programs can be built; 1: something it needs is not there."""
    return int(any(check.status != OK for check in checks))


def as_json(checks: Sequence[Check]) -> str:
    """The checks as a JSON list of objects with the fields of `Check`."""
    return json.dumps([vars(check) for check in checks], indent=2)


# --- The driver and the device -------------------------------------------------------------------


def _devices(host: Host) -> list[Path]:
    return sorted((host.root / "dev/accel").glob("accel*"))


def _driver(host: Host) -> Check:
    kernel = host.read("proc/sys/kernel/osrelease") or "unknown"
    if (host.root / "sys/module/amdxdna").is_dir():
        version = host.read("sys/module/amdxdna/version")
        ours = f"version {version}" if version else "the kernel's own"
        return Check("driver", OK, RUN, f"amdxdna is loaded ({ours}, Linux {kernel})")
    fix = (
        "run `sudo modprobe amdxdna`; without such a module use Linux 6.14 or later, or " + INSTALL
    )
    return Check(
        "driver", MISSING, RUN, f"kernel module amdxdna is not loaded (Linux {kernel})", fix
    )


def _device(host: Host) -> Check:
    found = _devices(host)
    if not found:
        fix = (
            "enable the NPU (IPU) in the firmware set-up, then look at `sudo dmesg | grep amdxdna`"
        )
        return Check("device", MISSING, RUN, "no /dev/accel/accel*", fix)
    name = host.read(f"sys/class/accel/{found[0].name}/device/vbnv")
    if name is None:
        return Check("device", OK, RUN, f"{found[0]}; its driver does not tell the model")
    if model_named(name) is None:
        known = ", ".join(alias for model in MODELS for alias in model.names)
        return Check(
            "device",
            WRONG,
            RUN,
            f"{found[0]} is {name}, which hptp does not know ({known})",
            "report it together with `xrt-smi examine`",
        )
    return Check("device", OK, RUN, f"{found[0]} is {name}")


def _permissions(host: Host) -> Check:
    found = _devices(host)
    if not found:
        return Check("permissions", MISSING, RUN, "no device node to open", "see device")
    closed = [path for path in found if not host.usable(path)]
    if not closed:
        return Check("permissions", OK, RUN, f"{found[0]} can be read and written")
    fix = "run `sudo usermod -aG render $USER`, then log out and in again"
    return Check("permissions", WRONG, RUN, f"{closed[0]} cannot be read and written", fix)


def _memlock(host: Host) -> Check:
    limits = host.read("proc/self/limits") or ""
    found = re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE)
    fix = (
        "put `* - memlock unlimited` into /etc/security/limits.d/99-amdxdna.conf (for desktop "
        "sessions also LimitMEMLOCK=infinity into user@.service), then log in again"
    )
    if found is None:
        return Check(
            "memlock", WRONG, RUN, "`ulimit -l` is unknown: /proc/self/limits lacks it", fix
        )
    if found[1] == "unlimited":
        return Check("memlock", OK, RUN, "unlimited")
    size = f"{int(found[1]) >> 10} KiB"
    if int(found[1]) < MEMLOCK_BYTES:
        return Check("memlock", WRONG, RUN, f"`ulimit -l` is {size}: buffers cannot be mapped", fix)
    return Check("memlock", OK, RUN, size)


def _firmware(host: Host) -> Check:
    found = _devices(host)
    if not found:
        return Check("firmware", MISSING, RUN, "no device to ask", "see device")
    version = host.read(f"sys/class/accel/{found[0].name}/device/fw_version")
    fix = (
        "look for `amdxdna` in `sudo dmesg`: firmware and driver must be of one release "
        "(linux-firmware, or the driver's own package)"
    )
    if version is None:
        return Check("firmware", WRONG, RUN, "the driver does not tell its version", fix)
    if set(version) <= {"0", "."}:
        return Check("firmware", WRONG, RUN, f"version {version}: it did not start", fix)
    return Check("firmware", OK, RUN, f"version {version}")


# --- XRT -----------------------------------------------------------------------------------------


def _xrt(host: Host) -> Check:
    folder = xrt_folder(host.root, host.environment)
    libraries = _libraries(host, folder, "xrt_coreutil")
    if not libraries:
        return Check("XRT", MISSING, RUN, f"no libxrt_coreutil in {folder} or /usr/lib", INSTALL)
    version = _xrt_version(folder, libraries)
    if not _libraries(host, folder, "xrt_driver_xdna"):
        return Check(
            "XRT",
            WRONG,
            RUN,
            f"version {version} has no NPU plug-in (libxrt_driver_xdna)",
            "install the xrt_plugin-amdxdna package of the same version",
        )
    return Check("XRT", OK, RUN, f"version {version} in {libraries[0].parent}")


def _libraries(host: Host, folder: Path, name: str) -> list[Path]:
    """A shared library of XRT's, in its own folder or where distributions put it."""
    patterns = [f"usr/lib/*/lib{name}.so*", f"usr/lib64/lib{name}.so*"]
    found = [path for pattern in patterns for path in sorted(host.root.glob(pattern))]
    return [*sorted(folder.glob(f"lib*/lib{name}.so*")), *found]


def _xrt_version(folder: Path, libraries: Sequence[Path]) -> str:
    """From XRT's own version.json, else from the number its library's file name carries."""
    try:
        return str(json.loads((folder / "version.json").read_text())["BUILD_VERSION"])
    except (OSError, ValueError, KeyError):
        numbered = (re.search(r"\.so\.(\d+\..*)", path.name) for path in libraries)
        return next((match[1] for match in numbered if match), "unknown")


def _pyxrt(host: Host) -> Check:
    found = bindings(host.root, host.environment, host.packages)
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    for binding in found:
        importable = str(binding.path.parent) in map(str, host.packages)
        if importable and binding.path.name.removeprefix("pyxrt") in suffixes:
            if error := host.import_error("pyxrt"):
                fix = "run `source setup.sh` in XRT's folder; XRT and pyxrt must be of one version"
                return Check("pyxrt", WRONG, RUN, f"{binding.path} does not load: {error}", fix)
            return Check("pyxrt", OK, RUN, f"{binding.path} for Python {PYTHON} ({ABI})")
    status = WRONG if found else MISSING
    reason, _, fix = why_not(found).rpartition(": ")
    return Check("pyxrt", status, RUN, reason, fix)


# --- The compiler --------------------------------------------------------------------------------


def _mlir_aie(host: Host, tool: Tool) -> Check:
    if tool.path is None:
        return Check("mlir-aie", MISSING, BUILD, f"no package `aie` for Python {PYTHON}", tool.fix)
    if error := host.import_error("aie.iron"):
        detail = f"{tool.path} does not load: {error}"
        return Check("mlir-aie", WRONG, BUILD, detail, "install what is missing, or: " + tool.fix)
    return Check("mlir-aie", OK, BUILD, f"{tool.path}, IRON {_generation(host)}")


def _generation(host: Host) -> str:
    """Which IRON this is, told by the feature that each generation dropped."""
    folders = (Path(folder) / "aie/iron" for folder in host.packages)
    iron = next(folder for folder in folders if folder.is_dir())
    if (iron / "placers.py").is_file():
        return "until March 2026 (placers)"
    runtime = iron / "runtime/runtime.py"
    if runtime.is_file() and "def sequence(" in runtime.read_text():
        return "of spring 2026 (Runtime.sequence)"
    return "1.4 or later"


def _aie_headers(tool: Tool) -> Check:
    header = "include/aie_api/aie.hpp"
    if tool.path is None:
        return Check("AIE API", MISSING, BUILD, "no mlir-aie to hold it", "see mlir-aie")
    if not (tool.path / header).is_file():
        return Check("AIE API", MISSING, BUILD, f"no {tool.path / header}", tool.fix)
    return Check("AIE API", OK, BUILD, str(tool.path / header))


def _tool(tool: Tool) -> Check:
    if tool.path is None:
        return Check(tool.name, MISSING, BUILD, "not found", tool.fix)
    return Check(tool.name, OK, BUILD, str(tool.path))


def _programs(host: Host) -> Check:
    root = cache_dir(host.environment)
    entries = Cache(root).entries()
    stale = [entry for entry in entries if entry.sources != program_sources()]
    count = f"{len(entries)} compiled program{'s' * (len(entries) != 1)} in {root}"
    if not entries:
        return Check(
            "programs", MISSING, RUN, count, "run `hptp build`, or let the first use build"
        )
    if stale:
        fix = f"run `hptp build`; `rm -r {root / 'npu'}` drops all of them"
        return Check("programs", WRONG, RUN, f"{count}, {len(stale)} from other sources", fix)
    return Check("programs", OK, RUN, count)
