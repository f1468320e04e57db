"""What the README shows is what runs: its programs are those the tests build, its Python is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONSUMER = ROOT / "cpu_core" / "tests" / "consumer"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("language, file", [("cpp", "use_cpp.cpp"), ("c", "use_c.c")])
def test_programs_are_those_built_by_the_tests(language: str, file: str) -> None:
    assert blocks(language) == [(CONSUMER / file).read_text()]


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)
    assert names["planes"].shape == (64, 3, 224, 224)  # type: ignore[attr-defined]
    assert names["matrix"].shape == (32, 64)  # type: ignore[attr-defined]
    assert "cpu" in capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
