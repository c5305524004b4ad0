"""Small tensors that are ranked together, the keys of each in order: to sort few takes no time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.kernels import batched as batched_kernels
from prune_gui.pruning.selection.keys import Bits, KeySource, RemainingMask, with_equal_nans
from prune_gui.pruning.selection.radix_select import Cut


@dataclass(frozen=True, eq=False, slots=True)
class SortedKeys:
    """The keys of some tensors, one tensor after the other.

    Attributes:
        keys: in the order of the entries; those of NaN are equal.
        remaining_mask: which of them are still there; None: all.
        bounds: int64, where each tensor begins, and where the last one ends.
        ranked: the same keys with those of every tensor ascending, those still there first.
        there: int64, how many of each tensor are.
        non_finite: int64, how many of these stand for NaN or infinity.
    """

    keys: Bits
    remaining_mask: NDArray[np.bool_] | None
    bounds: NDArray[np.int64]
    ranked: Bits
    there: NDArray[np.int64]
    non_finite: NDArray[np.int64]

    @classmethod
    def of(
        cls, source: KeySource, remaining_mask: RemainingMask | None, bounds: NDArray[np.int64]
    ) -> SortedKeys:
        """Read and sort the keys of all tensors."""
        size, first = source.size, source.first_non_finite
        bits = with_equal_nans(source, source.magnitude).bits(0, size)
        keys: Bits = bits & bits.dtype.type(source.magnitude)
        left = None if remaining_mask is None else remaining_mask(0, size)
        ranked = keys.copy() if left is None else np.where(left, keys, np.iinfo(keys.dtype).max)
        _sort(ranked, bounds)
        there = np.diff(bounds) if left is None else _count(left, bounds)
        odd = np.zeros_like(there)
        if first is not None:
            odd = _count(ranked >= first, bounds) - (np.diff(bounds) - there)
        return cls(keys, left, bounds, ranked, there, odd)

    def cut(self, units: NDArray[np.int64]) -> list[Cut]:
        """Return the cut of each tensor that prunes so many of its smallest keys.

        Of equal keys those of lower flat index go first.
        """
        thresholds = np.zeros(len(units), self.keys.dtype)
        last_ties = np.full(len(units), -1, np.int64)
        batched_kernels.cut_each(
            self.keys, self.remaining_mask, self.ranked, self.bounds, units, thresholds, last_ties
        )
        columns = (thresholds, last_ties, units, self.non_finite)
        return [Cut(*own) for own in zip(*(c.tolist() for c in columns), strict=True)]


def _sort(keys: Bits, bounds: NDArray[np.int64]) -> None:
    """Sort the keys of each tensor; those of tensors of one size at once."""
    sizes = np.diff(bounds)
    for size in np.unique(sizes):
        if np.all(sizes == size):
            keys.reshape(-1, max(size, 1)).sort(axis=1)
            return
        places = bounds[:-1][sizes == size, np.newaxis] + np.arange(size)
        keys[places] = np.sort(keys[places], axis=1)


def _count(marked: NDArray[np.bool_], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count what is marked of each tensor."""
    return np.diff(np.concatenate([[0], np.cumsum(marked)])[bounds])
