"""The artifact cache: what is found again, what is not, and what other processes see of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest

from aie_design.plan import TransposePlan
from hptp.npu import artifacts
from hptp.npu.artifacts import XCLBIN, Artifact, Cache, Design, cache_dir

PLAN = TransposePlan(64, 32, 16, 16, 4, 4)
DESIGN = Design.of(PLAN, "transpose_4x4")


def writer(content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / XCLBIN).write_bytes(content) and None


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def entry(cache: Cache) -> Artifact:
    return cache.store(DESIGN, "tools-1", writer(b"program"))


def test_the_cache_is_where_the_environment_says() -> None:
    assert cache_dir({"HPTP_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/hptp")
    assert cache_dir({"HOME": "/c"}) == Path("/c/.cache/hptp")


def test_an_entry_is_found_again(cache: Cache, entry: Artifact) -> None:
    assert Cache(cache.root).find(DESIGN, "tools-1") == entry
    assert entry.xclbin.read_bytes() == b"program"


def test_an_empty_cache_finds_nothing(cache: Cache) -> None:
    assert cache.find(DESIGN) is None
    assert cache.entries() == []


def test_a_shape_needs_no_other_program() -> None:
    other_shape = TransposePlan(512, 128, 16, 16, 4, 4, ld_in=256, batch=3, order="cols")
    assert Design.of(other_shape, "transpose_4x4") == DESIGN


@pytest.mark.parametrize("name", [field.name for field in fields(Design)])
def test_each_part_of_a_design_counts(cache: Cache, entry: Artifact, name: str) -> None:
    value = getattr(DESIGN, name)
    other = replace(DESIGN, **{name: value + "2" if isinstance(value, str) else value + 1})
    assert cache.find(other) is None
    assert str(other) != str(DESIGN)


def test_other_tools_make_another_program(cache: Cache, entry: Artifact) -> None:
    assert cache.find(DESIGN, "tools-2") is None
    newer = cache.store(DESIGN, "tools-2", writer(b"newer"))
    assert newer.key != entry.key
    assert cache.find(DESIGN, "tools-1") == entry


def test_without_tools_any_build_of_todays_sources_will_do(cache: Cache, entry: Artifact) -> None:
    assert cache.find(DESIGN) == entry


def test_other_sources_make_it_stale(
    cache: Cache, entry: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "program_sources", lambda: "edited")
    assert cache.find(DESIGN) is None
    assert cache.find(DESIGN, "tools-1") is None


def test_sources_are_digested_by_content(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cc"
    file.write_text("one")
    before = artifacts._digest_files([file])
    assert artifacts._digest_files([file]) == before
    file.write_text("two")
    assert artifacts._digest_files([file]) != before
    assert artifacts.digest("ab", "c") != artifacts.digest("a", "bc")


@pytest.mark.parametrize("damage", [b"", b"prog", b"programs"])
def test_a_damaged_program_is_not_found_and_gives_way(
    cache: Cache, entry: Artifact, damage: bytes
) -> None:
    entry.xclbin.write_bytes(damage)
    assert cache.find(DESIGN) is None
    again = cache.store(DESIGN, "tools-1", writer(b"program"))
    assert again == entry
    assert cache.find(DESIGN) == entry


@pytest.mark.parametrize("manifest", ["", "[]", '{"sha256": 1}', "{"])
def test_a_damaged_manifest_is_not_found(cache: Cache, entry: Artifact, manifest: str) -> None:
    (entry.folder / artifacts.MANIFEST).write_text(manifest)
    assert cache.find(DESIGN) is None


def test_a_failed_build_leaves_nothing(cache: Cache) -> None:
    def fail(folder: Path) -> None:
        (folder / XCLBIN).write_bytes(b"half")
        raise RuntimeError("compiler crashed")

    with pytest.raises(RuntimeError, match="compiler crashed"):
        cache.store(DESIGN, "tools-1", fail)
    assert cache.entries() == []
    assert not list((cache.root / "npu").iterdir())


def test_instructions_are_assembled_once_per_plan(cache: Cache) -> None:
    seen: list[str] = []

    def assemble(plan: str) -> bytes:
        seen.append(plan)
        return plan.encode()

    plans = [repr(PLAN), repr(replace(PLAN, M=128))]
    for _ in range(2):
        for plan in plans:
            assert cache.instructions(plan, partial(assemble, plan)) == plan.encode()
    assert seen == plans


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = Cache(tmp_path / "file" / "cache")
    assert blocked.instructions("plan", lambda: b"words") == b"words"
    with pytest.raises(NotADirectoryError):
        blocked.store(DESIGN, "tools-1", writer(b"program"))


PROCESS = """
import sys, time
from pathlib import Path
from aie_design.plan import TransposePlan
from hptp.npu.artifacts import Cache, Design, XCLBIN

cache = Cache(Path(sys.argv[1]))
design = Design.of(TransposePlan(64, 32, 16, 16, 4, 4), "transpose_4x4")

def fill(folder):
    print("building", flush=True)
    (folder / XCLBIN).write_bytes(b"pro")
    time.sleep(float(sys.argv[2]))
    (folder / XCLBIN).write_bytes(b"program")

with cache.lock(design):
    if cache.find(design) is None:
        cache.store(design, "tools-1", fill)
assert cache.find(design).xclbin.read_bytes() == b"program"
"""


def start(cache: Cache, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(cache.root), str(seconds)]
    folder = Path(__file__).parent.parent.parent
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)


def test_of_several_processes_one_builds(cache: Cache) -> None:
    processes = [start(cache, 0.2) for _ in range(4)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(outputs) == ["", "", "", "building\n"]


def test_a_killed_build_blocks_nobody(cache: Cache) -> None:
    victim = start(cache, 600)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "building\n"
    assert cache.find(DESIGN) is None
    victim.kill()
    victim.communicate(timeout=60)
    heir = start(cache, 0)
    assert heir.communicate(timeout=60)[0] == "building\n"
    assert heir.returncode == 0
    assert cache.find(DESIGN) is not None
