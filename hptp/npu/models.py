"""The NPUs there are, by the names XRT and the driver give them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """One kind of NPU.

    device      its name in a TransposePlan
    isa         the instruction set of its cores
    names       what XRT and the driver call machines of this kind
    contexts    hardware contexts it holds at once
    drains      whether making room for one context needs all of them dropped
    """

    device: str
    isa: str
    names: tuple[str, ...]
    contexts: int
    drains: bool


MODELS = (
    # On Phoenix a context made after dropping a single other one fails at its first run, so all go
    # (mlir-aie, hostruntime/xrtruntime: "single-entry LRU eviction leaves the firmware in a state
    # …").
    Model("npu", "aie2", ("npu1", "Phoenix", "Hawk Point"), contexts=6, drains=True),
    Model(
        "npu2",
        "aie2p",
        ("npu4", "npu5", "npu6", "Strix", "Strix Halo", "Krackan"),
        contexts=32,
        drains=False,
    ),
)


ISAS = {model.device: model.isa for model in MODELS}


def model_named(name: str) -> Model | None:
    """The model of a device that calls itself `name`, such as "RyzenAI-npu1" or "NPU Strix"."""
    for model in MODELS:
        if any(
            re.search(rf"{re.escape(known)}(?!\d)", name, re.IGNORECASE) for known in model.names
        ):
            return model
    return None
