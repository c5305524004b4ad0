"""Selection of the k lowest scores within each row of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from prune_gui.pruning import parallel
from prune_gui.pruning.arrays import Bits, Flags, Ints
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.keys import Ranking, with_equal_nans

RowKeys = tuple[Bits, "Flags | None"]
"""The keys of some rows, and which of them remain; None if all do."""
GATHERED_ELEMENTS: Final = 1 << 26
"""Elements of rows that are copied at once if these are not consecutive."""


class RowShape(NamedTuple):
    """Where the elements of rows are in a tensor of shape (before, rows, after).

    Those of a row are consecutive if `before` is 1. They are numbered in the order of the tensor.
    """

    before: int
    rows: int
    after: int

    @property
    def columns(self) -> int:
        return self.before * self.after

    def row_and_column(self, flat: int) -> tuple[int, int]:
        """Return the row of the element at a flat index, and its number in the row."""
        before, rest = divmod(flat, self.rows * self.after)
        row, after = divmod(rest, self.after)
        return row, before * self.after + after


@dataclass(frozen=True, slots=True)
class RowCuts:
    """The cut of each row, as `Cut` with an array element per row; a tie is a column."""

    thresholds: Bits
    last_ties: Ints


def find_row_cuts(ranking: Ranking, units: Ints, shape: RowShape) -> RowCuts:
    """Return the cuts that prune the `units` smallest remaining keys of each row."""
    thresholds = np.zeros(shape.rows, ranking.keys.bits(0, 0).dtype)
    last_ties = np.full(shape.rows, -1, np.int64)
    magnitude = thresholds.dtype.type(ranking.keys.magnitude)

    def cut(read: Callable[[slice], RowKeys], within: slice) -> None:
        def cut_some(rows: slice) -> None:
            bits, mask = read(rows)
            own = units[rows], thresholds[rows], last_ties[rows]
            key_kernels.cut_rows(bits, magnitude, mask, *own)

        for _ in parallel.run(cut_some, _blocks(shape, parallel.CHUNK_ELEMENTS, within)):
            pass

    whole = slice(0, shape.rows)
    if shape.before == 1:
        cut(partial(_consecutive_rows, ranking, shape), whole)
    else:
        for block in _blocks(shape, GATHERED_ELEMENTS, whole):
            cut(partial(_rows_of, gathered_rows(ranking, shape, block), block.start), block)
    keys = with_equal_nans(ranking.keys, int(thresholds.max(initial=0)))
    if keys is not ranking.keys:
        return find_row_cuts(replace(ranking, keys=keys), units, shape)
    return RowCuts(thresholds, last_ties)


def row_keys(ranking: Ranking, shape: RowShape, row: int) -> RowKeys:
    """Return the keys of a row, and which of them remain."""
    rows = slice(row, row + 1)
    if shape.before == 1:
        return _consecutive_rows(ranking, shape, rows)
    return _rows_of(gathered_rows(ranking, shape, rows), row, rows)


def gathered_rows(ranking: Ranking, shape: RowShape, rows: slice) -> RowKeys:
    """Return the keys of some rows that are not consecutive, and which of them remain."""
    sides = rows.stop - rows.start, shape.before, shape.after
    bits = np.empty(sides, ranking.keys.bits(0, 0).dtype)
    mask = None if ranking.remaining_mask is None else np.empty(sides, np.bool_)
    slab = shape.rows * shape.after

    def gather(span: tuple[int, int]) -> None:
        first, last = span
        start, stop, part = first * slab, last * slab, (last - first, shape.rows, shape.after)
        keys = ranking.keys.bits(start, stop).reshape(part)
        bits[:, first:last] = np.moveaxis(keys[:, rows], 1, 0)
        if mask is not None and ranking.remaining_mask is not None:
            kept = ranking.remaining_mask(start, stop).reshape(part)
            mask[:, first:last] = np.moveaxis(kept[:, rows], 1, 0)

    per_task = max(1, parallel.CHUNK_ELEMENTS // slab)
    for _ in parallel.run(gather, parallel.chunks(shape.before, per_task)):
        pass
    flat = len(bits), shape.columns
    return bits.reshape(flat), None if mask is None else mask.reshape(flat)


def _consecutive_rows(ranking: Ranking, shape: RowShape, rows: slice) -> RowKeys:
    span = rows.start * shape.columns, rows.stop * shape.columns
    return ranking.keys.bits(*span), ranking.mask(*span)


def _rows_of(gathered: RowKeys, first: int, rows: slice) -> RowKeys:
    """Return some of the rows of `gathered_rows`, flat; `first` is the first one there."""
    bits, mask = gathered
    part = slice(rows.start - first, rows.stop - first)
    return bits[part].reshape(-1), None if mask is None else mask[part].reshape(-1)


def _blocks(shape: RowShape, elements: int, within: slice) -> Iterator[slice]:
    per_block = max(1, elements // max(shape.columns, 1))
    for start in range(within.start, within.stop, per_block):
        yield slice(start, min(start + per_block, within.stop))
