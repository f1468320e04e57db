"""Contestants prove their results before they are timed, and a wrong one is caught."""

import random

import numpy as np
import pytest

from hptp import _core
from hptp.bench import peers, worker
from hptp.bench.cases import ROWS, Case, conversions
from hptp.bench.suite import Settings, environment, measure
from hptp.bench.verify import mismatch, source, spoil

SMALL = [row.scaled(2**-14) for row in ROWS]
CONVERTED = [case.scaled(1 / 64) for case in conversions()]
QUICK = Settings(min_run_time=1e-4, min_blocks=1)


def contestant(bind, **settings):
    return peers.Contestant("peer", "1", bind, **settings)


def entered(bind, case=SMALL[0], **settings):
    peer = contestant(bind, **settings)
    return worker.enter(peer, *worker.make_jobs(case, 1)[peer.permutes])


@pytest.mark.parametrize("case", [*SMALL, *CONVERTED], ids=lambda case: case.id)
def test_everyone_here_gets_every_row_right_or_refuses_it(case):
    present, _ = peers.contestants(1, None)
    refusals = {}
    jobs = worker.make_jobs(case, 1)
    for peer in present:
        if not peer.takes(case):
            continue
        entry = worker.enter(peer, *jobs[peer.permutes])
        assert not entry.refusal.startswith("wrong"), peer
        if entry.refusal:
            refusals[peer.name] = entry.refusal
    # These do everything; the others may refuse ranks and dtypes.
    able = {"hptp", "hptp-torch", "numpy", "torch", "cast after hptp", "memcpy", "nt copy"}
    if case.to_dtype == "bfloat16":
        able -= {"hptp", "numpy"}  # which takes ml_dtypes
    assert not refusals.keys() & able


@pytest.mark.parametrize("case", CONVERTED, ids=lambda case: case.id)
def test_a_conversion_is_compared_with_those_who_convert_and_a_copy_of_as_many_bytes(case):
    present, _ = peers.contestants(1, None)
    names = {peer.name for peer in present if peer.takes(case)}
    assert {"hptp", "nt copy", "memcpy", "numpy"} <= names
    assert not names & {"hptp-torch", "jax", "opencv", "mkl"}
    copies, _ = worker.make_jobs(case, 1)[False]
    assert copies.src.nbytes + copies.dst.nbytes == case.moved_bytes


def test_a_conversion_that_is_one_bit_off_is_caught():
    job, expected = worker.make_jobs(CONVERTED[2], 1)[True]
    truncates = (job.src.transpose(job.case.perm).copy().view(np.uint32) >> 16).astype(np.uint16)
    assert mismatch(expected.copy(), expected) == ""
    assert mismatch(truncates, expected).startswith("wrong: first at")


def test_one_wrong_bit_is_caught():
    def flips_a_bit(job):
        def call():
            np.copyto(job.dst, job.src.transpose(job.case.perm))
            job.dst.view(np.uint32)[3, 5] ^= 1
            return job.dst

        return call

    assert entered(flips_a_bit).refusal == "wrong: first at (3, 5)"


def test_doing_nothing_is_caught_even_after_a_right_result():
    job, expected = worker.make_jobs(SMALL[0], 1)[True]
    np.copyto(job.dst, expected)
    lazy = contestant(lambda job: lambda: job.dst)
    assert worker.enter(lazy, job, expected).refusal == "wrong: first at (0, 0)"


def test_a_view_is_not_a_permuted_array():
    entry = entered(lambda job: lambda: job.src.transpose(job.case.perm), allocates=True)
    assert "are not those of a contiguous array" in entry.refusal


def test_the_source_itself_is_the_wrong_shape():
    case = Case("c", "rows", "float32", (3, 5), (1, 0))
    entry = entered(lambda job: lambda: job.src, case)
    assert entry.refusal == "wrong: shape (3, 5) instead of (5, 3)"


def test_another_dtype_is_caught():
    wide = entered(lambda job: lambda: job.src.transpose(job.case.perm).astype("f8", order="C"))
    assert wide.refusal == "wrong: 8-byte elements instead of 4-byte ones"


