"""Records in and out of files, and what tables and findings make of them."""

import doctest
import importlib
import json
from dataclasses import replace

import pytest

from hptp.bench.cases import ROWS, Case
from hptp.bench.record import Record, Results
from hptp.bench.report import Compare, floor_and_crossover
from hptp.bench.timer import Block, Measurement
from hptp.cli import main
from hptp.errors import HptpError

ROW = ROWS[0]  # must reach 60 % on one thread and 75 % on all
COPY_SECONDS = 0.05


def record(contestant, seconds, *, case=ROW, threads=1, allocates=False, **fields):
    blocks = tuple(Block(1, s) for s in (seconds if isinstance(seconds, list) else [seconds] * 5))
    return Record(case, contestant, "1.0", allocates, threads, warm=Measurement(blocks), **fields)


def run(**seconds_of):
    """Records of one row: the copy and those given, `hptp_` meaning that it allocates."""
    return [record("nt copy", COPY_SECONDS)] + [
        record(name.rstrip("_"), seconds, allocates=name.endswith("_"))
        for name, seconds in seconds_of.items()
    ]


def cells(table, line):
    header, *rows = (row.split("  ") for row in table.splitlines()[1:])
    names = [cell.strip() for cell in header if cell.strip()]
    values = [cell.strip() for cell in rows[line] if cell.strip()]
    return dict(zip(names, values, strict=False))


def test_shares_are_of_the_copy_in_the_same_run():
    found = cells(Compare(run(hptp=0.0625, numpy=0.25)).table(), 0)
    assert (found["hptp"], found["numpy"], found["must"]) == ("80%", "20%", "60%")
    assert found["nt copy"] == "10.7"
    assert found["best peer"] == "numpy"


def test_other_units():
    compare = Compare(run(hptp=0.0625))
    assert cells(compare.table("GB/s"), 0)["hptp"] == "8.59"
    assert cells(compare.table("time"), 0)["hptp"] == "62.50 ms"
    with pytest.raises(ValueError, match="unit 'furlongs' is none of"):
        compare.table("furlongs")


def test_repeats_are_merged_block_by_block():
    compare = Compare(
        [record("hptp", [0.1, 0.2, 0.3]), record("hptp", [0.4, 0.5]), record("nt copy", 0.05)]
    )
    merged = next(r for r in compare.records if r.contestant == "hptp")
    assert len(compare.records) == 2
    assert merged.seconds == pytest.approx(0.3)
    assert len(merged.warm.blocks) == 5


def test_what_differs_in_anything_that_counts_is_not_merged():
    base = record("hptp", 0.1)
    different = [
        base,
        replace(base, num_threads=2),
        replace(base, allocates=True),
        replace(base, contestant="numpy"),
        replace(base, case=ROW.scaled(1 / 4)),
        replace(base, case=ROWS[1]),
    ]
    assert len(Compare(different).records) == len(different)


def test_a_measurement_beats_a_refusal():
    refused = Record(ROW, "mkl", "1", False, 1, refusal="not today")
    for records in ([refused, record("mkl", 0.1)], [record("mkl", 0.1), refused]):
        (merged,) = Compare(records).records
        assert merged.warm is not None


def test_a_table_is_made_for_every_thread_count():
    tables = Compare([*run(hptp=0.1), record("hptp", 0.06, threads=2)]).table().split("\n\n")
    assert [table.split(",")[0] for table in tables] == ["1 thread", "2 threads"]


def test_spread_is_marked():
    noisy = [0.06, 0.07, 0.09, 0.12, 0.2]
    restless = [0.09, 0.095, 0.1, 0.11, 0.12]
    found = cells(Compare(run(hptp=noisy, numpy=restless)).table(), 0)
    assert found["hptp"].endswith("!")
    assert found["numpy"].endswith("~")


def test_a_wrong_result_is_shown_and_found():
    wrong = Record(ROW, "opencv", "1", False, 1, refusal="wrong: first at (0, 1)")
    records = [*run(hptp=0.05), wrong, record("opencv", 0.1, case=ROWS[1])]
    compare = Compare(records)
    assert cells(compare.table(), 0)["opencv"] == "wrong"
    assert compare.findings() == ["2-D f32, 1 thread: opencv is wrong: first at (0, 1)"]


def test_good_results_have_no_findings():
    assert Compare(run(hptp=0.06, hptp_=0.07, numpy=0.2, torch_=0.08)).findings() == []


def test_a_missed_target_is_found():
    assert Compare(run(hptp=0.1)).findings() == [
        "2-D f32, 1 thread: hptp has 50% of the copy and must have 60%"
    ]


def test_a_faster_peer_is_found_among_those_that_do_the_same():
    (finding,) = Compare(run(hptp=0.06, hptp_=0.08, numpy=0.05, torch_=0.04)).findings()
    assert finding.endswith("faster: numpy 1.20x than hptp, torch+ 2.00x than hptp+")


