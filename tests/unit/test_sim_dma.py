"""The addresses a BD visits, against nested loops."""

from __future__ import annotations

from itertools import islice, product

from hypothesis import given
from hypothesis import strategies as st

from aie_design.operations import BufferDescriptor, Dim
from hptp.sim.dma import Walk

dims = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 40)), max_size=3)


def visited(descriptor: BufferDescriptor) -> list[int]:
    """The words of one run, loop by loop; the last loop has no end of its own."""
    *inner, outer = descriptor.dims
    loops = [range(descriptor.length), *(range(dim.wrap) for dim in reversed(inner))]
    steps = [outer.step, *(dim.step for dim in reversed(inner))]
    words = (sum(k * d for k, d in zip(i, steps, strict=True)) for i in product(*loops))
    return list(islice(words, descriptor.length))


@given(dims, st.integers(1, 40), st.integers(1, 200), st.data())
def test_words_are_visited_in_the_order_of_the_loops(
    inner: list[tuple[int, int]], outer_step: int, length: int, data: st.DataObject
) -> None:
    descriptor = BufferDescriptor(length, (*(Dim(*dim) for dim in inner), Dim(0, outer_step)))
    walk, expected = Walk(descriptor), visited(descriptor)
    assert walk.num_words == max(expected) + 1
    assert not walk.is_linear or expected == list(range(length))
    start = data.draw(st.integers(0, length - 1))
    count = data.draw(st.integers(1, length - start))
    assert walk.window(start, count).tolist() == expected[start : start + count]


def test_dimensions_that_are_not_used_change_nothing() -> None:
    """The compiler leaves them at wrap 0, step 1, after the last one that counts."""
    long = BufferDescriptor(24, (Dim(4, 1), Dim(3, 8), Dim(0, 100), Dim(0, 1)))
    short = BufferDescriptor(24, (Dim(4, 1), Dim(3, 8), Dim(0, 100)))
    assert Walk(long).window(0, 24).tolist() == Walk(short).window(0, 24).tolist() == visited(short)
