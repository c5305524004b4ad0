"""The elements of a tensor that a step may prune, by their keys."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.keys import KeySource, RemainingMask


@dataclass(frozen=True, slots=True)
class Ranking:
    """The elements of a tensor that a step may prune.

    Attributes:
        keys: the keys of the elements.
        remaining_mask: True at the remaining elements; None if all are.
        max_pruned: the maximum number of elements to prune; None: no limit.
        histogram_cache: cache of digit histograms.
    """

    keys: KeySource
    remaining_mask: RemainingMask | None = None
    max_pruned: int | None = None
    histogram_cache: HistogramCache | None = None
