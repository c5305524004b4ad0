"""A list of the datasets of an HDF5 file, made in a process of its own.

The HDF5 library is not safe on damaged files: it may crash or take all memory. So a process reads
where the values are, and ends. The program itself reads and writes these bytes without the library.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from prune_gui.regular_files import SpanFile

if TYPE_CHECKING:
    import numpy as np

MAX_MEMORY_BYTES: Final = 4 << 30
MAX_DATASETS: Final = 1 << 18
MAX_DEPTH: Final = 64
TIMEOUT_S: Final = 60
UNUSUAL: Final = "unusual"
"""The dtype of numbers that are stored in another form than NumPy's."""


class ListingError(Exception):
    """The file has no list of datasets; the message is one of `FAULTS`, or technical."""


def is_installed() -> bool:
    """Return whether h5py is installed."""
    return find_spec("h5py") is not None


def list_datasets(file: BinaryIO, start: int, size: int) -> list[dict[str, Any]]:
    """Return what `_dataset` says of each dataset of an HDF5 file, which is at a span of a file."""
    import subprocess  # slow to import

    from prune_gui.isolated.processes import isolated_command

    command = isolated_command("prune_gui.checkpoint.keras.listing", str(start), str(size))
    try:
        done = subprocess.run(
            command, stdin=file, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError, RecursionError):
        raise ListingError("damaged") from None
    if isinstance(answer, list) and all(map(_is_dataset, answer)):
        return answer
    raise ListingError(answer if isinstance(answer, str) else "damaged")


def _is_dataset(answer: object) -> bool:
    """Return whether a part of an answer is as from `_dataset`: a file may rule the library."""
    match answer:
        case {
            "path": str(),
            "dtype": str(),
            "contiguous": bool(),
            "shape": list() | None as shape,
            "start": start,
        }:
            numbers = [*(shape or ()), 0 if start is None else start]
            return all(type(number) is int and number >= 0 for number in numbers)
    return False


def main() -> None:
    """Print the list of the file that is the standard input, or a fault, as JSON."""
    import resource  # POSIX only

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (TIMEOUT_S, TIMEOUT_S))  # if the program ends
    start, size = map(int, sys.argv[3:5])
    try:
        answer: object = _datasets(SpanFile(partial(os.pread, sys.stdin.fileno()), start, size))
    except ListingError as fault:
        answer = str(fault)
    except Exception:  # noqa: BLE001 - h5py raises anything
        answer = "damaged"
    sys.stdout.write(json.dumps(answer))


def _datasets(file: SpanFile) -> list[dict[str, Any]]:
    import h5py  # an optional package

    found: list[dict[str, Any]] = []
    with h5py.File(file, "r") as root:
        stack = [("", root)]
        groups = set()
        while stack:
            path, group = stack.pop()
            address = h5py.h5o.get_info(group.id).addr
            if address in groups or path.count("/") > MAX_DEPTH:
                raise ListingError("nested")
            groups.add(address)
            inner = []
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ListingError("link")
                member, place = group[name], f"{path}/{name}" if path else name
                if isinstance(member, h5py.Group):
                    inner.append((place, member))
                elif isinstance(member, h5py.Dataset):
                    found.append({"path": place, **_dataset(member)})
                if len(found) + len(stack) > MAX_DATASETS:
                    raise ListingError("nested")
            stack.extend(reversed(inner))
    return found


def _dataset(dataset: Any) -> dict[str, Any]:  # noqa: ANN401 - h5py has no types
    """Return the shape, the dtype and the position of a dataset, and how it is stored.

    `start` is the position of its values in the HDF5 file, or None if they are not one span.
    """
    import h5py  # an optional package

    properties = dataset.id.get_create_plist()
    layout = properties.get_layout()
    if properties.get_external_count() or layout == h5py.h5d.VIRTUAL:
        raise ListingError("link")
    stored = dataset.id.get_type()
    try:
        dtype = dataset.dtype
        kind = dtype.str
        is_opaque = stored.get_class() == h5py.h5t.OPAQUE
        if is_opaque and dtype.itemsize == 2 and dataset.attrs.get("dtype") == "bfloat16":
            kind = "bfloat16"
        elif h5py.check_enum_dtype(dtype) is not None:
            kind = "enum"
        elif dtype.kind in "biufc" and not _is_usual(stored, dtype):
            kind = UNUSUAL
    except TypeError:
        kind = "?"
    contiguous = layout == h5py.h5d.CONTIGUOUS
    return {
        "shape": dataset.shape,
        "dtype": kind,
        "start": dataset.id.get_offset() if contiguous else None,
        "contiguous": contiguous,
    }


def _is_usual(stored: Any, dtype: np.dtype[Any]) -> bool:  # noqa: ANN401 - h5py has no types
    """Return whether numbers are stored as NumPy has them: precision, exponent, padding, order."""
    from h5py import h5t  # an optional package

    usual = [h5t.py_create(dtype)]
    if dtype.kind == "c":  # HDF5 2 has a type for them
        order = "BE" if dtype.byteorder == ">" else "LE"
        usual.append(getattr(h5t, f"COMPLEX_IEEE_F{4 * dtype.itemsize}{order}", usual[0]))
    return any(stored.equal(each) for each in usual)
