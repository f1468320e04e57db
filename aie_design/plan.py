"""TransposePlan: everything about one transpose on the NPU, decided before any data moves.

A batch of row-major M×N matrices in host memory (L3) becomes N×M matrices. Tiles of m×n elements
pass through a memtile (L2) to a core (L1), which transposes every s×s block; the DMA engines do the
rest on the way (access patterns: `taps`). Each (column, channel) of the device has one worker with
its own share of the tiles, and a share is moved by one or more tasks: one fill and one drain, each
a shim buffer descriptor (BD) with four dimensions. `schedule` is the complete order of these
transfers, and `violations` is the only legality check there is; the program and the instruction
stream only read them.

    >>> plan = TransposePlan(64, 32, 16, 16, 4, 4)
    >>> plan.violations()
    []
    >>> plan.taps().l3_to_l2
    Tap(offset=0, sizes=(4, 2, 16, 16), strides=(512, 16, 32, 1))
    >>> TransposePlan(66, 32, 16, 16, 4, 4).violations()
    ['tile: M=66 is not a multiple of m=16']

Sizes, strides and offsets are in elements unless a name says otherwise; a word is 4 bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from heapq import heappop, heappush
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from hptp.errors import PlanError

KERNEL_ELEM_BYTES = (1, 2, 4, 8)
WORD_BYTES = 4
L1_BYTES = 64 * 1024
STACK_BYTES = 1024
MAX_ITERATIONS = 64
MAX_STRIDE_WORDS = 1 << 20
MAX_QUEUED_TASKS = 4
MAX_SHIM_BDS = 16


class Device(NamedTuple):
    """What the design needs to know of an NPU: its size and the numbers of the cost model."""

    columns: int
    clock_hz: float
    full_burst_bytes: int  # contiguous run that keeps a shim channel's bursts full


DEVICES = {
    "npu": Device(columns=4, clock_hz=1.03e9, full_burst_bytes=256),
    "npu2": Device(columns=8, clock_hz=1.8e9, full_burst_bytes=512),
}


class Tap(NamedTuple):
    """One access pattern: nested loops, outermost first; the innermost stride is always 1."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def last(self) -> int:
        """The largest index visited."""
        return self.offset + sum((k - 1) * d for k, d in zip(self.sizes, self.strides, strict=True))

    def widened(self, lanes: int) -> Tap:
        """The same pattern for elements that are `lanes` smaller elements each."""
        sizes = (*self.sizes[:-1], self.sizes[-1] * lanes)
        strides = (*(stride * lanes for stride in self.strides[:-1]), 1)
        return Tap(self.offset * lanes, sizes, strides)

    def indices(self) -> Iterator[int]:
        """Every index visited, in order."""
        for position in product(*map(range, self.sizes)):
            yield self.offset + sum(k * d for k, d in zip(position, self.strides, strict=True))


class Taps(NamedTuple):
    """The four hops of a tile: host → memtile, into its memory, memtile → core, core → host."""

    l3_to_l2: Tap
    into_l2: Tap
    l2_to_l1: Tap
    l1_to_l3: Tap


class Transfer(NamedTuple):
    """One shim task: BD `bd` moves along `tap` of the input ("fill") or the output ("drain")."""

    group: int
    column: int
    channel: int
    direction: str
    bd: int
    tap: Tap


class Finish(NamedTuple):
    """Wait for the group's drains, in order; then the BDs of the whole group are free again."""

    group: int
    drains: tuple[Transfer, ...]


Step = Transfer | Finish


class Box(NamedTuple):
    """A rectangular set of tiles, as ranges of slabs, tile rows and tile columns."""

    slabs: range
    rows: range
    cols: range


class Loop(NamedTuple):
    """One loop over tiles: how often, and how far each step goes, with the strides' formulas."""

    name: str
    times: int
    stride_in: int
    stride_out: int
    formula_in: str
    formula_out: str


