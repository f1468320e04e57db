"""The AIE compiler, as far as an instruction stream and a configuration need it.

Nothing here knows how a transpose works. `require` finds mlir-aie or skips the module that asks;
`lower` sends an MLIR module through the passes of `aiecc` (no core is compiled, no xclbin written)
and returns the words that would be executed: the runtime sequence, and the configuration that
loading the xclbin writes into the array, buffer descriptors of memtiles and cores included.
"""

from __future__ import annotations

import importlib.util
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from aie_design.build import Toolchain

# The pass pipeline of mlir-aie's tools/aiecc/aiecc.cpp: allocation of resources, routing and the
# runtime sequence. Left out: vectorisation, packet broadcast and multicast, none of which we use.
ALLOCATE = ",".join(
    (
        "aie-assign-lock-ids",
        "aie-register-objectFifos",
        "aie-objectFifo-stateful-transform",
        "aie-assign-bd-ids",
        "aie-lower-cascade-flows",
        "aie-assign-tile-controller-ids",
        "aie-generate-column-control-overlay{route-shim-to-tile-ctrl=false}",
        "aie-assign-buffer-addresses",
        "aie-vector-transfer-lowering",
    )
)
SEQUENCE = ",".join(
    (
        "aie-materialize-bd-chains",
        "aie-substitute-shim-dma-allocations",
        "aie-assign-runtime-sequence-bd-ids",
        "aie-dma-tasks-to-npu",
        "aie-dma-to-npu",
        "aie-lower-set-lock",
    )
)
PIPELINE = (
    f"builtin.module(lower-affine,aie-canonicalize-device,aie.device({ALLOCATE}),"
    "convert-scf-to-cf,aie.device(aie-create-pathfinder-flows),aie-materialize-runtime-sequences,"
    f"aie.device({SEQUENCE}))"
)
CORES = (
    "builtin.module(aie.device(aie-localize-locks,aie-normalize-address-spaces),"
    "aie-standard-lowering,aiex-standard-lowering,expand-strided-metadata,lower-affine,"
    "finalize-memref-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},"
    "convert-to-llvm,canonicalize)"
)
CONFIGURE = "builtin.module(aie.device(convert-aie-to-transaction))"


class CompilerError(Exception):
    """The compiler refused a design; its message is the exception's."""


class Lowered(NamedTuple):
    """What the compiler made of a module: MLIR with everything placed, and two word streams."""

    mlir: str
    sequence: tuple[int, ...]
    configuration: tuple[int, ...]


def require() -> None:
    """Skip the calling test module, with the reason, unless mlir-aie is installed."""
    if importlib.util.find_spec("aie") is None or importlib.util.find_spec("aie.iron") is None:
        pytest.skip("mlir-aie is not importable (no module aie.iron)", allow_module_level=True)
    for name in ("aie-opt", "aie-translate"):
        if not _tool(name).is_file():
            reason = f"mlir-aie is importable, but there is no {_tool(name)}"
            pytest.skip(reason, allow_module_level=True)


def lower(module: str) -> Lowered:
    """Lower `module`, the text of an MLIR module with one device and one runtime sequence.

    Raises:
        CompilerError: a pass refused it.
    """
    placed = _run("aie-opt", [f"--pass-pipeline={PIPELINE}"], module)
    configured = _run("aie-opt", [f"--pass-pipeline={CONFIGURE}"], placed)
    sequence = _words(placed)
    return Lowered(placed.decode(), sequence, _words(configured, "--aie-sequence-name=configure"))


def lower_cores(lowered: Lowered) -> str:
    """The cores' programs in the LLVM dialect, which is what Peano compiles."""
    return _run("aie-opt", [f"--pass-pipeline={CORES}"], lowered.mlir).decode()


def _words(mlir: bytes, *options: str) -> tuple[int, ...]:
    binary = _run("aie-translate", ["--aie-npu-to-binary", *options], mlir)
    return struct.unpack(f"<{len(binary) // 4}I", binary)


def _run(tool: str, options: list[str], text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    result = subprocess.run([_tool(tool), *options], input=data, capture_output=True, check=False)
    if result.returncode:
        raise CompilerError(result.stderr.decode(errors="replace"))
    return result.stdout


def _tool(name: str) -> Path:
    folder = Toolchain.find().mlir_aie.path
    assert folder is not None
    return folder / "bin" / name
