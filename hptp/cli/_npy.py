"""Permute .npy files of any size in bounded memory.

The output is produced box by box. A box is chosen to touch long runs of both files: it is mapped,
permuted into a buffer, written, and unmapped before the next one, so that memory holds one box and
never the file. The output is written aside and replaces the target in one step at the end: whoever
interrupts the run, or fills the disk, finds the target as it was.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import hptp
from hptp import _core
from hptp.errors import HptpError

# One box. Mapped pages count as resident, and the kernel maps the 64 KiB around a page it has
# cached, so runs in the input should not be shorter than that.
BOX_BYTES = 128 << 20
INPUT_RUN_BYTES = 64 << 10

Box = tuple[slice, ...]


def permute_file(
    source: Path,
    target: Path,
    perm: Sequence[int],
    *,
    dtype: str | None = None,
    device: str = "auto",
    num_threads: int | None = None,
    progress: Callable[[int, int], None] = lambda done_bytes, total_bytes: None,
) -> tuple[tuple[int, ...], Any]:
    """Permute the array in `source` into `target`, replacing what was there.

    Args:
        dtype: the full name of the element type to convert to, if any.
        progress: called with the bytes written so far and in total.

    Returns:
        The shape and the dtype of the array written.

    Raises:
        HptpError: `source` holds no array, or one that cannot be permuted like this.
        OSError: a file cannot be read or written.
    """
    x = open_array(source)
    order = _core.normalize_perm(tuple(perm), x.ndim)
    shape = tuple(x.shape[axis] for axis in order)
    result_dtype = _result_dtype(x.dtype, dtype)
    total_bytes = x.size * result_dtype.itemsize
    done_bytes = 0
    with _replacing(target) as file:
        _write_header(file, shape, result_dtype)
        data_start = file.tell()
        for box in boxes(x.shape, order, max(x.itemsize, result_dtype.itemsize)):
            part = hptp.permute(
                open_array(source)[box],
                order,
                dtype=dtype,
                device=device,
                num_threads=num_threads,
            )
            _write(file, data_start, shape, tuple(box[axis] for axis in order), part)
            done_bytes += part.nbytes
            progress(done_bytes, total_bytes)
    return shape, result_dtype


def boxes(shape: Sequence[int], perm: Sequence[int], elem_bytes: int) -> Iterator[Box]:
    """Boxes of the input that cover it, in the order in which the output is laid out."""
    edge = box_shape(shape, perm, elem_bytes)
    starts = [range(0, shape[axis], edge[axis]) for axis in perm]
    for corner in itertools.product(*starts):
        box = [slice(0)] * len(shape)
        for axis, start in zip(perm, corner):
            box[axis] = slice(start, min(start + edge[axis], shape[axis]))
        yield tuple(box)


def box_shape(shape: Sequence[int], perm: Sequence[int], elem_bytes: int) -> list[int]:
    """The edges of a box: a run of the input first, then runs of the output as long as it holds."""
    edge = [1] * len(shape)

    def grow(axes: Sequence[int], box_bytes: int) -> None:
        for axis in reversed(axes):
            room = box_bytes // (math.prod(edge) // edge[axis] * max(elem_bytes, 1))
            edge[axis] = max(edge[axis], min(shape[axis], room))

    grow(range(len(shape)), INPUT_RUN_BYTES)
    grow(perm, BOX_BYTES)
    return edge


def open_array(path: Path) -> Any:
    """The array in `path`, mapped read-only."""
    import numpy as np

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        # What is no .npy file at all NumPy takes for a pickle, and advises to load it unsafely.
        reason = "it holds no NumPy array" if "pickle" in str(error) else str(error)
        raise HptpError(f"{path} is not a .npy file that can be mapped: {reason}") from None
    if not isinstance(array, np.ndarray):  # an .npz archive, whatever its name
        raise HptpError(f"{path} is not a .npy file that can be mapped: it is an archive of arrays")
    return array


def _result_dtype(dtype: Any, converted_to: str | None) -> Any:
    """The element type of the output, known before there is any."""
    import numpy as np

    return hptp.permute(np.empty(0, dtype), (0,), dtype=converted_to).dtype


def _write_header(file: BinaryIO, shape: tuple[int, ...], dtype: Any) -> None:
    import numpy as np

    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, header)


def _write(file: BinaryIO, data_start: int, shape: tuple[int, ...], box: Box, part: Any) -> None:
    """Write `part`, which is C-contiguous, to its place `box` in the array that starts there."""
    # The axes from `split` on are one run of the file: all of them whole, but for the first.
    split = len(shape)
    while split > 0 and (split == len(shape) or part.shape[split] == shape[split]):
        split -= 1
    run_bytes = math.prod(part.shape[split:]) * part.itemsize
    data = memoryview(part.reshape(-1).view("u1"))
    for i, index in enumerate(itertools.product(*(range(b.start, b.stop) for b in box[:split]))):
        position = 0
        first = (*index, *(b.start for b in box[split:]))
        for size, start in zip(shape, first):
            position = position * size + start
        file.seek(data_start + position * part.itemsize)
        file.write(data[i * run_bytes : (i + 1) * run_bytes])


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A file to write that becomes `target` when all is done, and vanishes otherwise."""
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise HptpError(f"cannot write {target}: there is no folder {target.parent}")
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _mode(target: Path) -> int:
    """The permissions of the file replaced, or those a new file gets."""
    with contextlib.suppress(FileNotFoundError):
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
