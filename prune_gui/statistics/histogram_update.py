"""Updating a histogram after the cut of the last step moved: at most one bin is counted again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.pruning.predicates import ElementCut
from prune_gui.pruning.selection.chunk_spans import chunk_spans
from prune_gui.pruning.selection.digit_histograms import grouped_spans
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.ranking import Ranking
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.statistics.kernels import count_between


@dataclass(frozen=True, slots=True)
class DraftCut:
    """A cut in the absolute weights of a parameter.

    Attributes:
        ranking: the ranked weights.
        keys: the keys of the weights.
        cut: the cut, in keys.
        value: the absolute weight at the threshold of the cut.
    """

    ranking: Ranking
    keys: ScoreKeys
    cut: Cut
    value: float


def draft_cut(resolution: Resolution, name: str) -> DraftCut | None:
    """Return the cut of the last step of a parameter; None unless it ranks absolute weights."""
    applied_steps, checkpoint = resolution.layers.get(name, ()), resolution.checkpoint
    predicate = applied_steps[-1].predicate if applied_steps else None
    if not isinstance(predicate, ElementCut) or applied_steps[-1].step == IN_FILE:
        return None
    keys = predicate.ranking.keys
    if not isinstance(keys, ScoreKeys) or keys.scores != weight_reader(
        checkpoint, checkpoint.tensors[name]
    ):
        return None
    cut = predicate.cut()
    value = keys.value(cut.threshold)
    return DraftCut(predicate.ranking, keys, cut, value) if math.isfinite(value) else None


def count_pruned(
    resolution: Resolution,
    name: str,
    own: DraftCut,
    edges: NDArray[np.float64],
    kept: NDArray[np.int64],
    monitor: Monitor,
) -> NDArray[np.int64]:
    """Return the number of weights in each bin that the last step prunes.

    The step prunes all remaining weights in the bins between the cut and its negative, and none
    beyond these two bins. The total that it prunes is known, so only one of the two is counted.
    """
    # A cut above all weights is treated as one in the last bin: the count there is known, too.
    cut_bins = np.searchsorted(edges[:-1], [-own.value, own.value], side="right") - 1
    low, high = cut_bins.tolist()
    bins = np.arange(len(kept))
    pruned: NDArray[np.int64] = np.where((low < bins) & (bins < high), kept, 0)
    rest = own.cut.pruned - int(pruned.sum())
    if low in (-1, high):
        pruned[high] = rest
    elif edges[high] > 0:
        pruned[high] = _count_beyond(resolution, name, own, edges[high], monitor)
        pruned[low] = rest - pruned[high]
    else:  # the upper edge of bin `low` is below zero
        pruned[low] = _count_beyond(resolution, name, own, edges[low + 1], monitor)
        pruned[high] = rest - pruned[low]
    return pruned


def _count_beyond(
    resolution: Resolution, name: str, own: DraftCut, edge: float, monitor: Monitor
) -> int:
    """Return the number of weights farther from zero than an edge that the last step prunes.

    The edge itself is included if it is positive, because bins include their lower edges.
    """
    before, keys, cut = stack.remaining_mask_of(resolution.layers[name][:-1]), own.keys, own.cut
    spans, grouped = chunk_spans(keys), grouped_spans(own.ranking)
    if edge > 0:
        sign, first = 0, keys.first_key(edge)
    else:
        sign, first = keys.magnitude + 1, keys.first_key(math.nextafter(-edge, math.inf))

    low, high = sign | first, sign | cut.threshold

    def count(span: tuple[int, int], low: int = low) -> int:
        monitor.advance(span[1] - span[0])
        bits = keys.bits(*span)
        remaining_mask = None if before is None else before(*span)
        as_bits = bits.dtype.type
        return count_between(
            bits, remaining_mask, as_bits(low), as_bits(high), cut.last_tie - span[0]
        )

    monitor.expect(keys.size)
    if grouped is None:
        return sum(run(count, spans))
    total = 0
    for (start, stop), span in zip(spans, grouped, strict=True):
        total += span.count_between(low, high)
        if cut.last_tie >= stop - 1:
            total += span.count_between(high, high + 1)
        elif cut.last_tie >= start:
            total += count((start, stop), low=high)
    return total
