"""Histograms of the weights of a parameter, by the step that pruned them.

After the cut of the last step moved, at most one bin is counted again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.parallel import run
from prune_gui.pruning.predicates import ElementCut
from prune_gui.pruning.selection.digit_histograms import grouped_spans
from prune_gui.pruning.selection.keys import Ranking, RemainingMask, ScoreKeys, chunk_spans
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.recipe.recipe import IN_FILE, KEPT
from prune_gui.recipe.stack import AppliedStep
from prune_gui.statistics import kernels, weight_values
from prune_gui.statistics.dispatch import map_chunks
from prune_gui.statistics.element_scores import StepCut, weight_cuts


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of weights in each of several bins of equal width. The arrays are read-only.

    Attributes:
        edges: float64 (bins + 1), ascending. A bin includes its lower edge, the last also its
            upper.
        codes: of each row of `counts`, int64 (codes, bins).
        nan, infinite: numbers of weights that are in no bin.
        cuts: for each step that prunes small absolute weights, its cut.
    """

    edges: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    nan: int
    infinite: int
    cuts: Mapping[int, StepCut] = field(default_factory=dict)
    layers: tuple[AppliedStep, ...] = field(default=(), repr=False)


def value_range(resolution: Resolution, name: str, monitor: Monitor) -> tuple[float, float]:
    """Return the minimum and maximum finite weight as views show it; (0.0, 0.0) without one."""
    read = weight_values.shown(resolution, name)

    def limits_of_span(start: int, stop: int) -> NDArray[np.float64]:
        limits = np.array([math.inf, -math.inf])
        kernels.widen_range(read(start, stop), limits)
        return limits

    size = resolution.checkpoint.tensors[name].numel
    limits = np.array([[math.inf, -math.inf], *map_chunks(limits_of_span, size, monitor)])
    low, high = float(limits[:, 0].min()), float(limits[:, 1].max())
    return (low, high) if low <= high else (0.0, 0.0)


