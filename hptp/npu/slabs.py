"""A canonical problem as work for the NPU: strided 2-D slabs, and edges for the CPU.

The NPU transposes matrices, so a permutation is cut along two axes: the source's last (a slab's
columns) and the one that becomes the destination's last (its rows). All other axes only say where
the slabs lie; one of them is the plan's batch, the rest are `origins`, at each of which the plan
runs again. Rows that move as they are become slabs too, of wide elements, which the DMA engines
transpose by themselves (s = 1) around a core that copies:

    short rows   a row is one element: the slab is transposed, its elements stay whole
    long rows    a slab is one row (M = 1) of N pieces, and every other axis is batch or origin

What the NPU sees is packed: loading copies its share of the source into one buffer in the source's
order, unloading copies the other buffer into place, and there the strides of views end. Rows and
columns that do not fill a tile stay behind, in at most two boxes that the CPU moves straight from
source to destination while the NPU runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from aie_design.choose import BANK_TILE_BYTES
from aie_design.instructions import Instructions, encode, sequence, to_bytes
from aie_design.operations import Operation, PatchAddress, WriteDescriptor
from aie_design.plan import DEVICES, WORD_BYTES, TransposePlan
from hptp._core import Plan, Problem
from hptp.errors import PlanError
from hptp.npu.artifacts import Design

KERNEL_WIDTHS = (1, 2, 4, 8)  # bytes of an element that the transposing core function takes
MIN_TILE = 4  # its smallest tile
MAX_WIDE_BYTES = 2048  # of an element moved whole: 512 words, a dimension of a memtile BD
LONG_ROW_STEP_BYTES = 64  # long rows are cut to a multiple of this, lest their pieces be tiny

# Larger problems are moved window by window, for what is packed is pinned, on both sides. Cuts are
# at multiples of a step that tiles like to divide.
MAX_PACKED_BYTES, WINDOW_STEP = 1 << 30, 64

# One run has to end well within the driver's 2 s; this is a quarter of a second on one channel.
MAX_RUN_BYTES = 1 << 30
MAX_RUN_OPERATIONS = 1 << 14


@dataclass(frozen=True)
class Box:
    """A part of a problem: the same permutation of fewer elements, so far from element 0."""

    problem: Problem
    src_offset_bytes: int
    dst_offset_bytes: int


@dataclass(frozen=True)
class Slabs:
    """A problem split between NPU and CPU.

    transpose   the plan of one batch of slabs, inside the packed tensors
    kernel      the core function: "transpose", or "copy" where DMA does everything
    origins     where each run of the plan starts: elements of the plan into input and output
    load        the NPU's share as it lies in the source → packed, in the source's order
    unload      packed, in the destination's order → as it lies in the destination
    edges       what is left to the CPU
    """

    problem: Problem
    transpose: TransposePlan
    kernel: str
    origins: tuple[tuple[int, int], ...]
    load: Problem
    unload: Problem
    edges: tuple[Box, ...]

    @property
    def npu_bytes(self) -> int:
        return self.load.nbytes

    @property
    def total_bytes(self) -> int:
        return self.problem.nbytes

    def runs(self) -> list[tuple[tuple[int, int], ...]]:
        """The origins in groups, each of which one run of the device can do."""
        plan, operations = self.transpose, sum(1 for _ in sequence(self.transpose))
        most = max(1, min(MAX_RUN_BYTES // plan.nbytes, MAX_RUN_OPERATIONS // operations))
        return [self.origins[i : i + most] for i in range(0, len(self.origins), most)]

    def instructions(self, run: Sequence[tuple[int, int]]) -> bytes:
        """The words of one run: the plan's, once for each origin."""
        plan, operations = self.transpose, tuple(sequence(self.transpose))
        moved = tuple(o for origin in run for o in _moved(operations, origin, plan.elem_bytes))
        return to_bytes(encode(Instructions(plan.device, plan.columns, moved)))

    @contextmanager
    def edges_meanwhile(
        self, src_address: int, dst_address: int, num_threads: int
    ) -> Iterator[None]:
        """Move the edges on the CPU while the body of the `with` runs."""
        if not self.edges:
            yield
            return

        def move() -> None:
            for edge in self.edges:
                source, target = edge.src_offset_bytes, edge.dst_offset_bytes
                Plan(edge.problem, num_threads).execute(src_address + source, dst_address + target)

        with ThreadPoolExecutor(1, "hptp-edges") as pool:
            moving = pool.submit(move)
            yield
            moving.result()

    def describe(self) -> str:
        """The split and the plan of a slab, in words."""
        count = len(self.origins)
        share = 100 * self.npu_bytes / self.total_bytes
        lines = [
            f"NPU: {self.npu_bytes} of {self.total_bytes} bytes ({share:.1f} %), kernel "
            f"{self.kernel}, the plan at {count} origin{'s' * (count != 1)}",
            self.transpose.describe(),
        ]
        lines += [f"CPU meanwhile: {edge.problem}" for edge in self.edges]
        return "\n".join(lines)


