"""Reading the kept channels of a tensor, any span of the result by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning.arrays import Bits
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.recipe.form_tensors import Spans, masked
from prune_gui.recipe.stack import AppliedStep

Kept = Mapping[int, NDArray[np.int64]]
"""The kept channels, ascending, of each dimension that loses some."""

MAX_ROW_ELEMENTS: Final = 1 << 18
"""The limit of what is gathered as a unit; rows that are longer are divided."""
BATCH_ELEMENTS: Final = 1 << 20
"""Elements that are read at once."""
MAX_GAP_ELEMENTS: Final = 1 << 14
"""Removed elements whose masks are computed with those around them, because that is faster."""


def sliced_shape(shape: tuple[int, ...], kept: Kept) -> tuple[int, ...]:
    """Return the shape of the kept channels."""
    return tuple(len(kept[dim]) if dim in kept else n for dim, n in enumerate(shape))


def sliced(
    flat: torch.Tensor,
    shape: tuple[int, ...],
    kept: Kept,
    steps: Sequence[AppliedStep],
    spans: Spans,
) -> Iterator[torch.Tensor]:
    """Yield spans of the kept channels of a tensor, in flat indices, a few MiB at once."""
    reader = _Reader(flat, shape, kept, steps)
    for start, stop in spans:
        values = torch.empty(stop - start, dtype=flat.dtype)
        reader.fill(start, stop, raw_bits(values))
        yield values


class _Reader:
    """Gathers rows: what belongs to one index of the leading dimensions."""

    def __init__(
        self, flat: torch.Tensor, shape: tuple[int, ...], kept: Kept, steps: Sequence[AppliedStep]
    ) -> None:
        self._flat = flat
        self._steps = steps
        leading = next(
            dims for dims in range(1, len(shape) + 1) if math.prod(shape[dims:]) <= MAX_ROW_ELEMENTS
        )
        new_shape = sliced_shape(shape, kept)
        self._leading, self._new_leading = shape[:leading], new_shape[:leading]
        self._row_shape, self._row = shape[leading:], math.prod(shape[leading:])
        self._new_row = math.prod(new_shape[leading:])
        self._bits = raw_bits(flat).reshape(math.prod(self._leading), self._row)
        self._kept_leading = {dim: index for dim, index in kept.items() if dim < leading}
        self._kept_row = {dim - leading: index for dim, index in kept.items() if dim >= leading}

    def fill(self, start: int, stop: int, out: Bits) -> None:
        for first, last in self._batches(start, stop):
            begin, end = first * self._new_row, last * self._new_row
            if start <= begin and end <= stop:
                self._read(first, last, out[begin - start : end - start])
                continue
            row = np.empty(end - begin, out.dtype)
            self._read(first, last, row)
            lower, upper = max(start, begin), min(stop, end)
            out[lower - start : upper - start] = row[lower - begin : upper - begin]

    def _batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield spans of rows that cover [start, stop); a row that is partly in it is a span."""
        first, last = start // self._new_row, -(-stop // self._new_row)
        full, full_end = -(-start // self._new_row), stop // self._new_row
        if full > full_end:  # within one row
            yield first, last
            return
        if first < full:
            yield first, full
        step = max(1, BATCH_ELEMENTS // self._row)
        for batch in range(full, full_end, step):
            yield batch, min(batch + step, full_end)
        if full_end < last:
            yield full_end, last

    def _read(self, first: int, last: int, out: Bits) -> None:
        """Write rows [first, last) of the result to `out`, 1-d."""
        index = list(np.unravel_index(np.arange(first, last), self._new_leading))
        for dim, channels in self._kept_leading.items():
            index[dim] = channels[index[dim]]
        old = np.ravel_multi_index(tuple(index), self._leading)
        rows = out.reshape(last - first, self._new_row)
        if not self._steps:
            self._gather(self._bits, old, rows)
            return
        done = 0
        for run in self._runs(old):
            start = int(run[0]) * self._row
            (values,) = masked(self._flat, self._steps, [(start, (int(run[-1]) + 1) * self._row)])
            block = raw_bits(values).reshape(-1, self._row)
            self._gather(block, run - run[0], rows[done : done + len(run)])
            done += len(run)

    def _gather(self, block: Bits, rows: NDArray[np.intp], out: Bits) -> None:
        """Write the kept channels of some ascending rows of a block to `out`."""
        if not self._kept_row:
            np.take(block, rows, axis=0, out=out, mode="clip")  # faster than with checks
            return
        first, stop = rows[0], rows[-1] + 1
        values = block[first:stop] if stop - first == len(rows) else block[rows]
        values = values.reshape(len(rows), *self._row_shape)
        *others, (last_dim, last_channels) = self._kept_row.items()
        for dim, channels in others:
            values = np.take(values, channels, axis=dim + 1, mode="clip")
        shape = sliced_shape(values.shape, {last_dim + 1: last_channels})
        np.take(values, last_channels, axis=last_dim + 1, out=out.reshape(shape), mode="clip")

    def _runs(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Divide ascending rows into runs whose masks are computed at once."""
        gaps = (np.diff(rows) - 1) * self._row > MAX_GAP_ELEMENTS
        blocks = rows * self._row // BATCH_ELEMENTS
        return np.split(rows, np.flatnonzero(gaps | (np.diff(blocks) > 0)) + 1)
