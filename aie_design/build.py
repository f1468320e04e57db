"""Compiling the design: plan → MLIR → kernel object (Peano) → xclbin and instructions (aiecc).

None of the tools is on a package registry under a name that installs by itself, so the first thing
this file knows is where each one is looked for and how to get it. `build` then runs them, shows
what it is doing (aiecc takes about a minute), checks that the output is really there — aiecc
without XRT's xclbinutil succeeds and writes no xclbin — and leaves the result in the artifact
cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aie_design import combined_transpose, frontend
from aie_design.instructions import assemble, to_bytes
from aie_design.plan import TransposePlan
from hptp.errors import DeviceError
from hptp.npu.artifacts import INSTRUCTIONS, XCLBIN, Artifact, Cache, Design, digest
from hptp.npu.models import ISAS
from hptp.npu.xrt import ROOT, xrt_folder

MLIR = "design.mlir"
KERNELS = Path(__file__).parent.parent / "aie_kernels"

PEANO_FLAGS = (
    "-O2",
    "-std=c++20",
    "-DNDEBUG",
    "-Wno-parentheses",
    "-Wno-attributes",
    "-Wno-macro-redefined",
    "-Wno-empty-body",
    "-Wno-missing-template-arg-list-after-template-kw",
    # The guard of the one AIE API header that needs adf.h, which only Vitis has.
    "-D__AIE_API_AIE_ADF_HPP__",
)
AIECC_FLAGS = (
    "--no-compile-host",
    "--no-xchesscc",
    "--no-xbridge",
    "--aie-generate-xclbin",
    f"--xclbin-name={XCLBIN}",
    "--aie-generate-npu-insts",
    f"--npu-insts-name={INSTRUCTIONS}",
)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Tool:
    """One thing a build needs: where it is (None: nowhere) and how to get it."""

    name: str
    path: Path | None
    fix: str


@dataclass(frozen=True)
class Toolchain:
    """The tools of one build, found in an environment; `mlir_aie` is its installation folder."""

    mlir_aie: Tool
    peano: Tool
    aiecc: Tool
    xclbinutil: Tool

    @classmethod
    def find(
        cls,
        environment: Mapping[str, str] = os.environ,
        packages: Sequence[str] = tuple(sys.path),
        root: Path = ROOT,
    ) -> Toolchain:
        """Look for every tool where its own set-up script or wheel puts it.

        `packages` is a Python module path; `root` stands in for `/` where a fixed place is meant.
        """
        mlir_aie = _mlir_aie_folder(environment, packages)
        peano = _peano_folder(environment, packages)
        bin_folders = [mlir_aie / "bin"] if mlir_aie else []
        return cls(
            Tool(
                "mlir-aie",
                mlir_aie,
                "pip install mlir_aie -f "
                "https://github.com/Xilinx/mlir-aie/releases/expanded_assets/latest-wheels-4",
            ),
            Tool(
                "Peano",
                peano,
                "pip install llvm-aie -f "
                "https://github.com/Xilinx/llvm-aie/releases/expanded_assets/nightly, "
                "or set PEANO_INSTALL_DIR to the folder that holds bin/clang++",
            ),
            # A native binary since March 2026, a Python script before that.
            Tool(
                "aiecc",
                _which(("aiecc", "aiecc.py"), environment, bin_folders),
                "it comes with mlir-aie: put that installation's bin folder on PATH",
            ),
            Tool(
                "xclbinutil",
                _which(("xclbinutil",), environment, [xrt_folder(root, environment) / "bin"]),
                "it comes with XRT: install XRT and the driver from "
                "https://github.com/amd/xdna-driver, or run `source /opt/xilinx/xrt/setup.sh`",
            ),
        )

    def tools(self) -> tuple[Tool, ...]:
        return (self.mlir_aie, self.peano, self.aiecc, self.xclbinutil)

    def missing(self) -> list[Tool]:
        """The tools that were not found."""
        return [tool for tool in self.tools() if tool.path is None]

    def fingerprint(self) -> str:
        """A key that changes whenever a tool or a header does.

        Size and time of the files stand in for their versions: nightly builds share a version, and
        asking every tool for one would cost a second in every process.
        """
        headers = sorted((self._path(self.mlir_aie) / "include").rglob("*.h*"))
        binaries = [self.clang, self._path(self.aiecc), self._path(self.xclbinutil)]
        stats = ((file, file.stat()) for file in (*binaries, *headers))
        return digest(*(f"{file} {stat.st_size} {stat.st_mtime_ns}" for file, stat in stats))

    @property
    def clang(self) -> Path:
        return self._path(self.peano) / "bin" / "clang++"

    def kernel_command(self, plan: TransposePlan) -> list[str]:
        """Compile the core functions for the tiles of `plan`."""
        return [
            str(self.clang),
            *PEANO_FLAGS,
            f"--target={ISAS[plan.device]}-none-unknown-elf",
            *combined_transpose.kernel_defines(plan),
            *("-I", str(self._path(self.mlir_aie) / "include")),
            *("-c", str(KERNELS / combined_transpose.KERNEL_SOURCE)),
            *("-o", combined_transpose.KERNEL_OBJECT),
        ]

    def aiecc_command(self) -> list[str]:
        """Compile `design.mlir` and the kernel object, both in the current folder."""
        return [str(self._path(self.aiecc)), *AIECC_FLAGS, f"--peano={self.peano.path}", MLIR]

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What the tools run in: `environment`, with PATH leading to what they call themselves.

        The folders come last: one may be /usr/bin, and `aiecc.py` needs the first python3 to stay.
        """
        folders = [str(self._path(tool).parent) for tool in (self.xclbinutil, self.aiecc)]
        return {**environment, "PATH": os.pathsep.join([environment.get("PATH", ""), *folders])}

    def _path(self, tool: Tool) -> Path:
        if tool.path is None:
            raise DeviceError(f"{tool.name} is missing: {tool.fix}")
        return tool.path