def test_a_copy_must_copy():
    def bind(job):
        def call():
            job.dst.reshape(-1)[:] = job.src.reshape(-1)
            return job.dst

        return call

    assert entered(bind, permutes=False).refusal == ""
    assert entered(bind, permutes=True).refusal.startswith("wrong: first at")


def test_a_refusal_is_kept_with_its_reason_and_nothing_is_timed():
    def bind(job):
        raise peers.Unable("matrices only\nand more")

    records = worker.measure_case(SMALL[0], [contestant(bind)], 1, QUICK, random.Random(0))
    assert [(record.refusal, record.warm, record.cold) for record in records] == [
        ("matrices only", None, None)
    ]


def test_a_wrong_contestant_is_not_timed():
    calls = []
    idle = contestant(lambda job: lambda: (calls.append(1), job.dst)[1])
    (record,) = worker.measure_case(SMALL[0], [idle], 1, QUICK, random.Random(0))
    assert record.warm is None
    assert len(calls) == 1


def test_a_record_says_what_its_number_depends_on():
    ours = [peer for peer in peers.contestants(1, None)[0] if peer.name == "hptp"]
    records = worker.measure_case(SMALL[0], ours, 1, QUICK, random.Random(0))
    assert [record.allocates for record in records] == [False, True]
    for record in records:
        assert record.kernel
        assert record.isa in _core.isas()
        assert record.warm is not None
        assert record.cold is not None


def test_sources_are_written_and_tell_their_elements_apart():
    for dtype in ("uint8", "uint16", "float16", "float32", "float64", "complex64", "complex128"):
        x = source(Case("s", "rows", dtype, (64, 33), (1, 0)))
        assert (x.shape, x.dtype) == ((64, 33), np.dtype(dtype))
        assert x.flags.c_contiguous
        assert np.unique(x).size > 100


def test_spoiling_leaves_nothing_that_passes():
    x = np.arange(12.0).reshape(3, 4)
    y = x.copy()
    spoil(y)
    assert mismatch(y, x) == "wrong: first at (0, 0)"
    assert mismatch(x.copy(), x) == ""


def test_missing_libraries_are_named_with_the_reason():
    _, missing = peers.contestants(1, None)
    assert missing["hptt"] == "no path to its shared library was given"


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4095, 4096, 4097, 3 * 4096 + 64, 100_003])
@pytest.mark.parametrize("offset_bytes", [0, 1, 16, 63])
@pytest.mark.parametrize("copy", [_core.nt_copy, _core.memcpy], ids=["nt_copy", "memcpy"])
def test_the_copies_write_exactly_what_they_should(copy, nbytes, offset_bytes):
    guard = 64
    src = np.random.default_rng(0).integers(0, 256, nbytes + offset_bytes, np.uint8)
    for num_threads in (1, 3):
        dst = np.full(nbytes + offset_bytes + guard, 0xA5, np.uint8)
        address = dst.ctypes.data + offset_bytes
        copy(src.ctypes.data + offset_bytes, address, nbytes, num_threads)
        assert np.array_equal(dst[offset_bytes : offset_bytes + nbytes], src[offset_bytes:])
        assert np.all(dst[:offset_bytes] == 0xA5)
        assert np.all(dst[offset_bytes + nbytes :] == 0xA5)


def test_a_process_of_its_own_measures_with_the_threads_it_was_given():
    settings = Settings(min_run_time=1e-4, min_blocks=1, without=("torch", "jax", "opencv", "mkl"))
    records = list(measure([SMALL[0]], 1, settings))
    assert {record.contestant for record in records} >= {"hptp", "numpy", "nt copy", "memcpy"}
    assert {record.num_threads for record in records} == {1}
    assert all(record.warm for record in records if record.contestant != "hptp-torch")


def test_thread_counts_reach_every_library():
    variables = environment(3)
    for name in ("HPTP_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        assert variables[name] == "3"
