"""The IRON program of a TransposePlan: fifos, workers, runtime sequence; nothing is decided here.

Each worker (column, channel) is a chain of three fifos:

    host ── in_c_k ──> memtile ── core_c_k ──> core ── out_c_k ──> host

The first writes tiles into the memtile in the order of their blocks. IRON creates fifos in the
order of their names, so these also number the memtile's descriptors and the shim's channels.

The core sees one tile of n rows and m columns at a time and knows nothing of the matrix, so one
compiled program serves every shape; only the runtime sequence, the plan's schedule, knows M and N.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aie_design.frontend import FIRST_CORE_ROW, Host, HostEnd, Iron
from aie_design.plan import WORD_BYTES, Finish, TransposePlan
from hptp.errors import PlanError

KERNEL_SOURCE, KERNEL_OBJECT = "transpose.cc", "transpose.o"

# uint64 would become MLIR's index type; only the width matters, so all are signed.
_LANES = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def kernel_symbol(plan: TransposePlan, kernel: str = "transpose") -> str:
    """The core function's name: "transpose" becomes that of the plan's s.

    With s=1 the DMA engines transpose whole elements on their own and the core copies.

    >>> kernel_symbol(TransposePlan(64, 32, 16, 16, 4, 4))
    'transpose_4x4'
    """
    if kernel not in ("transpose", "copy"):
        raise PlanError(f"kernel={kernel!r} is neither 'transpose' nor 'copy'")
    if kernel == "copy" or plan.s == 1:
        return "copy"
    return f"transpose_{plan.s}x{plan.s}"


def kernel_defines(plan: TransposePlan) -> list[str]:
    """Compiler options that fix the tile of the core functions in transpose.cc."""
    lane_bytes, lanes = _lanes(plan)
    return [f"-DELEM_BYTES={lane_bytes}", f"-DDIM_M={plan.m}", f"-DDIM_N={plan.n * lanes}"]


def build(plan: TransposePlan, iron: Iron, kernel: str = "transpose") -> Any:
    """The program that moves and transposes every tile of `plan`.

    Args:
        plan: must be legal, and leave no worker idle: an array is built from
            `plan.representative()` where a shape has too few tiles.
        iron: what to build it with, see `frontend.load`.
        kernel: "transpose", or "copy" to see what the data movement alone does.

    Returns:
        What `Iron.program` returns: an MLIR module or a program for `hptp.sim.run_program`.

    Raises:
        PlanError: the plan breaks a limit, or leaves a worker idle.
    """
    tile_type = tile_type_of(plan)
    function = iron.Kernel(kernel_symbol(plan, kernel), KERNEL_OBJECT, [tile_type, tile_type])

    def core(tiles_in: Any, tiles_out: Any, function: Any) -> None:
        tile_in, tile_out = tiles_in.acquire(1), tiles_out.acquire(1)
        function(tile_in, tile_out)
        tiles_out.release(1)
        tiles_in.release(1)

    return build_around(core, [function], plan, iron)


def build_around(
    core: Callable[..., None], core_args: Sequence[Any], plan: TransposePlan, iron: Iron
) -> Any:
    """The plan's data movement around any core function.

    `core(tiles_in, tiles_out, *core_args)` runs for ever; each time it must acquire and release one
    tile of both. The s×s blocks of a tile arrive untransposed but in place.
    """
    plan.check()
    if idle := [worker for worker in plan.workers() if not plan.tasks_of(*worker)]:
        raise PlanError(f"idle workers (column, channel): {idle}; build plan.representative()")
    lane_bytes, lanes = _lanes(plan)
    tile_type = tile_type_of(plan)
    into_l2 = plan.taps().into_l2.widened(lanes)
    ends: dict[tuple[int, int, str], HostEnd] = {}
    workers = []
    for column in range(plan.columns):
        shim, memtile = iron.tile(column, 0), iron.tile(column, 1)
        for channel in range(plan.channels):
            name = f"{column}_{channel}"
            fifo_in = iron.fifo(tile_type, f"in_{name}", plan.depth)
            tiles = iron.through_memtile(fifo_in, into_l2, memtile, f"core_{name}")
            fifo_out = iron.fifo(tile_type, f"out_{name}", plan.depth)
            core_tile = iron.tile(column, FIRST_CORE_ROW + channel)
            args = [tiles.cons(), fifo_out.prod(), *core_args]
            workers.append(iron.worker(core, args, core_tile))
            ends[column, channel, "fill"] = iron.fill_end(fifo_in, shim)
            ends[column, channel, "drain"] = iron.drain_end(fifo_out, shim)

    sizes = (plan.size_in * lanes, plan.size_out * lanes)

    def sequence(host: Host, buffers: Sequence[Any], host_ends: Sequence[HostEnd]) -> None:
        end_of = dict(zip(ends, host_ends, strict=True))
        groups: dict[int, Any] = {}
        for step in plan.schedule():
            if isinstance(step, Finish):
                host.finish(groups.pop(step.group))
                continue
            if step.group not in groups:
                groups[step.group] = host.group()
            filling = step.direction == "fill"
            pattern = iron.pattern(sizes[not filling], step.tap.widened(lanes))
            move = host.fill if filling else host.drain
            end = end_of[step.column, step.channel, step.direction]
            move(end, buffers[not filling], pattern, groups[step.group])

    buffer_types = [array_type((size,), lane_bytes) for size in sizes]
    return iron.program(
        plan.device, plan.columns, workers, buffer_types, list(ends.values()), sequence
    )


def tile_type_of(plan: TransposePlan) -> Any:
    """The type of a tile in fifos and kernels, of lanes of at most 8 bytes."""
    lane_bytes, lanes = _lanes(plan)
    return array_type((plan.m, plan.n * lanes), lane_bytes)


def array_type(shape: tuple[int, ...], lane_bytes: int) -> Any:
    """`np.ndarray[shape, np.dtype[...]]`, IRON's spelling of a buffer's type."""
    import numpy as np  # only here: without it there are still plans, words and `hptp doctor`

    ndarray: Any = np.ndarray
    dtype: Any = np.dtype
    return ndarray[shape, dtype[getattr(np, _LANES[lane_bytes])]]


def _lanes(plan: TransposePlan) -> tuple[int, int]:
    """(bytes, count) of the machine words that make up an element."""
    if plan.elem_bytes in _LANES:
        return plan.elem_bytes, 1
    return WORD_BYTES, plan.elem_bytes // WORD_BYTES