def _which(
    names: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path]
) -> Path | None:
    """The first of `names` in `folders`, then on PATH."""
    path = os.pathsep.join([*map(str, folders), environment.get("PATH", "")])
    for name in names:
        if found := shutil.which(name, path=path):
            return Path(found)
    return None


def _mlir_aie_folder(environment: Mapping[str, str], packages: Sequence[str]) -> Path | None:
    """The folder with bin/, include/ and python/aie/, if `import aie.iron` would find it."""
    for folder in map(Path, packages):
        if (folder / "aie" / "iron" / "__init__.py").is_file():
            chosen = environment.get("MLIR_AIE_INSTALL_DIR")
            return Path(chosen) if chosen else folder.parent
    return None


def _peano_folder(environment: Mapping[str, str], packages: Sequence[str]) -> Path | None:
    """The folder with bin/clang++: PEANO_INSTALL_DIR, or the llvm-aie wheel's."""
    chosen = environment.get("PEANO_INSTALL_DIR")
    places = [Path(chosen)] if chosen else [Path(folder) / "llvm-aie" for folder in packages]
    return next((place for place in places if (place / "bin" / "clang++").is_file()), None)


def print_progress(line: str) -> None:
    """Show a build's progress on stderr; on a terminal a step's line counts its seconds."""
    if sys.stderr.isatty():
        print(
            f"\r\x1b[K{line}", end="" if line.endswith("…") else "\n", file=sys.stderr, flush=True
        )
    elif not line.endswith("…"):
        print(line, file=sys.stderr, flush=True)


