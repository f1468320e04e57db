"""The shared table of permutations, on the NPU: exact, or refused for a reason that it has."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hptp as hp
from hptp._core import Problem
from hptp.npu.slabs import plan_slabs
from tests.cases import TABLE, Case
from tests.device.machine import Machine
from tests.reference import assert_same_bits, permuted


def refusal(x: np.ndarray, perm: tuple[int, ...]) -> str:
    """Why no part of this permutation suits the NPU; empty if some part does."""
    try:
        plan_slabs(Problem(x.dtype.itemsize, x.shape, perm, x.strides), "npu")
    except hp.PlanError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.id)
def test_table_on_npu(machine: Machine, case: Case) -> None:
    x = case.source()
    if reason := refusal(x, case.perm):
        assert x.dtype.itemsize < 4, "elements of whole words always suit it"
        with pytest.raises(hp.PlanError, match=re.escape(reason)):
            hp.permute(x, case.perm, device="npu")
        return
    machine.provide_for(x, case.perm)
    assert_same_bits(hp.permute(x, case.perm, device="npu"), permuted(x, case.perm))
    assert machine.hardware.count("run") >= 1


def test_most_of_the_table_runs_there() -> None:
    refused = [case.id for case in TABLE if refusal(case.source(), case.perm)]
    assert len(refused) < len(TABLE) / 10