# Numbers of the cost model. Those without a source are guesses [?]: they order plans sensibly.
CHANNEL_BYTES_PER_CYCLE = 4
DRAM_BYTES_PER_SECOND = 60e9  # in and out together: memcpy, mlir-aie #2559 and #2611
VECTOR_BYTES = 64
BURST_WASTE = 8  # [?] every contiguous run loses this fraction of a full burst
TILE_CYCLES = 100  # [?] locks and loop of the core function
TASK_SECONDS = 1e-6  # [?] the controller's time to write and queue two BDs


def _split(count: int, parts: int) -> list[range]:
    """`range(count)` as `parts` ranges whose lengths differ by at most one, empty ones last."""
    edges = [-(-count * i // parts) for i in range(parts + 1)]
    return [range(a, b) for a, b in pairwise(edges)]


def _chunks(span: range, size: int) -> list[range]:
    """`span` as consecutive ranges of `size`, the last one possibly shorter."""
    return [span[i : i + size] for i in range(0, len(span), size)]


@dataclass(frozen=True)
class TransposePlan:
    """An immutable plan for `batch` transposes of M×N matrices with elements of `elem_bytes`.

    s                4 or 8: the core transposes blocks of s×s elements of 1, 2, 4 or 8 bytes;
                     1: the core copies, because the way into L2 already transposes whole elements
                     of any multiple of 4 bytes
    ld_in, ld_out    elements between consecutive rows of the input (≥ N) and the output (≥ M)
    batch_stride_*   elements between consecutive matrices (default: one directly after the other)
    columns          device columns in use; each takes a share of the tile columns, or of the batch
                     where that is more even; a worker may be left without tiles
    channels         shim channels in use per column; each takes a share of the tile rows likewise
    order            "rows": tiles row by row (the outer loop is over tile rows); "cols": column by
                     column
    depth            buffers per fifo in L2 and L1
    tasks            None: as few tasks as the limits allow, folding strides a BD cannot hold into
                     task offsets; k: the outermost tile loop of every worker is cut into k tasks
    in_flight        tasks of a worker that may be queued before the oldest is awaited
    reason           why `for_problem` chose these values
    """

    M: int
    N: int
    m: int
    n: int
    s: int
    elem_bytes: int
    _: KW_ONLY
    device: str = "npu"
    ld_in: int | None = None
    ld_out: int | None = None
    batch: int = 1
    batch_stride_in: int | None = None
    batch_stride_out: int | None = None
    columns: int = 1
    channels: int = 1
    order: str = "rows"
    depth: int = 2
    tasks: int | None = None
    in_flight: int = MAX_QUEUED_TASKS
    reason: str = field(default="", compare=False)

    # --- Memory layout -------------------------------------------------------------------------

    @property
    def row_pitch_in(self) -> int:
        return self.N if self.ld_in is None else self.ld_in

    @property
    def row_pitch_out(self) -> int:
        return self.M if self.ld_out is None else self.ld_out

    @property
    def slab_pitch_in(self) -> int:
        stride = self.batch_stride_in
        return self.M * self.row_pitch_in if stride is None else stride

    @property
    def slab_pitch_out(self) -> int:
        stride = self.batch_stride_out
        return self.N * self.row_pitch_out if stride is None else stride

    @property
    def size_in(self) -> int:
        """Elements from the first to the last one read, both included."""
        return (self.batch - 1) * self.slab_pitch_in + (self.M - 1) * self.row_pitch_in + self.N

    @property
    def size_out(self) -> int:
        """Elements from the first to the last one written, both included."""
        return (self.batch - 1) * self.slab_pitch_out + (self.N - 1) * self.row_pitch_out + self.M

    @property
    def nbytes(self) -> int:
        """Bytes that move, one way."""
        return self.batch * self.M * self.N * self.elem_bytes

    @property
    def tile_bytes(self) -> int:
        return self.m * self.n * self.elem_bytes

    # --- Access patterns -----------------------------------------------------------------------

    def taps(self) -> Taps:
        """The four access patterns, with the first slab moved whole by one pair of transfers."""
        fill, drain = self._l3_taps(Box(range(1), range(self.M // self.m), range(self.N // self.n)))
        m, n, s = self.m, self.n, self.s
        into_l2 = Tap(0, (m // s, s, n // s, s), (s, m, s * m, 1))
        return Taps(fill, into_l2, Tap(0, (1, 1, 1, m * n), (m * n, m * n, m * n, 1)), drain)

    def _loops(self, box: Box) -> list[Loop]:
        """The tile loops of a transfer over `box`, outermost first: two if a BD can hold them.

        A BD has two dimensions above the tile, so slabs share a task only where the tile rows or
        the tile columns leave one of them free.
        """
        ld_in = "N" if self.ld_in is None else "ld_in"
        ld_out = "M" if self.ld_out is None else "ld_out"
        row_in, col_out = self.m * self.row_pitch_in, self.n * self.row_pitch_out
        row = Loop("M/m", len(box.rows), row_in, self.m, f"m*{ld_in}", "m")
        col = Loop("N/n", len(box.cols), self.n, col_out, "n", f"n*{ld_out}")
        slab_pitches = (self.slab_pitch_in, self.slab_pitch_out)
        slab = Loop("batch", len(box.slabs), *slab_pitches, "batch_stride_in", "batch_stride_out")
        outer, inner = (row, col) if self.order == "rows" else (col, row)
        if slab.times == 1:
            return [outer, inner]
        if outer.times == 1:
            return [slab, inner]
        if inner.times == 1:
            return [slab, outer]
        return [slab, outer, inner]

    def _l3_taps(self, box: Box) -> tuple[Tap, Tap]:
        """The fill's and the drain's access pattern for `box`, both visiting its tiles alike."""
        loops = self._loops(box)
        slab, row, col = box.slabs.start, box.rows.start, box.cols.start
        offset_in = slab * self.slab_pitch_in + row * self.m * self.row_pitch_in + col * self.n
        offset_out = slab * self.slab_pitch_out + col * self.n * self.row_pitch_out + row * self.m
        counts = tuple(loop.times for loop in loops)
        strides_in = tuple(loop.stride_in for loop in loops)
        strides_out = tuple(loop.stride_out for loop in loops)
        return (
            Tap(offset_in, (*counts, self.m, self.n), (*strides_in, self.row_pitch_in, 1)),
            Tap(offset_out, (*counts, self.n, self.m), (*strides_out, self.row_pitch_out, 1)),
        )

    # --- Work of each worker -------------------------------------------------------------------

    def workers(self) -> list[tuple[int, int]]:
        """(column, channel) of every worker, in the order the schedule serves them."""
        return list(product(range(self.columns), range(self.channels)))

    def share(self, column: int, channel: int) -> Box:
        """The tiles of one worker; empty where there are more workers than work."""
        slabs, rows, cols = range(self.batch), range(self.M // self.m), range(self.N // self.n)

        def largest(span: range, parts: int) -> float:
            return -(-len(span) // parts) / len(span)

        by_slab = largest(slabs, self.columns) < largest(cols, self.columns)
        if by_slab:
            slabs = _split(self.batch, self.columns)[column]
        else:
            cols = _split(len(cols), self.columns)[column]
        if not by_slab and largest(slabs, self.channels) < largest(rows, self.channels):
            slabs = _split(self.batch, self.channels)[channel]
        else:
            rows = _split(len(rows), self.channels)[channel]
        return Box(slabs, rows, cols)

    def _task_extent(self, share: Box) -> tuple[int, int, int]:
        """(slabs, tile rows, tile columns) of the tasks that `share` is cut into."""
        slabs, rows, cols = map(len, share)
        by_rows = self.order == "rows"
        if self.tasks is not None:
            if slabs > 1:
                slabs = -(-slabs // self.tasks)
            elif by_rows:
                rows = -(-rows // self.tasks)
            else:
                cols = -(-cols // self.tasks)
            return slabs, rows, cols
        if not self._fits_stride(self.m * self.row_pitch_in):
            rows = 1
        if not self._fits_stride(self.n * self.row_pitch_out):
            cols = 1
        pitches = (self.slab_pitch_in, self.slab_pitch_out)
        if not (1 in (rows, cols) and all(map(self._fits_stride, pitches))):
            slabs = 1
        if slabs > 1:
            return min(slabs, MAX_ITERATIONS), rows, cols
        if by_rows:
            return 1, min(rows, MAX_ITERATIONS), cols
        return 1, rows, min(cols, MAX_ITERATIONS)

    def _fits_stride(self, stride: int) -> bool:
        return stride * self.elem_bytes <= MAX_STRIDE_WORDS * WORD_BYTES

    def representative(self) -> TransposePlan:
        """A smallest plan that configures the array as this one does: every worker has one tile.

        The array does not depend on the shape; this is what to compile for all of them.
        """
        return TransposePlan(
            self.m * self.channels,
            self.n * self.columns,
            self.m,
            self.n,
            self.s,
            self.elem_bytes,
            device=self.device,
            columns=self.columns,
            channels=self.channels,
            depth=self.depth,
        )

    def tasks_of(self, column: int, channel: int) -> list[Box]:
        """The worker's share as the boxes its tasks move, in order."""
        share = self.share(column, channel)
        if not all(map(len, share)):
            return []
        slabs, rows, cols = map(_chunks, share, self._task_extent(share))
        if self.order == "rows":
            return [Box(b, r, c) for b, r, c in product(slabs, rows, cols)]
        return [Box(b, r, c) for b, c, r in product(slabs, cols, rows)]

    def schedule(self) -> tuple[Step, ...]:
        """Every transfer and every wait, in the order the runtime sequence issues them.

        Group k holds the k-th task of every worker. Before a group beyond `in_flight` is issued
        the oldest one is finished, so a channel never has more than `in_flight` tasks queued and a
        BD is reused only after the drain that proves it idle. A group's BDs are the lowest free
        ones of each column, as the compiler allocates them.
        """
        self.check()
        queues = {worker: self.tasks_of(*worker) for worker in self.workers()}
        free_bds = [list(range(MAX_SHIM_BDS)) for _ in range(self.columns)]
        unfinished: deque[list[Transfer]] = deque()
        steps: list[Step] = []

        def finish_oldest() -> None:
            transfers = unfinished.popleft()
            for transfer in transfers:
                heappush(free_bds[transfer.column], transfer.bd)
            drains = tuple(t for t in transfers if t.direction == "drain")
            steps.append(Finish(transfers[0].group, drains))

        for group in range(max(map(len, queues.values()))):
            if len(unfinished) == self.in_flight:
                finish_oldest()
            transfers = []
            for (column, channel), boxes in queues.items():
                if group < len(boxes):
                    taps = zip(("fill", "drain"), self._l3_taps(boxes[group]), strict=True)
                    for direction, tap in taps:
                        bd = heappop(free_bds[column])
                        transfers.append(Transfer(group, column, channel, direction, bd, tap))
            steps += transfers
            unfinished.append(transfers)
        while unfinished:
            finish_oldest()
        return tuple(steps)

    # --- Legality ------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise PlanError naming every broken limit with its numbers, if there is one."""
        if broken := self.violations():
            raise PlanError("; ".join(broken))

    def violations(self) -> list[str]:
        """Every limit of the device that this plan breaks, by name and with its numbers."""
        if nonsense := list(self._nonsense()):
            return nonsense
        broken = [*self._tile_violations(), *self._layout_violations()]
        if self.M % self.m == 0 and self.N % self.n == 0:
            broken += self._task_violations()
        return broken

    def _nonsense(self) -> Iterator[str]:
        """Values that nothing further can be computed from."""
        counts = ("M", "N", "m", "n", "s", "batch", "columns", "channels", "depth", "in_flight")
        optional = ("ld_in", "ld_out", "batch_stride_in", "batch_stride_out", "tasks")
        for name in (*counts, *optional):
            value = getattr(self, name)
            if value is None and name in optional:
                continue
            if type(value) is not int or value < 1:
                yield f"{name}={value!r} is not an integer of at least 1"
        if self.s == 1:
            if type(self.elem_bytes) is not int or self.elem_bytes < 1 or self.elem_bytes % 4:
                yield f"elem_bytes={self.elem_bytes!r} is no multiple of 4, as s=1 needs"
        elif self.elem_bytes not in KERNEL_ELEM_BYTES:
            yield f"elem_bytes={self.elem_bytes!r} is none of 1, 2, 4, 8"
        if self.order not in ("rows", "cols"):
            yield f"order={self.order!r} is neither 'rows' nor 'cols'"
        if self.device not in DEVICES:
            yield f"device={self.device!r} is none of {', '.join(DEVICES)}"

    def _tile_violations(self) -> Iterator[str]:
        """What the tile and the workers break, whatever the matrix is."""
        m, n, s, e = self.m, self.n, self.s, self.elem_bytes
        if s not in (1, 4, 8):
            yield f"kernel: s must be 4 or 8 (1: a copy), not {s}"
        for name, size in (("m", m), ("n", n)):
            if size % s:
                yield f"tile: {name}={size} is not a multiple of s={s}"
        yield from self._granularity(m=m, n=n, s=s)
        buffers = 2 * self.depth
        if buffers * self.tile_bytes + STACK_BYTES > L1_BYTES:
            yield f"L1: {buffers} buffers of {self.tile_bytes} B and the stack exceed {L1_BYTES} B"
        tile_words = self.tile_bytes // WORD_BYTES
        yield from _exceeded(
            # The fields of a BD are just wide enough for these: one more would be encoded as 0,
            # silently another program.
            ("shim d0: n*e/4", n * e // WORD_BYTES, 1023),
            ("shim d0: m*e/4", m * e // WORD_BYTES, 1023),
            ("shim d1: m", m, 1023),
            ("shim d1: n", n, 1023),
            ("memtile dimension: s*e/4", s * e // WORD_BYTES, 512),
            ("memtile dimension: s", s, 512),
            ("memtile dimension: m/s", m // s, 512),
            ("memtile dimension: n/s", n // s, 512),
            ("memtile stride: s*m*e/4", s * m * e // WORD_BYTES, 1 << 17),
            ("memtile BD length: m*n*e/4", tile_words, 131_071),
            ("core BD length: m*n*e/4", tile_words, 16_383),
            ("memtile BDs of a channel pair: 2*depth", buffers, 24),
            ("core BDs: 2*depth", buffers, 16),
            ("L2: channels*depth*m*n*e", self.channels * self.depth * self.tile_bytes, 512 * 1024),
            ("columns", self.columns, DEVICES[self.device].columns),
            ("channels", self.channels, 2),
            ("queued tasks: in_flight", self.in_flight, MAX_QUEUED_TASKS),
            ("shim BDs: 2*channels*in_flight", 2 * self.channels * self.in_flight, MAX_SHIM_BDS),
        )

    def _layout_violations(self) -> Iterator[str]:
        """What the matrices' shape and place in memory break."""
        ld_in, ld_out, slab_out = self.row_pitch_in, self.row_pitch_out, self.slab_pitch_out
        for name, size, tile_name, tile in (("M", self.M, "m", self.m), ("N", self.N, "n", self.n)):
            if size % tile:
                yield f"tile: {name}={size} is not a multiple of {tile_name}={tile}"
        if ld_in < self.N:
            yield f"ld_in={ld_in} is less than N={self.N}"
        if ld_out < self.M:
            yield f"ld_out={ld_out} is less than M={self.M}"
        elif self._slabs_overlap():
            yield f"output: slabs at batch_stride_out={slab_out} overlap (ld_out={ld_out})"
        yield from self._granularity(ld_in=ld_in, ld_out=ld_out)
        if self.batch > 1:
            yield from self._granularity(
                batch_stride_in=self.slab_pitch_in, batch_stride_out=slab_out
            )
        for name, pitch, rows in (("ld_in", ld_in, self.m), ("ld_out", ld_out, self.n)):
            if rows > 1:
                yield from self._stride_violation(name, pitch)
        # The compiler cuts a task's offset to 32 bits without a word (seen in mlir-aie of 2026-03).
        yield from _exceeded(
            ("input bytes", self.size_in * self.elem_bytes, 1 << 32),
            ("output bytes", self.size_out * self.elem_bytes, 1 << 32),
        )

    def _task_violations(self) -> Iterator[str]:
        """What the tasks' tile loops break; each limit once, by the largest task that breaks it."""
        shares = {self.share(*worker) for worker in self.workers()}
        extents = {self._task_extent(share) for share in shares if all(map(len, share))}
        broken: dict[str, str] = {}
        for extent in sorted(extents, reverse=True):
            for violation in self._loop_violations(self._loops(Box(*map(range, extent)))):
                broken.setdefault(violation.partition(" = ")[0], violation)
        yield from broken.values()

    def _loop_violations(self, loops: list[Loop]) -> Iterator[str]:
        """What one task with these tile loops breaks."""
        if len(loops) > 2:
            sizes = " x ".join(f"{loop.times} ({loop.name})" for loop in loops)
            yield f"iteration: three tile loops, {sizes}; a shim BD holds two"
        for loop in loops[:-1]:
            if loop.times > MAX_ITERATIONS:
                yield f"iteration: {loop.name} = {loop.times} > {MAX_ITERATIONS}"
        for loop in loops:
            if loop.times > 1:
                yield from self._stride_violation(loop.formula_in, loop.stride_in)
                yield from self._stride_violation(loop.formula_out, loop.stride_out)
        words = prod(loop.times for loop in loops) * self.tile_bytes // WORD_BYTES
        yield from _exceeded(("shim BD length", words, (1 << 32) - 1))

    def _slabs_overlap(self) -> bool:
        """Whether a row of some slab of the output meets a row of the first."""
        ld = self.row_pitch_out
        for slab in range(1, self.batch):
            row, beyond = divmod(slab * self.slab_pitch_out, ld)
            if row >= self.N:
                break
            if beyond < self.M or (ld - beyond < self.M and row + 1 < self.N):
                return True
        return False

    def _granularity(self, **lengths: int) -> Iterator[str]:
        for name, length in lengths.items():
            if length * self.elem_bytes % WORD_BYTES:
                length_bytes = length * self.elem_bytes
                yield f"granularity: {name}*e = {length_bytes} B is not a multiple of 4 B"

    def _stride_violation(self, formula: str, stride: int) -> Iterator[str]:
        if not self._fits_stride(stride):
            words = stride * self.elem_bytes // WORD_BYTES
            yield f"shim stride: {formula}*e/4 = {words} words > {MAX_STRIDE_WORDS}"

    # --- Prediction ----------------------------------------------------------------------------

    @classmethod
    def for_problem(
        cls,
        M: int,
        N: int,
        elem_bytes: int,
        *,
        device: str = "npu",
        ld_in: int | None = None,
        ld_out: int | None = None,
        batch: int = 1,
        batch_stride_in: int | None = None,
        batch_stride_out: int | None = None,
    ) -> TransposePlan:
        """The legal plan of least predicted time, without idle workers; its `reason` says why.

        Shapes that no block of the kernel divides, and elements it does not know, are left to the
        DMA engines (s = 1) if the elements are whole words.

        Raises:
            PlanError: no tile divides the matrix, or its layout breaks a limit whatever the tile.
        """
        from aie_design.choose import choose

        blocks = elem_bytes in KERNEL_ELEM_BYTES and M % 4 == 0 and N % 4 == 0
        side = 4 if blocks or elem_bytes % WORD_BYTES else 1
        problem = cls(
            M,
            N,
            side,
            side,
            side,
            elem_bytes,
            device=device,
            ld_in=ld_in,
            ld_out=ld_out,
            batch=batch,
            batch_stride_in=batch_stride_in,
            batch_stride_out=batch_stride_out,
        )
        problem.check()
        return choose(problem)

    def busiest_tiles(self) -> int:
        """Tiles of the worker that has most."""
        return max(prod(map(len, self.share(*worker))) for worker in self.workers())

    def predicted_seconds(self) -> float:
        """Time on the device, from the first tile to the last; dispatch and copies come on top.

        The slowest of four that work at once: a worker's DMA channel, a worker's core, the memory
        all share, and the controller that issues the tasks.
        """
        device = DEVICES[self.device]
        waste_bytes = device.full_burst_bytes / BURST_WASTE
        reading, writing = (1 + waste_bytes / (run * self.elem_bytes) for run in (self.n, self.m))
        dma = max(reading, writing) * self.tile_bytes / CHANNEL_BYTES_PER_CYCLE
        core = self.core_cycles()
        a_tile = max(dma, core) if self.depth > 1 else 2 * dma + core
        worker = (self.busiest_tiles() * a_tile + dma + core) / device.clock_hz
        memory = (reading + writing) * self.nbytes / DRAM_BYTES_PER_SECOND
        tasks = sum(len(self.tasks_of(*worker)) for worker in self.workers())
        return max(worker, memory, tasks * TASK_SECONDS)

    def core_cycles(self) -> float:
        """Cycles of aie_kernels/transpose.cc for one tile, bound by its busiest unit."""
        copies = self.s == 1
        run_bytes = self.tile_bytes if copies else self.m * self.elem_bytes
        piece_bytes = min(VECTOR_BYTES, run_bytes & -run_bytes)
        slots = VECTOR_BYTES // piece_bytes
        pieces = self.tile_bytes // (piece_bytes * self.s)
        vectors = -(-pieces // slots) * self.s
        one_block = self.s * self.elem_bytes == VECTOR_BYTES
        shuffles = 0 if copies else (self.s - 1).bit_length() + (not one_block)
        # A store moves 32 bytes; pieces below 16 go word by word, in, through a vector, and out.
        moves = max(2, slots) if piece_bytes >= 16 else 3 * VECTOR_BYTES // WORD_BYTES
        return TILE_CYCLES + vectors * max(moves, shuffles)

    # --- For people ----------------------------------------------------------------------------

    def describe(self) -> str:
        """The plan in words, a few lines."""
        tasks = [len(self.tasks_of(*worker)) for worker in self.workers()]
        lines = [
            f"{self.M}x{self.N} -> {self.N}x{self.M}, {self.elem_bytes}-byte elements, "
            f"batch {self.batch}, on {self.device}",
            f"tiles {self.m}x{self.n} ({self.tile_bytes} B) of {self.s}x{self.s} blocks, "
            f"depth {self.depth}, {self.order} order",
            f"{self.columns} column(s) x {self.channels} channel(s), {sum(tasks)} task(s), "
            f"at most {self.in_flight} in flight per worker",
            f"rows {self.row_pitch_in} apart in the input, {self.row_pitch_out} in the output",
        ]
        for hop, tap in zip(Taps._fields, self.taps(), strict=True):
            lines.append(f"  {hop:9} {list(tap.sizes)} / {list(tap.strides)}")
        if self.reason:
            lines.append(f"chosen because {self.reason}")
        return "\n".join(lines)


def _exceeded(*limits: tuple[str, int, int]) -> Iterator[str]:
    """One message for each (name, value, limit) whose value is over its limit."""
    for name, value, limit in limits:
        if value > limit:
            yield f"{name} = {value} > {limit}"
