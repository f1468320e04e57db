"""The second reader itself, on the recorded streams: needs no compiler."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolchain.recorded import recorded
from tests.toolchain.registers import (
    Descriptor,
    Loop,
    Task,
    Wait,
    descriptors,
    events,
    joined,
    loops,
)
from tests.unit.test_instructions import DESIGNS, name_of, words_of


@pytest.mark.parametrize("design", DESIGNS, ids=name_of)
def test_shim_descriptors_read_as_recorded(design: dict[str, Any]) -> None:
    assert list(map(recorded, descriptors(words_of(design)))) == design["shim"]


def test_a_recorded_sequence_fills_drains_and_waits() -> None:
    design = next(d for d in DESIGNS if (d["M"], d["N"], d["m"], d["dtype"]) == (64, 32, 16, "i32"))
    fill, drain, wait = events(words_of(design))
    assert isinstance(fill, Task)
    assert isinstance(drain, Task)
    assert (fill.direction, fill.runs, fill.token, fill.argument) == ("fill", 4, False, 0)
    assert (drain.direction, drain.runs, drain.token, drain.argument) == ("drain", 4, True, 1)
    assert wait == Wait(0, "drain", 0)
    tile_rows, tile_cols, tile_row, element = Loop(4, 512), Loop(2, 16), Loop(16, 32), Loop(16, 1)
    assert loops(fill.descriptor, fill.runs) == [tile_rows, tile_cols, tile_row, element]
    # The output's tile columns follow one another: 2 × 16 rows of 64 words are 32 rows.
    assert loops(drain.descriptor, drain.runs) == [Loop(4, 16), Loop(32, 64), Loop(16, 1)]


def test_loops_join_where_one_continues_the_other() -> None:
    assert joined([Loop(3, 8), Loop(2, 4), Loop(1, 7), Loop(4, 1)]) == [Loop(24, 1)]
    assert joined([Loop(2, 64), Loop(4, 8), Loop(4, 1)]) == [Loop(2, 64), Loop(4, 8), Loop(4, 1)]


def test_a_descriptor_that_covers_a_part_of_its_length_is_not_read_as_loops() -> None:
    once, lock = Loop(1, 1), (0, 0)
    odd = Descriptor(0, 1, 0, 10, (Loop(4, 1), Loop(0, 4)), once, None, 0, lock, lock)
    with pytest.raises(AssertionError, match="no multiple of a wrap of 4"):
        loops(odd)