def windows(problem: Problem) -> list[Box]:
    """The problem in boxes that can be packed at once, its longest axis halved until they can."""
    if problem.nbytes <= MAX_PACKED_BYTES:
        return [Box(problem, 0, 0)]
    sizes, src, dst = problem.shape, problem.src_strides_bytes, problem.dst_strides_bytes
    axis = max(range(len(sizes)), key=lambda i: sizes[i])
    half = sizes[axis] // 2
    half = half // WINDOW_STEP * WINDOW_STEP or half
    boxes = []
    for start, size in ((0, half), (half, sizes[axis] - half)):
        part = _box(problem.elem_bytes, [*sizes[:axis], size, *sizes[axis + 1 :]], src, dst)
        for box in windows(part):
            src_offset = box.src_offset_bytes + start * src[axis]
            dst_offset = box.dst_offset_bytes + start * dst[axis]
            boxes.append(Box(box.problem, src_offset, dst_offset))
    return boxes


def plan_slabs(problem: Problem, device: str, design: Design | None = None) -> Slabs:
    """Split `problem` for `device` ("npu" or "npu2"), for a compiled design if one is given.

    Raises:
        PlanError: the width of the elements, the size of the axes or the design leave nothing for
            the NPU, or the slabs break a limit of the device.
    """
    ndim, perm = len(problem.shape), problem.perm
    if problem.nbytes == 0 or ndim == 0:
        raise PlanError(f"nothing to do for the NPU: {problem}")
    fixed = next((k for k in range(ndim) if perm[ndim - 1 - k] != ndim - 1 - k), ndim)
    cut = _rows(problem, fixed, design) if fixed else _matrix(problem, design)
    return _slabs(problem, cut, device, design)


@dataclass(frozen=True)
class _Cut:
    """How a problem is cut: sizes kept on the NPU by destination axis, and the slab's two axes.

    `rows` and `cols` are destination axes, both None for long rows; elements of `elem_bytes` are
    what the last `fixed` axes hold, in `pieces` pieces.
    """

    kept: tuple[int, ...]
    kernel: str
    elem_bytes: int
    fixed: int = 0
    pieces: int = 1
    rows: int | None = None
    cols: int | None = None


def _matrix(problem: Problem, design: Design | None) -> _Cut:
    """Cut where the last axis moves: the kernel's tiles, or DMA alone for what it does not take."""
    elem_bytes, kept = problem.elem_bytes, list(problem.shape)
    rows, cols = len(kept) - 1, problem.perm.index(len(kept) - 1)
    by_kernel = elem_bytes in KERNEL_WIDTHS and min(kept[rows], kept[cols]) >= MIN_TILE
    if not by_kernel and elem_bytes % WORD_BYTES:
        raise PlanError(
            f"the NPU moves elements of whole 4-byte words, or of 1 or 2 bytes in matrices of at "
            f"least {MIN_TILE}x{MIN_TILE}: not {elem_bytes}-byte ones in {kept[rows]}x{kept[cols]}"
        )
    smallest = MIN_TILE if by_kernel else 1
    kept[rows] -= kept[rows] % (design.m if design else smallest)
    kept[cols] -= kept[cols] % (design.n if design else smallest)
    kernel = "transpose" if by_kernel else "copy"
    return _Cut(tuple(kept), kernel, elem_bytes, rows=rows, cols=cols)


