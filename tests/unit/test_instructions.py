"""The assembler against the compiler: every stream of tests/data/lowered.json, word for word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aie_design.instructions import (
    RawOperation,
    assemble,
    decode,
    disassemble,
    encode,
    from_bytes,
    register,
    to_bytes,
)
from aie_design.operations import BufferDescriptor, Dim, WriteDescriptor
from aie_design.plan import TransposePlan
from hptp.errors import PlanError

LOWERED = json.loads((Path(__file__).parents[1] / "data" / "lowered.json").read_text())
DESIGNS: list[dict[str, Any]] = LOWERED["designs"] + LOWERED["more"]["designs"]
ELEM_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}
OPTIONS = ("device", "ld_in", "ld_out", "batch", "columns", "channels", "order")


def plan_of(design: dict[str, Any]) -> TransposePlan:
    """The plan of a recorded design: one task in flight, as its sequence awaits every drain."""
    options = {name: design[name] for name in OPTIONS if name in design}
    shape = [design[name] for name in ("M", "N", "m", "n", "s")]
    if "batch" in design:
        options["tasks"] = design["batch"]
    return TransposePlan(*shape, ELEM_BYTES[design["dtype"]], in_flight=1, **options)


def words_of(design: dict[str, Any]) -> list[int]:
    return [int(word, 16) for word in design["instructions"]]


def name_of(design: dict[str, Any]) -> str:
    fields = [design[key] for key in ("device", "M", "N", "m", "n", "s", "dtype")]
    return design.get("name", "-".join(map(str, fields)))


each_design = pytest.mark.parametrize("design", DESIGNS, ids=name_of)


@each_design
def test_assembled_words_equal_the_compilers(design: dict[str, Any]) -> None:
    assert assemble(plan_of(design)) == words_of(design)


@each_design
def test_decoding_and_encoding_gives_the_same_words(design: dict[str, Any]) -> None:
    words = words_of(design)
    stream = decode(words)
    assert encode(stream) == words
    assert not any(isinstance(operation, RawOperation) for operation in stream.operations)
    assert from_bytes(to_bytes(words)) == words


@each_design
def test_decoded_descriptors_equal_the_recorded_ones(design: dict[str, Any]) -> None:
    writes = [w for w in decode(words_of(design)).operations if isinstance(w, WriteDescriptor)]
    assert [recorded_fields(write) for write in writes] == design["shim"]


def recorded_fields(write: WriteDescriptor) -> dict[str, Any]:
    """A descriptor as lowered.json writes it."""
    d0, d1, d2 = write.descriptor.dims
    return {
        "col": write.column,
        "bd": write.bd,
        "length": write.descriptor.length,
        "d0": list(d0),
        "d1": list(d1),
        "d2_step": d2.step,
        "iteration": list(write.descriptor.iteration),
    }


def test_disassembly_names_every_operation() -> None:
    text = disassemble(assemble(TransposePlan(64, 32, 16, 16, 4, 4)))
    assert text.splitlines() == [
        "npu, 1 column, 8 operations, 75 words",
        "    4  shim 0 BD 0: 512 words a run, dims 16×1, 16×32, ∞×16, each run 512 later (mod 4)",
        "   16  shim 0 BD 0: at argument 0 + 0 B",
        "   28  shim 0 MM2S 0: queue BD 0, 4 runs",
        "   34  shim 0 BD 1: 512 words a run, dims 16×1, 16×64, ∞×1024, each run 16 later (mod 4)",
        "   46  shim 0 BD 1: at argument 1 + 0 B",
        "   58  shim 0 S2MM 0: tokens go to controller 15",
        "   65  shim 0 S2MM 0: queue BD 1, 4 runs, then return a token",
        "   71  shim 0 S2MM 0: wait for a token",
    ]


def stream(*operations: list[int]) -> list[int]:
    """A stream of these operations for npu, with a right header."""
    body = [word for operation in operations for word in operation]
    return [0x06030100, 0x0101, len(operations), 4 * (4 + len(body)), *body]


@pytest.mark.parametrize(
    "operation, text",
    [
        ([0, 0, 0x0021F010, 0, 2, 24], "core (0, 2) lock 1 = 0x00000002"),
        ([1, 0, 0x021A0020, 20, 0xABCD], "memtile 1 BD 1 … = 0000abcd"),
        ([3, 0, 0x0232F000, 0, 1, 3, 28], "core (1, 3) register 0x2f000 = 0x00000001 under mask"),
        ([4, 0, 0x00014000, 0, 0, 1, 28], "poll shim 0 lock 0 until 0x00000000"),
        ([5], "nothing"),
        ([0x106], "preemption point, level 1"),
        ([0x20008, 0, 0, 0], "load configuration 2"),
        ([128, 16, 0x00010100, 0x01020100], "wait for a token of S2MM 1 of each of 2×1 tiles"),
        ([129, 48, 0, 0, 0, 0, 0x001A0004, 0, 2, 0, 64, 0], "memtile 0 BD 0 + 0x4: at argument 2"),
        ([131, 12, 7], "operation 131: 0000000c 00000007"),
    ],
)
def test_disassembly_prints_what_has_no_meaning_here(operation: list[int], text: str) -> None:
    words = stream(operation)
    assert text in disassemble(words)
    assert encode(decode(words)) == words


@pytest.mark.parametrize(
    "words, message",
    [
        ([1, 2, 3], "3 words are fewer than the header's 4"),
        ([0x06030001, 0x0101, 0, 16], "06030001 starts no transaction of version 0.1"),
        ([0x06090100, 0x0101, 0, 16], "06090100 starts no transaction"),
        ([0x06030100, 0x0101, 0, 20], "says 20 bytes, there are 16"),
        ([0x06030100, 0x0101, 2, 20, 5], "says 2 operations, there are 1"),
        (stream([0, 0, 0, 0, 0]), "the operation at word 4 is cut short"),
        (stream([0, 0, 0, 0, 0, 0]), "the operation at word 4 is cut short"),
        (stream([2]), "unknown operation code 2 at word 4"),
    ],
)
def test_malformed_streams_are_refused(words: list[int], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        decode(words)


def test_bytes_that_are_no_words_are_refused() -> None:
    with pytest.raises(PlanError, match="5 bytes is not a whole number"):
        from_bytes(b"12345")


def test_register_names() -> None:
    assert register(0x0201D204) == "shim 1 DMA channel 0 + 0x4"
    assert register(0x00200400) == "core (0, 2) memory 1024"


def test_patterns_that_are_not_whole_words_are_refused() -> None:
    with pytest.raises(PlanError, match="size of 2 elements of 1 B"):
        BufferDescriptor.from_pattern((4, 2), (8, 1), elem_bytes=1, num_dims=3)
    with pytest.raises(PlanError, match="stride of 3 elements of 2 B"):
        BufferDescriptor.from_pattern((4, 2), (3, 1), elem_bytes=2, num_dims=3)
    with pytest.raises(PlanError, match="innermost stride of 2 elements of 2 B"):
        BufferDescriptor.from_pattern((4, 2), (8, 2), elem_bytes=2, num_dims=3)
    with pytest.raises(PlanError, match="need 4 > 3"):
        BufferDescriptor.from_pattern((2, 2, 2, 2), (8, 4, 2, 1), elem_bytes=4, num_dims=3)


def test_a_contiguous_pattern_uses_no_dimension() -> None:
    descriptor = BufferDescriptor.from_pattern((1, 1, 5000), (0, 0, 1), elem_bytes=4, num_dims=3)
    assert descriptor == BufferDescriptor(5000, (Dim(0, 1), Dim(0, 1), Dim(0, 1)))
