"""Reading the kept channels of a tensor, any span of the result by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning.selection.keys import Bits, raw_bits
from prune_gui.recipe.parts import Spans, masked
from prune_gui.recipe.stack import AppliedStep

Kept = Mapping[int, NDArray[np.int64]]
"""The kept channels, ascending, of each dimension that loses some."""

MAX_ROW_ELEMENTS: Final = 1 << 18
"""The limit of what is gathered as a unit; rows that are longer are divided."""
BATCH_ELEMENTS: Final = 1 << 20
"""Elements that are read at once."""
MAX_GAP_ELEMENTS: Final = 1 << 14
"""Removed elements that are read together with kept ones around them, because that is faster."""


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
    """Yield spans of the kept channels of a tensor; a few MiB are in memory at a time.

    Args:
        flat: the values of the whole tensor, 1-d; they may be mapped from a file.
        shape: the shape of the whole tensor.
        kept: the kept channels.
        steps: the steps that prune kept elements, which become +0; () if there are none.
        spans: spans of the result, in flat (row-major) indices.
    """
    reader = _Reader(flat, shape, kept, steps)
    for start, stop in spans:
        values = torch.empty(stop - start, dtype=flat.dtype)
        reader.fill(start, stop, raw_bits(values))
        yield values


class _Reader:
    """Gathers rows: what belongs to one index of the leading dimensions."""

    def __init__(
        self,
        flat: torch.Tensor,
        shape: tuple[int, ...],
        kept: Kept,
        steps: Sequence[AppliedStep],
    ) -> None:
        self._flat = flat
        self._steps = steps
        leading = next(
            dims for dims in range(1, len(shape) + 1) if _size(shape[dims:]) <= MAX_ROW_ELEMENTS
        )
        new_shape = sliced_shape(shape, kept)
        self._leading, self._new_leading = shape[:leading], new_shape[:leading]
        self._row_shape, self._row = shape[leading:], _size(shape[leading:])
        self._new_row = _size(new_shape[leading:])
        self._kept_leading = {dim: index for dim, index in kept.items() if dim < leading}
        self._kept_row = {dim - leading: index for dim, index in kept.items() if dim >= leading}

    def fill(self, start: int, stop: int, out: Bits) -> None:
        """Write the span [start, stop) of the result to `out`."""
        last = -(-stop // self._new_row)
        step = max(1, BATCH_ELEMENTS // self._row)
        for first in range(start // self._new_row, last, step):
            rows = self._rows(first, min(first + step, last)).reshape(-1)
            begin = first * self._new_row
            lower, upper = max(start, begin), min(stop, begin + len(rows))
            out[lower - start : upper - start] = rows[lower - begin : upper - begin]

    def _rows(self, first: int, last: int) -> Bits:
        """Return rows [first, last) of the result."""
        index = list(np.unravel_index(np.arange(first, last), self._new_leading))
        for dim, channels in self._kept_leading.items():
            index[dim] = channels[index[dim]]
        old = np.ravel_multi_index(tuple(index), self._leading)
        blocks = [self._block(run) for run in self._runs(old)]
        rows = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        rows = rows.reshape(len(old), *self._row_shape)
        for dim, channels in self._kept_row.items():
            rows = np.take(rows, channels, axis=dim + 1, mode="clip")  # faster than with checks
        return rows

    def _runs(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Divide ascending rows into runs that are read at once."""
        gaps = (np.diff(rows) - 1) * self._row > MAX_GAP_ELEMENTS
        blocks = rows * self._row // BATCH_ELEMENTS
        return np.split(rows, np.flatnonzero(gaps | (np.diff(blocks) > 0)) + 1)

    def _block(self, rows: NDArray[np.intp]) -> Bits:
        """Return the old rows of a run."""
        first, last = int(rows[0]), int(rows[-1]) + 1
        start, stop = first * self._row, last * self._row
        values = self._flat[start:stop]
        if self._steps:
            (values,) = masked(self._flat, self._steps, [(start, stop)])
        block = raw_bits(values).reshape(last - first, self._row)
        return block if len(rows) == len(block) else block[rows - first]


def _size(shape: Sequence[int]) -> int:
    return math.prod(shape)
