"""The XRT protocol under faults: what is kept, what is retried, and what is given up."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import hptp as hp
from hptp.npu import runtime, xrt
from hptp.npu.artifacts import Design
from hptp.npu.models import model_named
from hptp.npu.runtime import Recent
from tests.device.fake_pyxrt import BrokenRule, Hardware, put_program
from tests.device.machine import Machine
from tests.reference import assert_same_bits, permuted, random_array

X = random_array((64, 32), "i4")
PERM = (1, 0)


def permute(x: np.ndarray[Any, Any] = X) -> None:
    assert_same_bits(hp.permute(x, PERM, device="npu"), permuted(x, PERM))


@pytest.fixture
def ready(machine: Machine) -> Machine:
    """A machine that has the program for X."""
    machine.provide_for(X, PERM)
    return machine


def test_everything_costly_is_made_once(ready: Machine) -> None:
    for seed in range(3):
        permute(random_array(X.shape, X.dtype, seed))
    for call in ("device", "hw_context", "kernel"):
        assert ready.hardware.count(call) == 1
    assert ready.hardware.count("bo") == 3
    assert ready.hardware.count("run") == 3


def test_threads_share_the_device(ready: Machine) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            permute(random_array(X.shape, X.dtype, seed))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ready.hardware.count("hw_context") == 1


@pytest.mark.parametrize("fault, state", [("error", "ERROR"), ("abort", "ABORT")])
def test_a_failed_run_is_tried_once_more_in_a_fresh_context(
    ready: Machine, fault: str, state: str
) -> None:
    ready.hardware.faults = [fault]
    permute()
    assert ready.hardware.count("hw_context") == 2
    ready.hardware.faults = [fault, fault]
    with pytest.raises(hp.DeviceError, match=f"ERT_CMD_STATE_{state}"):
        permute()
    permute()


def test_a_context_that_was_lost_is_made_again(ready: Machine) -> None:
    permute()
    ready.hardware.faults = ["lost"]
    permute()
    assert ready.hardware.count("hw_context") == 2


def test_a_run_that_never_ends_wedges_the_device_for_the_process(ready: Machine) -> None:
    permute()
    ready.hardware.faults = ["timeout"]
    with pytest.raises(hp.DeviceError, match=r"5000 ms.*TIMEOUT.*timeout_in_sec"):
        permute()
    runs = ready.hardware.count("run")
    for _ in range(2):
        with pytest.raises(hp.DeviceError, match="did not end"):
            permute()
    assert ready.hardware.count("run") == runs
    info = {info.name: info for info in hp.devices()}["npu"]
    assert not info.available
    assert "did not end" in info.reason


def test_buffers_of_a_wedged_run_are_never_freed(ready: Machine) -> None:
    ready.hardware.faults = ["timeout"]
    with pytest.raises(hp.DeviceError):
        permute()
    assert runtime._opened is not None
    assert runtime._opened._wedged is not None
    assert len(runtime._opened._wedged[1]) == 5


def test_a_wedged_device_leaves_the_cpu_alone(ready: Machine) -> None:
    ready.hardware.faults = ["timeout"]
    with pytest.raises(hp.DeviceError):
        permute()
    assert_same_bits(hp.permute(X, PERM, device="cpu"), permuted(X, PERM))


def programs(machine: Machine, count: int) -> list[np.ndarray[Any, Any]]:
    """Arrays that each need a program of their own, provided."""
    arrays = {}
    for seed, size in enumerate(range(8, 200, 4)):
        x = random_array((size, 4), "i4", seed)
        if len(arrays) < count:
            arrays.setdefault(machine.provide_for(x, PERM).folder, x)
    assert len(arrays) == count
    return list(arrays.values())


def test_contexts_are_evicted_before_there_are_too_many(machine: Machine) -> None:
    for x in programs(machine, 8):
        permute(x)
    assert len(machine.hardware.live_contexts) <= machine.hardware.contexts


@pytest.mark.parametrize("hardware", [Hardware(contexts=2)])
def test_when_others_hold_contexts_one_retry_makes_room(machine: Machine) -> None:
    for x in programs(machine, 4):
        permute(x)


@pytest.mark.parametrize("hardware", [Hardware("NPU Strix", contexts=2)])
def test_only_the_least_recently_used_program_is_evicted(machine: Machine) -> None:
    first, second, third = programs(machine, 3)
    permute(first)
    permute(second)
    permute(first)
    permute(third)  # needs room: the second goes
    made = machine.hardware.count("hw_context")
    permute(first)
    assert machine.hardware.count("hw_context") == made
    permute(second)
    assert machine.hardware.count("hw_context") > made


@pytest.mark.parametrize("hardware", [Hardware(contexts=0)])
def test_when_all_contexts_are_taken_the_error_says_so(ready: Machine) -> None:
    with pytest.raises(
        hp.DeviceError, match=r"no hardware context is free of the device's 6.*No such file"
    ):
        permute()


@pytest.mark.parametrize("hardware", [Hardware(num_devices=0)])
def test_without_a_device_the_error_points_at_the_doctor(machine: Machine) -> None:
    with pytest.raises(hp.DeviceError, match=r"no device opens.*hptp doctor"):
        permute()


@pytest.mark.parametrize("hardware", [Hardware("RyzenAI-npu99")])
def test_an_unknown_device_is_refused_by_name(machine: Machine) -> None:
    with pytest.raises(hp.DeviceError, match="RyzenAI-npu99"):
        permute()


DESIGN = Design("npu", 4, 16, 16, 4, 1, 1, 2, "transpose_4x4")


@pytest.mark.parametrize(
    "program, reason",
    [({"kernel": "vadd"}, "no kernel MLIR_AIE"), ({"num_args": 4}, "takes 4 arguments, not 5")],
)
def test_a_foreign_xclbin_is_refused(
    machine: Machine, program: dict[str, Any], reason: str
) -> None:
    put_program(machine.cache, DESIGN, **program)
    with pytest.raises(hp.DeviceError, match=reason):
        permute()


def test_an_xclbin_that_xrt_cannot_read_is_refused(machine: Machine) -> None:
    machine.cache.store(DESIGN, "fake", lambda f: (f / "design.xclbin").write_text("?") and None)
    with pytest.raises(hp.DeviceError, match=r"cannot read .*design\.xclbin.*hptp build"):
        permute()


def test_a_child_process_opens_the_device_itself_and_closes_nothing(ready: Machine) -> None:
    permute()
    (context,) = ready.hardware.live_contexts
    held = weakref.ref(context)
    del context
    runtime._leave_to_parent()
    permute()
    assert ready.hardware.count("device") == 2
    assert held() is not None


@pytest.mark.parametrize(
    "call, meaning",
    [
        ("xclbin", r"cannot read .*design\.xclbin; remove its folder"),
        ("register_xclbin", r"does not take .*design\.xclbin; `hptp doctor` shows its versions"),
        ("kernel", "does not take"),
        ("bo", "no buffer of .* bytes; `hptp doctor` shows the memlock limit"),
        ("sync", "do not reach the device|does not reach the device"),
    ],
)
def test_what_xrt_refuses_is_explained(ready: Machine, call: str, meaning: str) -> None:
    ready.hardware.refused.add(call)
    with pytest.raises(hp.DeviceError, match=rf"npu: .*({meaning}).*: {call} refused"):
        permute()
    ready.hardware.refused.clear()
    permute()


def test_large_buffers_are_not_hoarded(ready: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "MAX_BUFFER_BYTES", 3 << 16)
    for size in (64, 128, 192, 256):
        x = random_array((size, 128), "i4")
        ready.provide_for(x, PERM)
        permute(x)
    assert runtime._opened is not None
    assert [size for _, _, size in runtime._opened._buffers] == [2 << 16, 2 << 16]


def test_large_problems_are_several_runs(ready: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((2, 2, 2, 2, 4, 8), "i4")
    perm = (1, 0, 3, 2, 5, 4)
    ready.provide_for(x, perm)
    monkeypatch.setattr("hptp.npu.slabs.MAX_RUN_OPERATIONS", 1)
    assert_same_bits(hp.permute(x, perm, device="npu"), permuted(x, perm))
    assert ready.hardware.count("run") > 1


def test_the_fake_is_strict(ready: Machine) -> None:
    """The rules below are what makes the tests above mean something."""
    fake, artifact = ready.pyxrt, ready.cache.entries()[0]
    device = fake.device(0)
    binary = fake.xclbin(str(artifact.xclbin))
    to_device = fake.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
    with pytest.raises(BrokenRule, match="not registered"):
        fake.hw_context(device, binary.get_uuid())
    context = fake.hw_context(device, device.register_xclbin(binary))
    with pytest.raises(BrokenRule, match="not in the xclbin"):
        fake.kernel(context, "MLIR")
    kernel = fake.kernel(context, "MLIR_AIE")
    with pytest.raises(BrokenRule, match=r"not Flags\.cacheable"):
        fake.bo(device, 64, fake.bo.host_only, kernel.group_id(1))
    words = fake.bo(device, 300, fake.bo.cacheable, kernel.group_id(1))
    source = fake.bo(device, 8192, fake.bo.host_only, kernel.group_id(3))
    target = fake.bo(device, 8192, fake.bo.host_only, kernel.group_id(4))
    with pytest.raises(BrokenRule, match="was not synced"):
        kernel(3, words, 300, source, target)
    words.sync(to_device, 300, 0)
    source.sync(to_device, 8192, 0)
    for arguments, reason in (
        ((3, words, 300, source), "5 arguments"),
        ((3, words, np.int64(300), source, target), "size of the instructions"),
        ((3, words, 300, target, source), "in group"),
        ((2, words, 300, source, target), "opcode"),
        ((3, words, 300, source, bytes(8192)), "not a bo"),
    ):
        with pytest.raises(BrokenRule, match=reason):
            kernel(*arguments)
    source.write(b"new", 0)
    with pytest.raises(BrokenRule, match="input buffer was not synced"):
        kernel(3, words, 300, source, target)
    source.sync(to_device, 8192, 0)
    with pytest.raises(BrokenRule, match="without a timeout"):
        kernel(3, words, 300, source, target).wait()


def test_recent_keeps_the_last_used() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key

    recent: Recent[str, str] = Recent(2)
    for key in "abacab":
        assert recent.get_or_make(key, lambda key=key: make(key)) == key  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]
    assert list(recent) == ["a", "b"]


@pytest.mark.parametrize(
    "name, device",
    [
        ("RyzenAI-npu1", "npu"),
        ("NPU Phoenix", "npu"),
        ("NPU Hawk Point", "npu"),
        ("RyzenAI-npu4", "npu2"),
        ("NPU Strix", "npu2"),
        ("NPU Strix Halo", "npu2"),
        ("RyzenAI-npu6", "npu2"),
        ("NPU Krackan 1", "npu2"),
        ("RyzenAI-npu11", None),
        ("RyzenAI-npu3", None),
        ("", None),
    ],
)
def test_devices_are_known_by_their_names(name: str, device: str | None) -> None:
    model = model_named(name)
    assert (model.device if model else None) == device


def test_pyxrt_missing_is_explained(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = "cp39"
    (tmp_path / "pyxrt.cpython-39-x86_64-linux-gnu.so").touch()
    monkeypatch.setattr(xrt, "bindings", lambda: bindings)
    bindings = [xrt.Binding(tmp_path / "pyxrt.cpython-39-x86_64-linux-gnu.so", tag)]
    monkeypatch.setitem(__import__("sys").modules, "pyxrt", None)
    with pytest.raises(hp.DeviceError, match=rf"Python {xrt.PYTHON} \(found .*{tag}\)"):
        xrt.load()
