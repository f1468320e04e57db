"""Fixtures: the fake hardware (parametrize it to have another), and a machine around it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aie_design.build import Toolchain
from hptp.devices import npu
from hptp.npu import runtime
from hptp.npu.artifacts import Cache
from tests.device.fake_pyxrt import Hardware, make_pyxrt
from tests.device.machine import Machine


@pytest.fixture
def hardware() -> Hardware:
    return Hardware()


@pytest.fixture
def machine(hardware: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    no_tools = Toolchain.find({}, [], tmp_path)
    monkeypatch.setattr(Toolchain, "find", lambda: no_tools)
    monkeypatch.setenv("HPTP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "_opened", None)
    monkeypatch.setattr(npu.DEVICE, "_plans", runtime.Recent(npu.MAX_PLANS))
    pyxrt = make_pyxrt(hardware)
    monkeypatch.setitem(sys.modules, "pyxrt", pyxrt)
    return Machine(hardware, pyxrt, Cache(tmp_path / "cache"))