def _rows(problem: Problem, fixed: int, design: Design | None) -> _Cut:
    """Cut where the last `fixed` axes stay: rows that move as they are.

    A design for other elements than a row moves it in pieces, if it has tiles of one row.
    """
    kept = list(problem.shape)
    rows = len(kept) - fixed - 1
    unit = prod(kept[rows + 1 : -1]) * problem.elem_bytes

    def multiple_of(step_bytes: int) -> int:
        """The most of the last axis with which a row is a multiple of `step_bytes`."""
        step = step_bytes // gcd(step_bytes, unit)
        return kept[-1] // step * step

    kept[-1] = multiple_of(WORD_BYTES)
    if not kept[-1]:
        raise PlanError(
            f"rows of {problem.shape[-1]} elements of {problem.elem_bytes} bytes hold no multiple "
            f"of {WORD_BYTES} bytes, which is what the NPU moves"
        )
    row_bytes = kept[-1] * unit
    whole = row_bytes <= MAX_WIDE_BYTES if design is None else row_bytes == design.elem_bytes
    if rows > 0 and whole:
        cols = problem.perm.index(rows)
        return _Cut(tuple(kept), "copy", row_bytes, fixed, rows=rows, cols=cols)
    if design is None:
        kept[-1] = multiple_of(LONG_ROW_STEP_BYTES) or kept[-1]
        divisors = _divisors(kept[-1] * unit, MAX_WIDE_BYTES)
        piece = max(k for k in divisors if k % WORD_BYTES == 0)
    else:
        kept[-1] = multiple_of(design.n * design.elem_bytes)
        piece = design.elem_bytes
    return _Cut(tuple(kept), "copy", piece, fixed, pieces=kept[-1] * unit // piece)


@dataclass(frozen=True)
class _Axis:
    """An axis of the packed tensors; strides in elements of the plan."""

    size: int
    stride_in: int
    stride_out: int


@dataclass(frozen=True)
class _Slab:
    """A batch of M×N matrices in the packed tensors, everything in elements of the plan."""

    M: int
    N: int
    ld_in: int | None = None
    ld_out: int | None = None
    batch: int = 1
    batch_stride_in: int | None = None
    batch_stride_out: int | None = None


def _slabs(problem: Problem, cut: _Cut, device: str, design: Design | None) -> Slabs:
    """Lay the slabs of a cut out in the packed tensors and plan one of them."""
    kept, ndim, unit = cut.kept, len(cut.kept), problem.elem_bytes
    if 0 in kept:
        raise PlanError(f"nothing of {problem} fills a tile of {design}")
    order = [problem.perm.index(axis) for axis in range(ndim)]  # destination axes, source's order
    packed_in = dict(zip(order, _contiguous([kept[i] for i in order], unit), strict=True))
    packed_out = _contiguous(kept, unit)
    axes = [
        _Axis(kept[i], packed_in[i] // cut.elem_bytes, packed_out[i] // cut.elem_bytes)
        for i in range(ndim - cut.fixed)
    ]
    others = [axis for i, axis in enumerate(axes) if i not in (cut.rows, cut.cols)]
    if cut.rows is None or cut.cols is None:
        slab = _Slab(1, cut.pieces)
    else:
        rows, cols = axes[cut.rows], axes[cut.cols]
        slab = _Slab(rows.size, cols.size, rows.stride_in, cols.stride_out)
    if others:
        batch = max(others, key=lambda axis: axis.size)
        others.remove(batch)
        slab = replace(
            slab,
            batch=batch.size,
            batch_stride_in=batch.stride_in,
            batch_stride_out=batch.stride_out,
        )
    return Slabs(
        problem,
        _plan(slab, cut, device, design),
        cut.kernel,
        origins=tuple(_origins(others)),
        load=_box(
            unit, [kept[i] for i in order], src=[problem.src_strides_bytes[i] for i in order]
        ),
        unload=_box(unit, kept, dst=problem.dst_strides_bytes),
        edges=tuple(_edges(problem, kept)),
    )


def _plan(slab: _Slab, cut: _Cut, device: str, design: Design | None) -> TransposePlan:
    """The plan of one batch of slabs: with the design's tile, else with the best one.

    Raises:
        PlanError: the design is for something else, or a limit is broken.
    """
    if design is None and cut.kernel == "transpose":
        return TransposePlan.for_problem(elem_bytes=cut.elem_bytes, device=device, **vars(slab))
    if design is not None:
        # With s = 1 a copy is all there is to do; with another s it only shows the data flow.
        transposes = design.s == 1 if cut.kernel == "copy" else design.kernel != "copy"
        if not transposes or (design.device, design.elem_bytes) != (device, cut.elem_bytes):
            raise PlanError(f"{design} is not for {cut.kernel} of {cut.elem_bytes} B on {device}")
        designs = [design]
    else:
        designs = _wide_designs(slab, cut.elem_bytes, device)
    for design in designs:
        tile = {k: v for k, v in vars(design).items() if k != "kernel"}
        plan = TransposePlan(**vars(slab), **tile)
        if not (broken := plan.violations()):
            return plan
    raise PlanError("; ".join(broken))


def _wide_designs(slab: _Slab, elem_bytes: int, device: str) -> list[Design]:
    """Designs for whole elements, the best first, the one of single elements last.

    Good tiles have long bursts on both sides, then many elements.
    """
    most = BANK_TILE_BYTES // elem_bytes
    tiles = [
        (m, n)
        for m, n in product(_divisors(slab.M, most), _divisors(slab.N, most))
        if m * n <= most
    ]
    burst = DEVICES[device].full_burst_bytes
    tiles.sort(key=lambda tile: (min(min(tile) * elem_bytes, burst), prod(tile)), reverse=True)
    columns = DEVICES[device].columns
    return [
        Design(device, elem_bytes, m, n, 1, columns, channels=2, depth=2, kernel="copy")
        for m, n in tiles
    ]


def _divisors(number: int, limit: int) -> list[int]:
    return [k for k in range(1, min(number, limit) + 1) if number % k == 0]


def _contiguous(sizes: Sequence[int], unit: int) -> list[int]:
    """Byte strides of a C-contiguous tensor."""
    return [unit * prod(sizes[i + 1 :]) for i in range(len(sizes))]


def _box(
    elem_bytes: int,
    sizes: Sequence[int],
    src: Sequence[int] | None = None,
    dst: Sequence[int] | None = None,
) -> Problem:
    """A copy of a box, axes in the same order on both sides; strides in bytes, None: packed."""
    return Problem(elem_bytes, sizes, range(len(sizes)), src, dst)


def _origins(axes: Sequence[_Axis]) -> Iterator[tuple[int, int]]:
    """Where every combination of positions on `axes` lies, in elements of input and output."""
    for position in product(*(range(axis.size) for axis in axes)):
        steps = list(zip(position, axes, strict=True))
        yield sum(k * a.stride_in for k, a in steps), sum(k * a.stride_out for k, a in steps)


def _edges(problem: Problem, kept: Sequence[int]) -> Iterator[Box]:
    """The boxes that together with `kept` make up the whole problem."""
    sizes = list(problem.shape)
    src, dst = problem.src_strides_bytes, problem.dst_strides_bytes
    for axis, size in enumerate(kept):
        if size < sizes[axis]:
            rest = [*sizes[:axis], sizes[axis] - size, *sizes[axis + 1 :]]
            edge = _box(problem.elem_bytes, rest, src, dst)
            yield Box(edge, size * src[axis], size * dst[axis])
            sizes[axis] = size


def _moved(
    operations: Sequence[Operation], origin: tuple[int, int], elem_bytes: int
) -> Iterator[Operation]:
    """The operations with every transfer `origin` elements further into its buffer."""
    for operation, patch in zip(operations, [*operations[1:], None], strict=True):
        if isinstance(operation, WriteDescriptor):
            # The words of a BD repeat the offset of the patch that follows it.
            assert isinstance(patch, PatchAddress)
            step = origin[patch.argument] * elem_bytes
        elif isinstance(operation, PatchAddress):
            step = origin[operation.argument] * elem_bytes
        else:
            yield operation
            continue
        yield replace(operation, offset_bytes=operation.offset_bytes + step)