def build(
    plan: TransposePlan,
    kernel: str = "transpose",
    *,
    cache: Cache | None = None,
    toolchain: Toolchain | None = None,
    progress: Progress = print_progress,
) -> Artifact:
    """The compiled design for `plan`, from the cache if these tools and sources made it before.

    What is compiled is the plan's `representative`: the shape does not matter, and shows nowhere.

    Raises:
        PlanError: the plan breaks a limit.
        DeviceError: a tool is missing (all of them are named), failed, or wrote no output.
    """
    plan.check()
    plan = plan.representative()
    cache = cache or Cache()
    toolchain = toolchain or Toolchain.find()
    if missing := toolchain.missing():
        lines = [f"  {tool.name} is missing: {tool.fix}" for tool in missing]
        raise DeviceError("\n".join(["an NPU program cannot be built here:", *lines]))
    design = Design.of(plan, combined_transpose.kernel_symbol(plan, kernel))
    tools = toolchain.fingerprint()
    with cache.lock(design):
        found = cache.find(design, tools)
        if found is not None:
            return found
        progress(f"building {design}")
        return cache.store(
            design, tools, lambda folder: _compile(plan, kernel, toolchain, folder, progress)
        )


def _compile(
    plan: TransposePlan, kernel: str, toolchain: Toolchain, folder: Path, progress: Progress
) -> None:
    """Run the three steps in a folder of their own below `folder`, and move the results up."""
    work = folder / "work"
    work.mkdir()
    environment = toolchain.environment(os.environ)
    with _step("1/3 design → MLIR", progress):
        (work / MLIR).write_text(emit_mlir(plan, kernel))
    _run(toolchain.kernel_command(plan), "2/3 kernel → object", work, environment, progress)
    _run(toolchain.aiecc_command(), "3/3 MLIR → xclbin", work, environment, progress)
    for name, maker in ((XCLBIN, "xclbinutil"), (INSTRUCTIONS, "aiecc")):
        if not (work / name).is_file() or not (work / name).stat().st_size:
            raise DeviceError(f"aiecc reported success but wrote no {name}: does {maker} work?")
        shutil.move(work / name, folder / name)
    _compare_instructions(plan, (folder / INSTRUCTIONS).read_bytes(), progress)
    shutil.rmtree(work)


def emit_mlir(plan: TransposePlan, kernel: str) -> str:
    """The design as MLIR, through the installed mlir-aie.

    Raises:
        DeviceError: mlir-aie is missing, or none of its known generations.
    """
    return str(combined_transpose.build(plan, frontend.load("iron"), kernel))


def _compare_instructions(plan: TransposePlan, compiled: bytes, progress: Progress) -> None:
    """Say so if this compiler writes other words than `instructions` does.

    The assembled ones are used in any case, for they also serve the shapes the compiler never sees;
    a difference can be as harmless as another order of descriptors, or mean a new format.
    """
    if compiled != to_bytes(assemble(plan)):
        progress(
            f"note: aiecc's {INSTRUCTIONS} differs from the assembled words; report it together "
            "with the version of mlir-aie"
        )


@contextmanager
def _step(name: str, progress: Progress) -> Iterator[Callable[[], None]]:
    """Announce a step, then say how long it took; the value yielded repaints the seconds."""
    start = time.monotonic()

    def tick() -> None:
        progress(f"{name} … {time.monotonic() - start:.0f} s …")

    progress(f"{name} …")
    yield tick
    progress(f"{name}: {time.monotonic() - start:.1f} s")


def _run(
    command: list[str],
    name: str,
    folder: Path,
    environment: Mapping[str, str],
    progress: Progress,
) -> None:
    """Run one tool in `folder`; on failure raise with the command and the end of its output."""
    with (
        _step(name, progress) as tick,
        subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        while True:
            try:
                output, _ = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                tick()
            except BaseException:
                process.kill()
                raise
    if process.returncode != 0:
        tail = "\n".join(output.splitlines()[-20:])
        raise DeviceError(
            f"{Path(command[0]).name} failed with status {process.returncode}: "
            f"{' '.join(command)}\n{tail}"
        )
