"""Pictures of a plan: where the elements lie at every level, and in which order they are visited.

The NPU's picture follows one matrix through its four homes. A colour belongs to a tile where whole
matrices are shown, and to an s×s block where one tile is; blocks keep their colour as they move,
and in a small tile every element keeps its number, so that the eye can follow both. The arrow is
the order in which the access pattern at that hop visits memory, as far as it teaches something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from aie_design.plan import Tap, TransposePlan
from hptp._core import Plan
from hptp.cli._figure import Arrow, Figure, Point, Rect, Shape, Text, color

PANEL = 300.0
GAP = 60.0
MARGIN = 30.0
HEADER = 80.0
CAPTION = 96.0

MAX_TILES = 16  # drawn along one side of a matrix; the rest is alike
MAX_NUMBERED = 16  # elements along one side of a tile up to which each shows its number
TILE_ROWS = 2  # of a tile, as they arrive, that an arrow follows; all of them would be a blot

Paint = Callable[[int, int], str]


class Grid:
    """A matrix of cells somewhere in a figure, whose cells are as square as they can be."""

    def __init__(self, x: float, y: float, rows: int, columns: int) -> None:
        self.x, self.y, self.rows, self.columns = x, y, rows, columns
        # A side is never drawn less than a quarter of the other, however thin the matrix is.
        ratio = min(max(rows / columns, 0.25), 4.0)
        self.width, self.height = PANEL / max(ratio, 1.0), PANEL * min(ratio, 1.0)
        self.cell_width, self.cell_height = self.width / columns, self.height / rows

    def cells(self, paint: Paint, label: Callable[[int, int], str] | None = None) -> list[Shape]:
        """A rectangle for every cell, with a label if it has one."""
        shapes: list[Shape] = []
        edge = "#ffffff" if min(self.cell_width, self.cell_height) > 4 else "none"
        for row in range(self.rows):
            for column in range(self.columns):
                x, y = self.x + column * self.cell_width, self.y + row * self.cell_height
                fill = paint(row, column)
                shapes.append(Rect(x, y, self.cell_width, self.cell_height, fill, edge, 0.6))
                if label is not None:
                    size = min(0.42 * self.cell_width, 0.6 * self.cell_height, 11.0)
                    middle = (x + self.cell_width / 2, y + self.cell_height / 2 + 0.35 * size)
                    text = label(row, column)
                    shapes.append(Text(*middle, text, size, "middle", color="#5b6270"))
        return shapes

    def border(self) -> Rect:
        return Rect(self.x, self.y, self.width, self.height, "none", "#20242c", 1.2)

    def centre(self, row: float, column: float) -> Point:
        """The middle of a cell; fractions are parts of one."""
        return (
            self.x + (column + 0.5) * self.cell_width,
            self.y + (row + 0.5) * self.cell_height,
        )


def draw_npu(plan: TransposePlan) -> Figure:
    """The four homes of a matrix on the NPU: L3, L2, L1 and L3 again."""
    figure = Figure(2 * MARGIN + 4 * PANEL + 3 * GAP, HEADER + PANEL + CAPTION)
    _title(
        figure,
        f"{plan.M}×{plan.N} becomes {plan.N}×{plan.M} on the NPU",
        f"tiles of {plan.m}×{plan.n}, blocks of {plan.s}×{plan.s}, "
        f"{plan.elem_bytes}-byte elements; arrows show in which order memory is visited",
    )
    taps = plan.taps()
    tile_rows, tile_columns = plan.M // plan.m, plan.N // plan.n
    _matrix_panel(
        figure, 0, "L3: input in host memory", tile_rows, tile_columns, plan, taps.l3_to_l2
    )
    _tile_panel(figure, 1, "L2: the tile as it lies in the memtile", plan, transposed=False)
    _tile_panel(figure, 2, "L1: the tile after the kernel", plan, transposed=True)
    _matrix_panel(
        figure, 3, "L3: output in host memory", tile_columns, tile_rows, plan, taps.l1_to_l3
    )
    for i, hop in enumerate(("fill", "to core", "drain")):
        x = MARGIN + (i + 1) * PANEL + i * GAP
        y = HEADER + PANEL / 2
        figure.add(Arrow(((x + 12, y), (x + GAP - 12, y)), "#8a92a0", 3.0))
        figure.add(Text(x + GAP / 2, y - 12, hop, 11, "middle", color="#5b6270"))
    return figure


def draw_cpu(rows: int, columns: int, plan: Plan) -> Figure:
    """The tiles in which the CPU transposes a matrix, numbered alike on both sides."""
    tile_rows, tile_columns = plan.tile or (rows, columns)
    figure = Figure(2 * MARGIN + 2 * PANEL + GAP, HEADER + PANEL + CAPTION)
    _title(
        figure,
        f"{rows}×{columns} becomes {columns}×{rows} on the CPU",
        f"tiles of {tile_rows}×{tile_columns}, {plan.problem.elem_bytes}-byte elements, "
        f"kernel {plan.kernel} for {plan.isa}, {plan.num_threads} thread(s)",
    )
    down, across = -(-rows // tile_rows), -(-columns // tile_columns)
    source = _panel(0, min(down, MAX_TILES), min(across, MAX_TILES))
    target = _panel(1, source.columns, source.rows)
    count = source.rows * source.columns

    def number(i: int, j: int) -> int:
        return i * source.columns + j

    def paint(i: int, j: int) -> str:
        return color(number(i, j), count)

    figure.add(*source.cells(paint, lambda i, j: str(number(i, j))))
    figure.add(*target.cells(lambda j, i: paint(i, j), lambda j, i: str(number(i, j))))
    figure.add(source.border(), target.border())
    _caption(figure, 0, ["source", _drawn(down, across, "tiles")])
    _caption(figure, 1, ["destination", "the same tiles, each turned over"])
    return figure


def _matrix_panel(
    figure: Figure, place: int, title: str, down: int, across: int, plan: TransposePlan, tap: Tap
) -> None:
    """A whole matrix in host memory: tiles in colours, an arrow from tile to tile."""
    is_output = place == 3
    grid = _panel(place, min(down, MAX_TILES), min(across, MAX_TILES))
    count = grid.rows * grid.columns
    if is_output:
        figure.add(*grid.cells(lambda i, j: color(j * grid.rows + i, count)))
    else:
        figure.add(*grid.cells(lambda i, j: color(i * grid.columns + j, count)))
    first = Rect(grid.x, grid.y, grid.cell_width, grid.cell_height, "none", "#20242c", 3.0)
    figure.add(grid.border(), first)
    pitch = plan.row_pitch_out if is_output else plan.row_pitch_in
    tile_height, tile_width = (plan.n, plan.m) if is_output else (plan.m, plan.n)
    corners = (divmod(start, pitch) for start in _tile_starts(tap))
    order = [(row // tile_height, column // tile_width) for row, column in corners]
    _arrow(figure, grid, [stop for stop in order if stop[0] < grid.rows and stop[1] < grid.columns])
    size = f"{plan.N}×{plan.M}" if is_output else f"{plan.M}×{plan.N}"
    tiles = f"{size}, {_drawn(down, across, 'tiles')}"
    _caption(figure, place, [title, tiles, _words(tap), "the framed tile is the one between"])


def _tile_panel(
    figure: Figure, place: int, title: str, plan: TransposePlan, transposed: bool
) -> None:
    """One tile as n rows of m elements: blocks in colours, elements by their number in the tile."""
    m, n, s = plan.m, plan.n, plan.s
    blocks_across = n // s

    def origin(row: int, column: int) -> tuple[int, int]:
        """The row and column in the m×n tile of the element that lies here."""
        in_row, in_column = (column % s, row % s) if transposed else (row % s, column % s)
        return column // s * s + in_row, row // s * s + in_column

    def paint(row: int, column: int) -> str:
        i, j = origin(row, column)
        return color(i // s * blocks_across + j // s, m // s * blocks_across)

    def number(row: int, column: int) -> str:
        i, j = origin(row, column)
        return str(i * n + j)

    if max(m, n) <= MAX_NUMBERED:
        grid = _panel(place, n, m)
        figure.add(*grid.cells(paint, number))
    else:  # a cell a block
        grid = _panel(place, n // s, m // s)
        figure.add(*grid.cells(lambda row, column: paint(row * s, column * s)))
    figure.add(grid.border())
    scale = grid.columns / m  # cells per element: 1, or 1/s
    if transposed:
        runs = [(row, 0, m) for row in range(2 * TILE_ROWS)]
        note, order = "every block is turned over: the tile is transposed", "linear, row by row"
    else:
        tap = plan.taps().into_l2
        starts = islice(tap.indices(), 0, TILE_ROWS * n, s)
        runs = [(*divmod(start, m), s) for start in starts]
        note, order = "blocks in their new places; inside, rows are still rows", _words(tap)
    stops = [
        ((row + 0.5) * scale - 0.5, (column + offset + 0.5) * scale - 0.5)
        for row, column, length in runs
        for offset in (0, length - 1)
    ]
    _arrow(figure, grid, stops)
    _caption(figure, place, [title, note, order])


def _panel(place: int, rows: int, columns: int) -> Grid:
    return Grid(MARGIN + place * (PANEL + GAP), HEADER, rows, columns)


def _tile_starts(tap: Tap) -> list[int]:
    """Where each tile of a matrix begins, in the order in which the tap visits them."""
    (outer, inner), (outer_stride, inner_stride) = tap.sizes[:2], tap.strides[:2]
    return [
        tap.offset + i * outer_stride + j * inner_stride for i in range(outer) for j in range(inner)
    ]


def _arrow(figure: Figure, grid: Grid, stops: Sequence[tuple[float, float]]) -> None:
    points = tuple(grid.centre(row, column) for row, column in stops)
    if len(points) > 1:
        figure.add(Arrow(points, line_width=1.6 if len(points) < 100 else 0.8))


def _title(figure: Figure, title: str, subtitle: str) -> None:
    figure.add(Text(MARGIN, 34, title, 20, bold=True), Text(MARGIN, 57, subtitle, 13))


def _caption(figure: Figure, place: int, lines: Sequence[str]) -> None:
    x, y = MARGIN + place * (PANEL + GAP), HEADER + PANEL + 24
    figure.add(Text(x, y, lines[0], 13, bold=True))
    for i, line in enumerate(lines[1:], start=1):
        figure.add(Text(x, y + 19 * i, line, 12, color="#5b6270"))


def _drawn(down: int, across: int, what: str) -> str:
    if max(down, across) <= MAX_TILES:
        return f"{down}×{across} {what}"
    return f"{min(down, MAX_TILES)}×{min(across, MAX_TILES)} of {down}×{across} {what} shown"


def _words(tap: Tap) -> str:
    """An access pattern as hardware people write it."""
    return f"{list(tap.sizes)} / {list(tap.strides)}"
