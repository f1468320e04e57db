"""`make run`: transpose one matrix with the design, on the best thing this machine has.

    an NPU, and a compiled program or the tools to make one   on the NPU
    mlir-aie                                                  emit the MLIR, and an xclbin where all
                                                              tools are; then interpret
    neither                                                   interpret

Parameters come from the environment (M N m n s dtype device kernel). Prints which way it goes and
why, the plan, the matrices, time and speed, and PASS or FAIL with the first wrong element.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aie_design import build, combined_transpose, frontend
from aie_design.build import Toolchain
from aie_design.combined_transpose import KERNEL_OBJECT, kernel_symbol, tile_type_of
from aie_design.instructions import assemble, to_bytes
from aie_design.plan import DEVICES, TransposePlan
from hptp.errors import DeviceError, PlanError
from hptp.npu import runtime
from hptp.npu.artifacts import Artifact, Cache, Design
from hptp.sim import kernels, run_program

Array = NDArray[Any]

MLIR_FILE = Path("build") / "design.mlir"
MOST_PRINTED = 1024  # elements of a matrix that are all shown; of a larger one, its corners


class ElementType(NamedTuple):
    """An element type by what the design sees of it, its width, and how to fill and show it."""

    dtype: np.dtype[Any]
    num_exact: int  # the integers below this are exact
    show: Callable[[Array], Array] = lambda x: x


def _bf16_as_f32(x: Array) -> Array:
    return (x.astype(np.uint32) << 16).view(np.float32)


DTYPES = {
    "i8": ElementType(np.dtype(np.int8), 1 << 7),
    "i16": ElementType(np.dtype(np.int16), 1 << 15),
    "i32": ElementType(np.dtype(np.int32), 1 << 31),
    "i64": ElementType(np.dtype(np.int64), 1 << 62),
    "bf16": ElementType(np.dtype(np.uint16), 1 << 8, _bf16_as_f32),
    "f16": ElementType(np.dtype(np.float16), 1 << 11),
    "f32": ElementType(np.dtype(np.float32), 1 << 24),
    "f64": ElementType(np.dtype(np.float64), 1 << 53),
}
KERNELS = ("transpose", "copy")
DEFAULTS = {
    "M": "64",
    "N": "32",
    "m": "16",
    "n": "16",
    "s": "4",
    "dtype": "i32",
    "device": "npu",
    "kernel": "transpose",
}


@dataclass(frozen=True)
class Parameters:
    """What to run: a legal plan, the element type and the core function."""

    plan: TransposePlan
    dtype: str
    kernel: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Parameters:
        """The parameters, with defaults for those that are not set; `device` is the one here.

        Raises:
            PlanError: one line for each parameter that is not possible.
        """
        defaults = {**DEFAULTS, "device": _npu_model() or DEFAULTS["device"]}
        given = {name: environment.get(name) or default for name, default in defaults.items()}
        wrong = []
        for name, allowed in (("dtype", DTYPES), ("device", DEVICES), ("kernel", KERNELS)):
            if given[name] not in allowed:
                wrong.append(f"{name}={given[name]} is none of {', '.join(allowed)}")
        sizes = {}
        for name in ("M", "N", "m", "n", "s"):
            try:
                sizes[name] = int(given[name])
            except ValueError:
                wrong.append(f"{name}={given[name]} is not an integer")
        if not wrong:
            elem_bytes = DTYPES[given["dtype"]].dtype.itemsize
            M, N, m, n, s = sizes.values()
            plan = TransposePlan(M, N, m, n, s, elem_bytes, device=given["device"])
            wrong = plan.violations()
        if wrong:
            raise PlanError("\n".join(wrong))
        return cls(plan, given["dtype"], given["kernel"])


# --- Where to run ----------------------------------------------------------------------------


class Way(NamedTuple):
    """Where to run and why; the artifact says it is the NPU."""

    text: str
    artifact: Artifact | None = None


def choose_way(parameters: Parameters) -> Way:
    """Find out what this machine can do, building what can be built."""
    plan, kernel = parameters.plan, parameters.kernel
    toolchain = Toolchain.find()
    missing = ", ".join(tool.name for tool in toolchain.missing())
    no_npu = _why_no_npu(plan)
    if not no_npu:
        tools = None if missing else toolchain.fingerprint()
        design = Design.of(plan.representative(), kernel_symbol(plan, kernel))
        if artifact := Cache().find(design, tools):
            return Way(f"on the NPU, with the program in {artifact.folder}", artifact)
        if not missing:
            artifact = build.build(plan, kernel, toolchain=toolchain)
            return Way(f"on the NPU, with the program just built in {artifact.folder}", artifact)
        no_npu = "there is an NPU, but no program for this tile"
    text = f"interpreted here: {no_npu}"
    if toolchain.mlir_aie.path is not None:
        MLIR_FILE.parent.mkdir(exist_ok=True)
        MLIR_FILE.write_text(build.emit_mlir(plan, kernel))
        text += f"\nthe MLIR is in {MLIR_FILE}"
    if missing:
        return Way(f"{text}\nto compile for an NPU, missing: {missing}")
    artifact = build.build(plan, kernel, toolchain=toolchain)
    return Way(f"{text}\nthe program for an NPU is in {artifact.folder}")


def _npu_model() -> str | None:
    """The model of this machine's NPU, if it has one that works."""
    try:
        return runtime.npu().model.device
    except DeviceError:
        return None


