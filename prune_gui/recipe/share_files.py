"""The files of shares: arrays in the safetensors format, and all else as JSON in its metadata.

A work folder may come from elsewhere, so a file is only data: its JSON can name no classes but
those of `_RECORDS`, and the types, lengths and ranges of their fields are checked. A digest at the
beginning finds accidental damage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import JobError
from prune_gui.pruning.predicates.unit_cuts import PrunedUnits
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.row_column_scores import BlockSums
from prune_gui.pruning.selection.rows import RowCuts
from prune_gui.regular_files import open_regular

MAGIC: Final = b"prune-gui share\n"
DIGEST_BYTES: Final = hashlib.sha256().digest_size
LENGTH_BYTES: Final = 8
"""The length of the header of a safetensors file, before the header."""
KEY: Final = "share"
"""Of the JSON in the metadata."""
INTEGERS: Final = range(-(1 << 63), 1 << 64)


class Share(NamedTuple):
    """What a part did in a stage of so many tasks, in all parts; it read or wrote `nbytes`."""

    tasks: int
    results: list[Any]
    nbytes: int


def write_share(path: Path, share: Share) -> None:
    """Write a file atomically."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_plain(tuple(share), arrays))
    octets = safetensors.numpy.save(arrays, {KEY: text})
    replace_bytes(path, MAGIC + hashlib.sha256(octets).digest() + octets)


def read_share(path: Path) -> Share:
    """Read a file."""
    try:
        with open_regular(path) as file:
            magic, digest, octets = file.read(len(MAGIC)), file.read(DIGEST_BYTES), file.read()
        if magic == MAGIC and hashlib.sha256(octets).digest() == digest:
            return _decode(octets)
    except (
        *(OSError, SafetensorError, MemoryError, RecursionError),
        *(LookupError, TypeError, ValueError),
    ) as error:
        raise _damaged(path) from error
    raise _damaged(path)


def _damaged(path: Path) -> JobError:
    return JobError("{file} is damaged. Delete it, and run its part again.", file=path)


def _decode(octets: bytes) -> Share:
    arrays = safetensors.numpy.load(octets)
    length = int.from_bytes(octets[:LENGTH_BYTES], "little")
    header = json.loads(octets[LENGTH_BYTES : LENGTH_BYTES + length])
    share = Share(*_value(json.loads(header["__metadata__"][KEY]), arrays))
    if not (isinstance(share.results, list) and _are_counts(share.tasks, share.nbytes)):
        raise TypeError("no share")
    return share


def _plain(value: object, arrays: dict[str, NDArray[Any]]) -> object:
    """Return a result as JSON; lists begin with what they stand for. Its arrays are added."""
    if isinstance(value, np.int64 | np.float64 | np.bool_):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays[str(len(arrays))] = np.array(value, order="C")
        return ["array", str(len(arrays) - 1)]
    if isinstance(value, slice):
        return ["slice", *(_plain(each, arrays) for each in (value.start, value.stop, value.step))]
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_plain(each, arrays) for each in value)]  # type: ignore[attr-defined]
    for record, (names, _) in _RECORDS.items():
        if type(value) is record:
            return [record.__name__, *(_plain(getattr(value, name), arrays) for name in names)]
    raise TypeError(type(value))


def _value(plain: object, arrays: dict[str, NDArray[Any]]) -> Any:  # noqa: ANN401 - of any type
    match plain:
        case None | bool() | float() | str():
            return plain
        case int() if plain in INTEGERS:
            return plain
        case ["array", str(name)]:
            return np.require(arrays.pop(name), requirements=["C", "W"])
        case ["slice", start, stop, step]:
            if _are_counts(*(each for each in (start, stop, step) if each is not None)):
                return slice(start, stop, step)
        case ["list", *items]:
            return [_value(item, arrays) for item in items]
        case ["tuple", *items]:
            return tuple(_value(item, arrays) for item in items)
        case [str(name), *items]:
            fields = [_value(item, arrays) for item in items]
            for record, (_, are_valid) in _RECORDS.items():
                if record.__name__ == name and are_valid(*fields):
                    return record(*fields)
    raise ValueError("a result of another form")


def _are_counts(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _are_arrays(kinds: str, *values: object, like: NDArray[Any] | None = None) -> bool:
    return all(
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and value.dtype.kind in kinds
        and (like is None or value.shape == like.shape)
        for value in values
    )


def _is_cut(threshold: object, last_tie: Any, pruned: object, non_finite: object) -> bool:  # noqa: ANN401
    return type(last_tie) is int and _are_counts(threshold, last_tie + 1, pruned, non_finite)


def _are_row_cuts(thresholds: Any, last_ties: Any) -> bool:  # noqa: ANN401
    return _are_arrays("u", thresholds) and _are_arrays("i", last_ties, like=thresholds)


def _is_histogram(values: Any, counts: Any, parts: object) -> bool:  # noqa: ANN401
    return (
        _are_arrays("u", values)
        and values.dtype == np.uint16
        and bool((values[1:] > values[:-1]).all())
        and _are_arrays("iu", counts, like=values)
        and bool((counts > 0).all())
        and isinstance(parts, tuple)
        and all(isinstance(part, DigitHistogram) for part in parts)
    )


def _are_pruned_units(pruned: Any, ranks: Any, remaining: Any, source: object) -> bool:  # noqa: ANN401
    return (
        _are_arrays("b", pruned)
        and (ranks is None or _are_arrays("f", ranks, like=pruned))
        and _are_arrays("i", remaining, like=pruned)
        and bool((remaining >= 0).all())
        and isinstance(source, str)
    )


def _are_block_sums(row_sums: Any, row_counts: Any, sums: Any, counts: Any) -> bool:  # noqa: ANN401
    return (
        _are_arrays("f", row_sums, sums)
        and _are_arrays("i", row_counts, like=row_sums)
        and (_are_counts(counts) or _are_arrays("i", counts, like=sums))
    )


_RECORDS: Final[dict[type, tuple[tuple[str, ...], Callable[..., bool]]]] = {
    Cut: (("threshold", "last_tie", "pruned", "non_finite"), _is_cut),
    RowCuts: (("thresholds", "last_ties"), _are_row_cuts),
    DigitHistogram: (("values", "counts", "parts"), _is_histogram),
    PrunedUnits: (("pruned", "ranks", "remaining", "source"), _are_pruned_units),
    BlockSums: (("row_sums", "row_counts", "sums", "counts"), _are_block_sums),
}
"""The classes of results, the names of their fields, and the function that checks these."""
