"""Pictures: well-formed, showing what the plan says, and refusing what they cannot be."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aie_design.plan import TransposePlan
from hptp import cli
from hptp._core import Plan, Problem
from hptp.cli import _layout
from hptp.cli._figure import Arrow, Figure, Rect, Text


def texts(figure: Figure) -> list[str]:
    return [shape.text for shape in figure.shapes if isinstance(shape, Text)]


def draw(target: Path, *options: str) -> int:
    return cli.main(["draw", "-o", str(target), *options])


@pytest.mark.parametrize(
    "options",
    [
        ["-M", "64", "-N", "32", "-m", "16", "-n", "16", "-s", "4"],
        ["-M", "4096", "-N", "64", "-m", "64", "-n", "32", "-s", "8", "--dtype", "i16"],
        ["--device", "cpu", "-M", "1000", "-N", "3000"],
        ["--device", "cpu", "-M", "1", "-N", "3"],
    ],
    ids=["default", "large", "cpu", "cpu row"],
)
def test_svg_is_well_formed(options: list[str], tmp_path: Path) -> None:
    assert draw(tmp_path / "x.svg", *options) == 0
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        if "x" in rect.attrib:
            assert 0 <= float(rect.attrib["x"]) <= width - float(rect.attrib["width"])
            assert 0 <= float(rect.attrib["y"]) <= height - float(rect.attrib["height"])


def test_elements_are_numbered_where_the_design_puts_them() -> None:
    """L2 holds blocks in new places with their rows kept, L1 the transposed tile."""
    m, n, s = 8, 16, 4
    numbers = [t for t in texts(_layout.draw_npu(TransposePlan(16, 16, m, n, s, 4))) if t.isdigit()]
    into_l2 = [0] * (m * n)
    tap = TransposePlan(16, 16, m, n, s, 4).taps().into_l2
    for arrived, address in enumerate(tap.indices()):
        into_l2[address] = arrived
    transposed = [row * n + column for column in range(n) for row in range(m)]
    assert numbers == [str(i) for i in into_l2 + transposed]


def test_matrices_keep_the_colours_of_their_tiles() -> None:
    figure = _layout.draw_npu(TransposePlan(32, 48, 16, 16, 4, 4))
    cells = [s for s in figure.shapes if isinstance(s, Rect) and s.fill != "none"]
    source, target = cells[: 2 * 3], cells[-3 * 2 :]
    assert [target[j * 2 + i].fill for i in range(2) for j in range(3)] == [c.fill for c in source]
    assert len({c.fill for c in source}) == 6


def test_arrows_end_where_the_pattern_ends() -> None:
    figure = _layout.draw_npu(TransposePlan(64, 32, 16, 16, 4, 4))
    arrows = [s for s in figure.shapes if isinstance(s, Arrow) and len(s.points) > 2]
    assert [len(arrow.points) for arrow in arrows] == [8, 16, 8, 8]


def test_cpu_tiles_are_those_of_the_plan() -> None:
    plan = Plan(Problem(4, (1000, 3000), (1, 0)))
    assert plan.tile is not None
    tiles = -(-1000 // plan.tile[0]) * -(-3000 // plan.tile[1])
    numbers = [t for t in texts(_layout.draw_cpu(1000, 3000, plan)) if t.isdigit()]
    assert sorted(map(int, numbers)) == sorted([*range(tiles), *range(tiles)])


def test_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert draw(tmp_path / "x.png") == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("x.svg", ["-M", "66"], "M=66 is not a multiple of m=16"),
        ("x.pdf", [], "neither .svg nor .png"),
        ("x.png", [], "hptp[plot]"),
    ],
)
def test_refusals(
    name: str,
    options: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert draw(tmp_path / name, *options) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / name).exists()
