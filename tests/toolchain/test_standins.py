"""The stand-ins of tests/standins against the IRON that is installed: the very same signatures.

One of them is of the installed generation, and this is where it is checked that a call it accepts
or refuses is one that IRON accepts or refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.standins import g1, g2, g3, g3_patterns
from tests.toolchain import compiler

compiler.require()


def installed_generation() -> Any:
    """The stand-in for the installed IRON, told by its features."""
    from aie import iron

    if "placement" in inspect.signature(iron.Worker.__init__).parameters:
        return g1
    if hasattr(iron.Runtime, "sequence"):
        return g2
    takes_pattern = "from_stream" in inspect.signature(iron.ObjectFifo.cons).parameters
    return g3_patterns if takes_pattern else g3


def parameters(function: Callable[..., Any]) -> list[tuple[str, str, bool]]:
    """(name, kind, has a default) of every parameter."""
    return [
        (p.name, p.kind.name, p.default is not p.empty)
        for p in inspect.signature(function).parameters.values()
    ]


STANDIN = installed_generation()
CANDIDATES = [
    ("ObjectFifo", "__init__"),
    ("ObjectFifo", "prod"),
    ("ObjectFifo", "cons"),
    ("ObjectFifoHandle", "forward"),
    ("ObjectFifoHandle", "fill"),
    ("ObjectFifoHandle", "drain"),
    ("Worker", "__init__"),
    ("Runtime", "__init__"),
    ("Runtime", "sequence"),
    ("Runtime", "task_group"),
    ("Runtime", "finish_task_group"),
    ("Runtime", "fill"),
    ("Runtime", "drain"),
    ("Runtime", "start"),
    ("Program", "__init__"),
    ("Program", "resolve_program"),
    ("TaskGroup", "finish"),
]
# Each generation has only some of them.
METHODS = [(o, m) for o, m in CANDIDATES if hasattr(getattr(STANDIN, o, None), m)]


@pytest.mark.parametrize("owner, method", METHODS, ids=map(".".join, METHODS))
def test_signatures_are_irons(owner: str, method: str) -> None:
    from aie import iron

    theirs = getattr(iron, owner, None) or getattr(iron.dataflow, owner)
    ours = getattr(STANDIN, owner)
    assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method))
