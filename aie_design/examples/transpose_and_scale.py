"""A transpose with other work fused behind it: every element is multiplied by a factor on the way.

After the kernel the whole tile is transposed in core memory, so the worker can go on with it; the
way in and out stays the plan's.

    python -m aie_design.examples.transpose_and_scale
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aie_design import frontend
from aie_design.combined_transpose import (
    KERNEL_OBJECT,
    build_around,
    kernel_symbol,
    tile_type_of,
)
from aie_design.frontend import Iron
from aie_design.plan import TransposePlan


def build(plan: TransposePlan, iron: Iron, factor: int) -> Any:
    """The program for `factor * x.T` of integers; arguments as in combined_transpose.build."""
    tile_type = tile_type_of(plan)
    transpose = iron.Kernel(kernel_symbol(plan), KERNEL_OBJECT, [tile_type, tile_type])
    m, n = plan.m, plan.n

    def core(tiles_in: Any, tiles_out: Any, transpose: Any) -> None:
        tile_in, tile_out = tiles_in.acquire(1), tiles_out.acquire(1)
        transpose(tile_in, tile_out)
        tiles_in.release(1)
        for i in iron.range_(m):  # the type of a tile is m×n; which element is which is no matter
            for j in iron.range_(n):
                tile_out[i, j] = tile_out[i, j] * factor
        tiles_out.release(1)

    return build_around(core, [transpose], plan, iron)


def main() -> None:
    """Run the example in the interpreter and compare it with NumPy."""
    from hptp.sim import run_program

    plan = TransposePlan(64, 32, 16, 16, 4, elem_bytes=4)
    x = np.arange(plan.M * plan.N, dtype=np.int32).reshape(plan.M, plan.N)
    out = np.zeros((plan.N, plan.M), np.int32)
    run_program(build(plan, frontend.load("sim"), factor=3), [x.reshape(-1), out.reshape(-1)])
    print(plan.describe())
    print("PASS" if np.array_equal(out, 3 * x.T) else "FAIL")


if __name__ == "__main__":
    main()
