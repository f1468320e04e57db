"""A descriptor in the notation of tests/data/lowered.json."""

from __future__ import annotations

from typing import Any

from tests.toolchain.registers import Descriptor


def recorded(descriptor: Descriptor) -> dict[str, Any]:
    """The fields that the recording has for a descriptor of this kind of tile."""
    *wrapping, last = descriptor.dims
    fields: dict[str, Any] = {
        "col": descriptor.column,
        "bd": descriptor.bd,
        "length": descriptor.length,
        **{f"d{i}": list(dim) for i, dim in enumerate(wrapping)},
        f"d{len(wrapping)}_step": last.step,
    }
    if descriptor.kind == "shim":
        return {**fields, "iteration": list(descriptor.iteration)}
    if descriptor.kind == "core":
        fields["row"] = descriptor.row
    return {**fields, "next": descriptor.next}