def bin_edges(low: float, high: float, bins: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Return the edges of `bins` bins of equal width from `low` to `high`."""
    if symmetric:
        high = max(abs(low), abs(high))
        low = -high
    if not low < high:
        margin = abs(high) / 2 or 0.5
        limit = float(np.finfo(np.float64).max)
        low, high = max(low - margin, -limit), min(high + margin, limit)
    # The difference of two large float64 may overflow; that of their halves cannot.
    scale = 1.0 if math.isfinite(high - low) else 2.0
    edges: NDArray[np.float64] = scale * np.linspace(low / scale, high / scale, bins + 1)
    edges[-1] = high
    return edges


def aligned_edges(
    edges: NDArray[np.float64], reach: float, dtypes: Iterable[torch.dtype]
) -> NDArray[np.float64]:
    """Return edges for values of some types: multiples of a power of two if any has 16 bits.

    Such values are so far apart that bins of another width have one value more or less than their
    neighbours, and the bars look like a comb. Bins are at least twice as wide as the distance of
    values at `reach`, an absolute value: where the distance doubles, at a power of two,
    a bin has up to an eighth more or less than its neighbours.
    """
    steps = [torch.finfo(one).eps for one in dtypes if one in (torch.bfloat16, torch.float16)]
    if not steps or reach == 0:
        return edges
    distance = max(steps) * 2.0 ** math.floor(math.log2(reach))
    width = max(2 * distance, 2.0 ** round(math.log2(float(edges[1] - edges[0]))))
    first, last = math.floor(edges[0] / width), math.ceil(edges[-1] / width)
    return width * np.arange(first, last + 1, dtype=np.float64)


def histogram(
    resolution: Resolution,
    name: str,
    edges: NDArray[np.float64],
    monitor: Monitor,
    before: Histogram | None = None,
) -> Histogram:
    """Count the weights of a parameter in each bin, by the step that pruned them.

    The weights are those of `weight_values.shown`.

    If only the last step differs from that of `before`, and it prunes small absolute weights, only
    a bin with its cut is counted again.
    """
    if before is not None and np.array_equal(before.edges, edges):
        updated = _updated(resolution, name, before, monitor)
        if updated is not None:
            return updated
    layers = resolution.layers.get(name, ())
    codes, slots = kernels.CodeIndex.of(layers)
    info, shape = resolution.checkpoint.tensors[name], (len(codes), len(edges) + 1)
    dtype: torch.dtype = getattr(torch, info.dtype)
    if has_few_values := dtype.itemsize <= 2 and info.scale is None:
        every = np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}")
        bins = np.empty(every.size, np.uint32)
        kernels.find_bins(weight_values.of_bits(every, dtype), edges, bins)
        bits = weight_values.bits_reader_of(resolution.values(name))
    else:
        read = weight_values.shown(resolution, name)

    def count(start: int, stop: int) -> NDArray[np.int64]:
        counts = np.zeros(shape, np.int64)
        pruned_by = resolution.pruned_by_within(name, start, stop)
        if has_few_values:
            kernels.count_known_bins(bits(start, stop), pruned_by, slots, bins, counts)
        else:
            kernels.count_bins(read(start, stop), pruned_by, slots, edges, counts)
        return counts

    total = sum(map_chunks(count, info.numel, monitor), start=np.zeros(shape, np.int64))
    counts, (nan, infinite) = total[:, :-2], total[:, -2:].sum(0)
    counts.flags.writeable = False
    cuts = weight_cuts(resolution, name)
    return Histogram(edges, codes, counts, int(nan), int(infinite), cuts, layers)


def _updated(
    resolution: Resolution, name: str, before: Histogram, monitor: Monitor
) -> Histogram | None:
    """Return the histogram updated for a moved cut; None if more than the last cut changed."""
    layers = resolution.layers.get(name, ())
    own, earlier, last = DraftCut.of(resolution, name), layers[:-1], before.layers[-1:]
    steps = {applied.step for applied in earlier}
    if own is None or layers[-1].step in steps:
        return None
    kept = before.counts[0]  # known after the counted steps, and after those without the last one
    if before.layers != earlier:
        if not last or before.layers[:-1] != earlier or last[0].step in steps:
            return None
        kept = kept + before.counts[before.codes.index(last[0].step)]
    pruned = own.count_pruned(before.edges, kept, monitor)
    rows = dict(zip(before.codes, before.counts, strict=True))
    rows.update({KEPT: kept - pruned, layers[-1].step: pruned})
    codes = kernels.CodeIndex.of(layers).codes
    counts = np.stack([rows[code] for code in codes])
    counts.flags.writeable = False
    cuts = weight_cuts(resolution, name)
    return replace(before, codes=codes, counts=counts, cuts=cuts, layers=layers)


@dataclass(frozen=True, slots=True)
class DraftCut:
    """The cut of the last step in the absolute weights of a parameter, in their keys.

    `value` is the absolute weight at the threshold; `before` is None if earlier steps leave all.
    """

    ranking: Ranking
    keys: ScoreKeys
    cut: Cut
    value: float
    before: RemainingMask | None

    @classmethod
    def of(cls, resolution: Resolution, name: str) -> DraftCut | None:
        """Return the cut of a parameter; None unless the last step ranks absolute weights."""
        applied_steps, checkpoint = resolution.layers.get(name, ()), resolution.checkpoint
        predicate = applied_steps[-1].predicate if applied_steps else None
        if not isinstance(predicate, ElementCut) or applied_steps[-1].step == IN_FILE:
            return None
        keys = predicate.ranking.keys
        weights = weight_reader(checkpoint, checkpoint.tensors[name])
        if not isinstance(keys, ScoreKeys) or keys.scores != weights:
            return None
        cut = predicate.cut()
        value = keys.value(cut.threshold)
        before = stack.remaining_mask_of(applied_steps[:-1])
        is_finite = math.isfinite(value)
        return cls(predicate.ranking, keys, cut, value, before) if is_finite else None

    def count_pruned(
        self, edges: NDArray[np.float64], kept: NDArray[np.int64], monitor: Monitor
    ) -> NDArray[np.int64]:
        """Return the number of weights in each bin that the step prunes.

        The step prunes all remaining weights in the bins between the cut and its negative, and none
        beyond these two bins. The total that it prunes is known, so only one of the two is counted.
        """
        # A cut above all weights is treated as one in the last bin: the count there is known, too.
        cut_bins = np.searchsorted(edges[:-1], [-self.value, self.value], side="right") - 1
        low, high = cut_bins.tolist()
        bins = np.arange(len(kept))
        pruned: NDArray[np.int64] = np.where((low < bins) & (bins < high), kept, 0)
        rest = self.cut.pruned - int(pruned.sum())
        if low in (-1, high):
            pruned[high] = rest
        elif edges[high] > 0:
            pruned[high] = self._count_beyond(edges[high], monitor)
            pruned[low] = rest - pruned[high]
        else:  # the upper edge of bin `low` is below zero
            pruned[low] = self._count_beyond(edges[low + 1], monitor)
            pruned[high] = rest - pruned[low]
        return pruned

    def _count_beyond(self, edge: float, monitor: Monitor) -> int:
        """Count the weights that the step prunes and that are farther from zero than an edge.

        The edge itself is included if it is positive, because bins include their lower edges.
        """
        keys, cut = self.keys, self.cut
        spans, grouped = chunk_spans(keys), grouped_spans(self.ranking)
        if edge > 0:
            sign, first = 0, keys.first_key(edge)
        else:
            sign, first = keys.magnitude + 1, keys.first_key(math.nextafter(-edge, math.inf))
        low, high = sign | first, sign | cut.threshold

        def count(span: tuple[int, int], low: int = low) -> int:
            monitor.advance(span[1] - span[0])
            bits, remaining_mask = keys.bits(*span), self.before and self.before(*span)
            limits = bits.dtype.type(low), bits.dtype.type(high)
            return kernels.count_between(bits, remaining_mask, *limits, cut.last_tie - span[0])

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
