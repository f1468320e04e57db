"""A figure as a list of shapes, and the two ways to write it: SVG by ourselves, PNG by matplotlib.

Coordinates are in pixels from the top left corner, as in SVG.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from hptp.errors import HptpError

FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"
INK = "#20242c"
ARROW_PIXELS = 7.0

Point = tuple[float, float]


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str
    edge: str = "none"
    line_width: float = 1.0


@dataclass(frozen=True)
class Arrow:
    """A line through `points`, with a head at the last one."""

    points: tuple[Point, ...]
    color: str = INK
    line_width: float = 1.4

    def head(self) -> tuple[Point, Point, Point]:
        """The corners of the arrow's head."""
        (x0, y0), (x1, y1) = self.points[-2:]
        length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
        ux, uy = (x1 - x0) / length * ARROW_PIXELS, (y1 - y0) / length * ARROW_PIXELS
        return (
            (x1, y1),
            (x1 - ux - uy / 2, y1 - uy + ux / 2),
            (x1 - ux + uy / 2, y1 - uy - ux / 2),
        )


@dataclass(frozen=True)
class Text:
    """One line of text; `anchor` is "start" or "middle", `y` its baseline."""

    x: float
    y: float
    text: str
    size: float = 13.0
    anchor: str = "start"
    bold: bool = False
    color: str = INK


Shape = Rect | Arrow | Text


@dataclass
class Figure:
    """Shapes, drawn in order."""

    width: float
    height: float
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes.extend(shapes)

    def save(self, path: Path) -> None:
        """Write the figure as SVG or PNG, as the file name says.

        Raises:
            HptpError: the name ends in neither .svg nor .png, or PNG is wanted without matplotlib.
        """
        if path.suffix == ".svg":
            path.write_text(self.to_svg(), encoding="utf-8")
        elif path.suffix == ".png":
            self._save_png(path)
        else:
            raise HptpError(f"{path} ends in neither .svg nor .png")

    def to_svg(self) -> str:
        body = "\n".join(_svg(shape) for shape in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" '
            f'height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'font-family="{FONT}">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
        )

    def _save_png(self, path: Path) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure as MatplotlibFigure
            from matplotlib.patches import Polygon, Rectangle
        except ImportError:
            raise HptpError(
                f"{path}: PNG needs matplotlib (pip install 'hptp[plot]'); SVG needs nothing"
            ) from None
        dots_per_inch = 200.0
        points_per_pixel = 0.75  # 96 CSS pixels, or 72 points, an inch
        canvas = MatplotlibFigure(figsize=(self.width / 96, self.height / 96), dpi=dots_per_inch)
        FigureCanvasAgg(canvas)
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        for shape in self.shapes:
            if isinstance(shape, Rect):
                axes.add_patch(
                    Rectangle(
                        (shape.x, shape.y),
                        shape.width,
                        shape.height,
                        facecolor=shape.fill,
                        edgecolor=shape.edge,
                        linewidth=shape.line_width * points_per_pixel,
                    )
                )
            elif isinstance(shape, Arrow):
                xs, ys = zip(*shape.points)
                width = shape.line_width * points_per_pixel
                axes.plot(xs, ys, color=shape.color, linewidth=width, solid_joinstyle="round")
                axes.add_patch(Polygon(shape.head(), closed=True, color=shape.color, linewidth=0))
            else:
                axes.text(
                    shape.x,
                    shape.y,
                    shape.text,
                    fontsize=shape.size * points_per_pixel,
                    color=shape.color,
                    ha={"start": "left", "middle": "center"}[shape.anchor],
                    fontweight="bold" if shape.bold else "normal",
                    parse_math=False,
                )
        canvas.savefig(path)


def color(index: int, count: int, lightness: float = 0.78) -> str:
    """The `index`-th of `count` colours that are told apart easily."""
    # Steps of the golden ratio put neighbours far apart whatever their number.
    hue = index / count if count <= 12 else index * 0.618034 % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, 0.62)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _svg(shape: Shape) -> str:
    if isinstance(shape, Rect):
        edge = f' stroke="{shape.edge}" stroke-width="{shape.line_width:g}"'
        return (
            f'<rect x="{shape.x:.6g}" y="{shape.y:.6g}" width="{shape.width:.6g}" '
            f'height="{shape.height:.6g}" fill="{shape.fill}"'
            f"{edge if shape.edge != 'none' else ''}/>"
        )
    if isinstance(shape, Arrow):
        line = " ".join(f"{x:.6g},{y:.6g}" for x, y in shape.points)
        head = " ".join(f"{x:.6g},{y:.6g}" for x, y in shape.head())
        return (
            f'<polyline points="{line}" fill="none" stroke="{shape.color}" '
            f'stroke-width="{shape.line_width:g}" stroke-linejoin="round"/>'
            f'<polygon points="{head}" fill="{shape.color}"/>'
        )
    weight = ' font-weight="bold"' if shape.bold else ""
    return (
        f'<text x="{shape.x:.6g}" y="{shape.y:.6g}" font-size="{shape.size:g}" '
        f'text-anchor="{shape.anchor}" fill="{shape.color}"{weight}>{escape(shape.text)}</text>'
    )
