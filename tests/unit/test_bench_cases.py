"""The problems of the benchmark: the twenty rows, their scaling, the sweep, a file's cases."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hptp.bench import cases
from hptp.bench.cases import ROWS, Case

DATA = Path(__file__).parent.parent / "data" / "cases.json"


def test_there_are_twenty_rows_with_names_of_their_own():
    assert len({row.id for row in ROWS}) == len(ROWS) == 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_is_a_permutation_numpy_accepts(row):
    assert sorted(row.perm) == list(range(len(row.shape)))
    assert row.nbytes == math.prod(row.shape) * np.dtype(row.dtype).itemsize
    assert row.moved_bytes == 2 * row.nbytes
    assert row.out_shape == np.empty(row.shape, "V0").transpose(row.perm).shape


def test_the_last_rows_of_a_pair_are_inverses():
    pairs = [("NCHW-NHWC f32", "NHWC-NCHW f32"), ("CHW-HWC u8", "HWC-CHW u8")]
    by_id = {row.id: row for row in ROWS}
    for one, other in pairs:
        assert by_id[one].out_shape == by_id[other].shape
        assert by_id[other].out_shape == by_id[one].shape


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("size", [1 / 16, 1 / 4, 1, 4])
def test_scaling_changes_bytes_by_the_factor(row, size):
    scaled = row.scaled(size)
    assert scaled.perm == row.perm
    assert scaled.nbytes == pytest.approx(size * row.nbytes, rel=0.3)
    if row.scaled_axes:
        kept = [axis for axis in range(len(row.shape)) if axis not in row.scaled_axes]
        assert [scaled.shape[axis] for axis in kept] == [row.shape[axis] for axis in kept]


def test_a_conversion_moves_the_bytes_of_both_types():
    unscaled, scaled, narrowed, _ = cases.conversions()
    assert unscaled.moved_bytes == 5 * unscaled.elements
    assert narrowed.moved_bytes == 6 * narrowed.elements
    assert (narrowed.to_dtype, narrowed.out_dtype) == ("bfloat16", "uint16")
    assert scaled.scaled(1 / 8).shape == (8, 224, 224, 3)
    assert len(scaled.shift) == scaled.shape[scaled.axis]


@pytest.mark.parametrize("size", [0, -1, math.inf, math.nan])
def test_a_senseless_size_is_refused(size):
    with pytest.raises(ValueError, match="size must be positive and finite"):
        ROWS[0].scaled(size)


def test_the_first_target_is_for_one_thread_and_the_second_for_all():
    both, one = ROWS[0], next(row for row in ROWS if len(row.must) == 1)
    assert (both.must_with(1), both.must_with(2), both.must_with(64)) == (0.60, 0.75, 0.75)
    assert one.must_with(2) is None


def test_the_pitch_sweep_has_every_power_of_two_between_its_neighbours():
    for size in (1, 1 / 16):
        groups = {}
        for case in cases.pitch_sweep(size):
            groups.setdefault(case.group, []).append(case.shape[0])
        for below, power, above in groups.values():
            assert (below, above) == (power - 1, power + 1)
            assert power & (power - 1) == 0


def test_small_sizes_reach_from_one_element_to_four_million():
    counts = [case.elements for case in cases.small() if case.group == "small"]
    assert counts == [2**k for k in range(23)]


def test_a_case_survives_json():
    for case in [*ROWS, *cases.small(), *cases.conversions()]:
        assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


def test_reported_cases_are_read_and_the_others_explained():
    kept, left_out = cases.load(DATA)
    names = {case.id for case in kept}
    assert "pitch-square 4096x4097" in names
    assert all(len(name) <= 40 for name in names)
    assert any(reason.startswith("broadcast: a view") for reason in left_out)
    assert any(reason.startswith("past-32-bit: 2.0 GiB") for reason in left_out)


def test_cases_are_chosen_by_parts_of_their_names():
    assert [case.id for case in cases.matching(ROWS, ["rank", "wide"])] == [
        "rank 22 reversed f64",
        "wide 2-D f32",
    ]
    assert cases.matching(ROWS, []) == list(ROWS)