def test_torch_tensors_are_compared_with_torch():
    records = [*run(hptp_=0.04, torch_=0.05), record("hptp-torch", 0.06, allocates=True)]
    assert Compare(records).findings() == [
        "2-D f32, 1 thread: faster: torch+ 1.20x than hptp-torch+"
    ]


def test_calls_on_tiny_tensors_are_not_a_finding():
    tiny = Case("tiny", "small", "float32", (4, 4), (1, 0))
    assert (
        Compare([record("hptp", 2e-6, case=tiny), record("numpy", 1e-6, case=tiny)]).findings()
        == []
    )


def test_a_pitch_that_costs_more_than_its_neighbours_is_found():
    def sweep(seconds):
        sizes = zip((1023, 1024, 1025), seconds, strict=True)
        return Compare(
            record("hptp", s, case=Case(f"f32 {n}", "pitch f32", "float32", (n, n), (1, 0)))
            for n, s in sizes
        ).findings()

    assert sweep([1.0, 1.2, 1.0]) == []
    (finding,) = sweep([1.0, 1.5, 1.0])
    assert finding.startswith("f32 1024, 1 thread: 1.50x slower a byte")


def test_a_second_thread_that_does_not_help_is_found_where_the_copy_gains():
    def scaling(copy_on_two):
        records = [*run(hptp=0.06), record("nt copy", copy_on_two, threads=2)]
        return Compare([*records, record("hptp", 0.05, threads=2)]).findings()

    assert not any("two threads" in finding for finding in scaling(0.04))
    assert any(f.startswith("2-D f32: two threads are 1.20x one") for f in scaling(0.025))


def test_the_crossover_is_where_the_call_costs_as_much_as_the_bytes():
    floor, crossover = floor_and_crossover({2**k: 1e-6 + 2**k / 1e10 for k in range(2, 26)})
    assert floor == pytest.approx(1e-6, rel=1e-3)
    assert crossover == pytest.approx(1e4, rel=0.05)
    assert floor_and_crossover({1: 1.0, 2: 1.5}) == (1.0, None)


def test_small_sizes_are_summed_up():
    small = [Case(f"f32 2^{k}", "small", "float32", (2, 2**k), (1, 0)) for k in range(22)]
    compare = Compare(record("hptp", 1e-6 + case.nbytes / 1e10, case=case) for case in small)
    line = compare.small_sizes().splitlines()[-1].split()
    assert line[:3] == ["hptp", "1.00", "us"]
    assert 9.5 < float(line[-2]) < 10.5


def test_results_survive_a_file(tmp_path):
    records = (
        record("hptp", [0.1, 1 / 3], kernel="tiles", isa="v3", huge_pages=(1.0, None)),
        record("torch", 0.2, allocates=True, threads=2, case=ROWS[4].scaled(0.5)),
        Record(ROW, "mkl", "1", False, 1, refusal="matrices only"),
    )
    results = Results({"cpu": "synthetic", "cpus": 2}, records)
    path = tmp_path / "results.json"
    results.save(path)
    assert Results.load(path) == results
    assert json.loads(path.read_text())["records"][0]["moved_bytes"] == ROW.moved_bytes


@pytest.mark.parametrize(
    "text, words",
    [
        ("nonsense", "is not a file of results"),
        ("{}", "is not a file of results"),
        ('{"hptp_bench": 99, "records": []}', "has format 99; this version reads 1"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, text, words):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(HptpError, match=words):
        Results.load(path)


@pytest.mark.parametrize("name", ["", ".cases", ".report", ".timer"])
def test_the_examples_in_the_documentation_are_true(name):
    found = doctest.testmod(importlib.import_module(f"hptp.bench{name}"))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "results.json"
    Results({"cpu": "synthetic"}, tuple(run(hptp=0.06, numpy=0.2))).save(path)
    return path


def test_the_command_shows_saved_results(saved, capsys):
    assert main(["bench", "--load", str(saved), "--load", str(saved)]) == 0
    out = capsys.readouterr().out
    assert "cpu: synthetic" in out
    assert "83%" in out
    assert out.endswith("findings: none\n")


def test_results_of_different_cpus_are_not_merged(saved, tmp_path, capsys):
    other = tmp_path / "other.json"
    Results({"cpu": "another"}, tuple(run(hptp=0.06))).save(other)
    assert main(["bench", "--load", str(saved), "--load", str(other)]) == 1
    assert "different CPUs cannot be merged: another, synthetic" in capsys.readouterr().err


def test_the_command_refuses_rows_that_do_not_exist(capsys):
    assert main(["bench", "--rows", "no such row"]) == 1
    assert "has a name containing ['no such row']" in capsys.readouterr().err


def test_a_chart_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path = tmp_path / "chart.png"
    Compare([*run(hptp=0.06, numpy=0.2), record("hptp", 0.05, threads=2)]).plot(path)
    assert path.read_bytes().startswith(b"\x89PNG")
