"""The sorted keys of small concatenated tensors: sorting a few keys is fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.kernels import batched as batched_kernels
from prune_gui.pruning.selection.keys import Bits, KeySource, RemainingMask, with_equal_nans
from prune_gui.pruning.selection.radix_select import Cut


@dataclass(frozen=True, eq=False, slots=True)
class SortedKeys:
    """The keys of concatenated tensors.

    Attributes:
        keys: in the order of the elements; all NaNs have the same key.
        remaining_mask: True at the remaining elements; None if all are.
        bounds: int64, the start of each tensor, and the end of the last one.
        ranked: the keys of each tensor ascending; those of remaining elements first.
        remaining: int64, the number of remaining elements of each tensor.
        non_finite: int64, the number of those with a non-finite score.
    """

    keys: Bits
    remaining_mask: NDArray[np.bool_] | None
    bounds: NDArray[np.int64]
    ranked: Bits
    remaining: NDArray[np.int64]
    non_finite: NDArray[np.int64]

    @classmethod
    def of(
        cls, source: KeySource, remaining_mask: RemainingMask | None, bounds: NDArray[np.int64]
    ) -> SortedKeys:
        """Read and sort the keys of all tensors."""
        size, first = source.size, source.first_non_finite
        bits = with_equal_nans(source, source.magnitude).bits(0, size)
        keys: Bits = bits & bits.dtype.type(source.magnitude)
        mask = None if remaining_mask is None else remaining_mask(0, size)
        ranked = keys.copy() if mask is None else np.where(mask, keys, np.iinfo(keys.dtype).max)
        _sort(ranked, bounds)
        remaining = np.diff(bounds) if mask is None else _count(mask, bounds)
        non_finite = np.zeros_like(remaining)
        if first is not None:
            non_finite = _count(ranked >= first, bounds) - (np.diff(bounds) - remaining)
        return cls(keys, mask, bounds, ranked, remaining, non_finite)

    def cut(self, units: NDArray[np.int64]) -> list[Cut]:
        """Return the cut of each tensor that prunes its `units` lowest keys.

        Of equal keys those of lower flat index are pruned first.
        """
        thresholds = np.zeros(len(units), self.keys.dtype)
        last_ties = np.full(len(units), -1, np.int64)
        batched_kernels.cut_each(
            self.keys, self.remaining_mask, self.ranked, self.bounds, units, thresholds, last_ties
        )
        columns = (thresholds, last_ties, units, self.non_finite)
        return [Cut(*own) for own in zip(*(c.tolist() for c in columns), strict=True)]


def _sort(keys: Bits, bounds: NDArray[np.int64]) -> None:
    """Sort the keys of each tensor in place; tensors of equal size are sorted in one call."""
    sizes = np.diff(bounds)
    for size in np.unique(sizes):
        if np.all(sizes == size):
            keys.reshape(-1, max(size, 1)).sort(axis=1)
            return
        indices = bounds[:-1][sizes == size, np.newaxis] + np.arange(size)
        keys[indices] = np.sort(keys[indices], axis=1)


def _count(marked: NDArray[np.bool_], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of marked elements of each tensor."""
    return np.diff(np.concatenate([[0], np.cumsum(marked)])[bounds])