def _why_no_npu(plan: TransposePlan) -> str:
    """Why the NPU cannot be used; empty if it can."""
    try:
        model = runtime.npu().model.device
    except DeviceError as error:
        return f"no NPU ({str(error).removeprefix('npu: ')})"
    return "" if model == plan.device else f"the NPU here is {model}, not {plan.device}"


def transpose(parameters: Parameters, artifact: Artifact | None, x: Array, out: Array) -> float:
    """Run the design from `x` into `out`, on the NPU if there is an artifact; the seconds taken."""
    plan, kernel = parameters.plan, parameters.kernel
    if artifact is None:
        program = combined_transpose.build(plan, frontend.load("sim"), kernel)
        tile_type = tile_type_of(plan)
        kernels.load(kernel_symbol(plan, kernel), KERNEL_OBJECT, [tile_type, tile_type])
        start = time.perf_counter()
        run_program(program, [x, out])
        return time.perf_counter() - start
    words = to_bytes(assemble(plan))
    start = time.perf_counter()
    runtime.npu().execute(
        artifact,
        [words],
        x.nbytes,
        load=lambda address: _copy(address, x.ctypes.data, x.nbytes),
        unload=lambda address: _copy(out.ctypes.data, address, x.nbytes),
    )
    return time.perf_counter() - start


def _copy(target: int, source: int, nbytes: int) -> None:
    ctypes.memmove(target, source, nbytes)


# --- The matrix ------------------------------------------------------------------------------


def make_input(parameters: Parameters) -> Array:
    """An M×N matrix: the index of each element, or random numbers if the type cannot hold it."""
    plan, element = parameters.plan, DTYPES[parameters.dtype]
    size = plan.M * plan.N
    values = np.arange(size)
    if size > element.num_exact:
        values = np.random.default_rng(0).integers(0, element.num_exact, size)
    if parameters.dtype == "bf16":
        return (
            (values.astype(np.float32).view(np.uint32) >> 16)
            .astype(np.uint16)
            .reshape(plan.M, plan.N)
        )
    return values.astype(element.dtype).reshape(plan.M, plan.N)


def expected_output(parameters: Parameters, x: Array) -> Array:
    """The transposed matrix, or with `copy` the one whose s×s blocks are transposed as a whole."""
    if parameters.kernel == "transpose":
        return np.ascontiguousarray(x.T)
    (rows, cols), s = x.shape, parameters.plan.s
    blocks = x.reshape(rows // s, s, cols // s, s)
    return np.ascontiguousarray(blocks.transpose(2, 1, 0, 3).reshape(cols, rows))


def verdict(parameters: Parameters, out: Array, expected: Array) -> str:
    """PASS, or FAIL with the number of wrong elements and the first of them; bits are compared."""
    unsigned = f"u{out.itemsize}"
    wrong = np.flatnonzero(out.view(unsigned) != expected.view(unsigned))
    if not wrong.size:
        return "PASS"
    show = DTYPES[parameters.dtype].show
    row, col = divmod(int(wrong[0]), out.shape[1])
    return (
        f"FAIL: {wrong.size} of {out.size} elements are wrong, the first at [{row}, {col}]: "
        f"{show(out)[row, col]} instead of {show(expected)[row, col]}"
    )


def show_matrix(name: str, x: Array) -> str:
    """A matrix, whole if it is small."""
    text = np.array2string(x, threshold=MOST_PRINTED, edgeitems=4, max_line_width=120)
    return f"{name} {x.shape[0]}x{x.shape[1]}\n{text}"


# --- The verb --------------------------------------------------------------------------------


def run(environment: Mapping[str, str]) -> int:
    """Do it all; the exit status: 0 for PASS, 1 for FAIL.

    Raises:
        PlanError: the parameters are not possible.
        DeviceError: the device or a tool failed, or there is no C++ compiler.
    """
    parameters = Parameters.from_environment(environment)
    plan, element = parameters.plan, DTYPES[parameters.dtype]
    print(f"kernel {parameters.kernel}, dtype {parameters.dtype}\n{plan.describe()}\n")
    way = choose_way(parameters)
    print(f"{way.text}\n", flush=True)
    x = make_input(parameters)
    expected = expected_output(parameters, x)
    out = np.zeros_like(expected)
    seconds = transpose(parameters, way.artifact, x, out)
    matrices = {"input": x, "expected": expected, "output": out}
    print("\n\n".join(show_matrix(name, element.show(m)) for name, m in matrices.items()))
    where = "interpreted" if way.artifact is None else "with copies and dispatch"
    print(
        f"\n{x.nbytes} bytes in {seconds:.3g} s: {x.nbytes / seconds / 1e9:.3g} GB/s, {where}; "
        f"predicted for {plan.device}: {plan.predicted_seconds():.3g} s"
    )
    result = verdict(parameters, out, expected)
    print(result)
    return 0 if result == "PASS" else 1
