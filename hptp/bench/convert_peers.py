"""Who converts and permutes: hptp in one pass, and what people write without it.

All of them multiply and add in float32 and round each step, so that their bits can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hptp.bench.peers import OURS, Call, Contestant, Job, Unable

if TYPE_CHECKING:
    import numpy as np


def ours() -> list[Contestant]:
    import hptp

    def dtype_of(job: Job) -> Any:
        import numpy as np

        if job.case.to_dtype != "bfloat16":
            return np.dtype(job.case.to_dtype)
        try:
            import ml_dtypes
        except ImportError:
            raise Unable("NumPy has bfloat16 where ml_dtypes is installed") from None
        return np.dtype(ml_dtypes.bfloat16)

    def permute(job: Job, dtype: Any, out: Any) -> Call:
        case = job.case
        return lambda: hptp.permute(
            job.src,
            case.perm,
            out=out,
            dtype=dtype,
            scale=case.scale,
            shift=case.shift or None,
            axis=case.axis,
        )

    def into(job: Job) -> Call:
        dtype = dtype_of(job)
        return permute(job, dtype, job.dst.view(dtype))

    def new(job: Job) -> Call:
        return permute(job, dtype_of(job), None)

    version = hptp.__version__
    return [
        Contestant(OURS, version, into, converts=True),
        Contestant(OURS, version, new, allocates=True, converts=True),
    ]


def numpy() -> list[Contestant]:
    import numpy as np

    def into(job: Job) -> Call:
        if job.case.to_dtype == "bfloat16":
            raise Unable("has no bfloat16")
        view = job.src.transpose(job.case.perm)
        scale, shift = _factors(job)

        def call() -> np.ndarray:
            np.copyto(job.dst, view)
            if scale is not None:
                np.multiply(job.dst, scale, out=job.dst)
            if shift is not None:
                np.add(job.dst, shift, out=job.dst)
            return job.dst

        return call

    return [Contestant("numpy", np.__version__, into, converts=True)]


def torch() -> list[Contestant]:
    """Converting while it permutes, before and after; and after a permutation of hptp's."""
    import torch

    import hptp

    def bind(convert: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Job], Call]:
        def bound(job: Job) -> Call:
            src = torch.from_numpy(job.src)
            dst = torch.from_numpy(job.dst.view(job.case.out_dtype.replace("uint", "int")))
            dtype = getattr(torch, str(job.case.to_dtype))
            scale, shift = (f if f is None else torch.from_numpy(f) for f in _factors(job))

            def call() -> Any:
                result = convert(src, job.case.perm, dtype, dst.view(dtype))
                if scale is not None:
                    result.mul_(scale)
                if shift is not None:
                    result.add_(shift)
                return result.view(dst.dtype)  # NumPy, which compares them, has no bfloat16

            return call

        return bound

    def copy(src: Any, perm: Any, dtype: Any, dst: Any) -> Any:
        return dst.copy_(src.permute(perm))

    def convert_then_permute(src: Any, perm: Any, dtype: Any, dst: Any) -> Any:
        return src.to(dtype).permute(perm).contiguous()

    def permute_then_convert(src: Any, perm: Any, dtype: Any, dst: Any) -> Any:
        return src.permute(perm).contiguous().to(dtype)

    def cast_after_hptp(src: Any, perm: Any, dtype: Any, dst: Any) -> Any:
        return dst.copy_(hptp.permute(src, perm))

    version = torch.__version__
    return [
        Contestant("torch", version, bind(copy), converts=True),
        Contestant("cast after hptp", version, bind(cast_after_hptp), converts=True),
        Contestant(
            "torch convert, permute", version, bind(convert_then_permute), True, converts=True
        ),
        Contestant(
            "torch permute, convert", version, bind(permute_then_convert), True, converts=True
        ),
    ]


def _factors(job: Job) -> tuple[np.ndarray | None, np.ndarray | None]:
    """scale and shift as float32, in a shape that goes with the result's."""
    import numpy as np

    case = job.case
    scale = None if case.scale is None else np.array(case.scale, np.float32)
    if case.axis is None:
        return scale, None
    others = [i for i, axis in enumerate(case.perm) if axis != case.axis]
    return scale, np.expand_dims(np.array(case.shift, np.float32), others)
