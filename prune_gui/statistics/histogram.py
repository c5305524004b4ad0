"""Histograms of the weights of a parameter, by the step that pruned them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import KEPT
from prune_gui.recipe.stack import AppliedStep
from prune_gui.statistics import kernels, values
from prune_gui.statistics.code_index import CodeIndex
from prune_gui.statistics.histogram_update import count_pruned, draft_cut
from prune_gui.statistics.step_cuts import StepCut, weight_cuts


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of weights in each of several bins of equal width. The arrays are read-only.

    Attributes:
        edges: float64 (bins + 1), ascending. A bin includes its lower edge, the last bin also its
            upper edge.
        codes: the code of each row of `counts`: 0 kept, then steps, then 255 for "in the file".
        counts: int64 (codes, bins), number of weights.
        nan: number of NaN weights; they are in no bin.
        infinite: number of infinite weights; they are in no bin.
        cuts: for each step that prunes small absolute weights, its cut.
        layers: the applied steps that were counted.
    """

    edges: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    nan: int
    infinite: int
    cuts: Mapping[int, StepCut] = field(default_factory=dict)
    layers: tuple[AppliedStep, ...] = field(default=(), repr=False)

    def kept_by(self, layers: tuple[AppliedStep, ...]) -> NDArray[np.int64] | None:
        """Return the number of weights in each bin that applied steps leave, if it is known.

        It is known for the steps of this histogram, and for those without the last one.
        """
        kept: NDArray[np.int64] = self.counts[0]
        if self.layers == layers:
            return kept
        steps = {applied.step for applied in layers}
        if not self.layers or self.layers[:-1] != layers or self.layers[-1].step in steps:
            return None
        last: NDArray[np.int64] = self.counts[self.codes.index(self.layers[-1].step)]
        return kept + last


def value_range(resolution: Resolution, name: str, monitor: Monitor) -> tuple[float, float]:
    """Return the minimum and maximum finite weight of a parameter; (0.0, 0.0) if it has none.

    The weights are those of `values.shown`.
    """
    read = values.shown(resolution, name)

    def limits_of_span(span: tuple[int, int]) -> NDArray[np.float64]:
        monitor.advance(span[1] - span[0])
        limits = np.array([math.inf, -math.inf])
        kernels.widen_range(read(*span), limits)
        return limits

    size = resolution.checkpoint.tensors[name].numel
    monitor.expect(size)
    parts = list(run(limits_of_span, chunks(size)))
    low = min((float(part[0]) for part in parts), default=math.inf)
    high = max((float(part[1]) for part in parts), default=-math.inf)
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


def histogram(
    resolution: Resolution,
    name: str,
    edges: NDArray[np.float64],
    monitor: Monitor,
    before: Histogram | None = None,
) -> Histogram:
    """Count the weights of a parameter in each bin, by the step that pruned them.

    The weights are those of `values.shown`.

    If only the last step differs from that of `before`, and it prunes small absolute weights, only
    a bin with its cut is counted again.
    """
    if before is not None and np.array_equal(before.edges, edges):
        updated = _updated(resolution, name, before, monitor)
        if updated is not None:
            return updated
    code_index = CodeIndex.of(resolution, name)
    count = _counter(resolution, name, edges)
    shape = len(code_index.codes), len(edges) + 1

    def count_span(span: tuple[int, int]) -> NDArray[np.int64]:
        monitor.advance(span[1] - span[0])
        counts = np.zeros(shape, np.int64)
        count(span, resolution.pruned_by_within(name, *span), code_index.lookup, counts)
        return counts

    size = resolution.checkpoint.tensors[name].numel
    monitor.expect(size)
    total = sum(run(count_span, chunks(size)), start=np.zeros(shape, np.int64))
    counts, (nan, infinite) = total[:, :-2], total[:, -2:].sum(0)
    counts.flags.writeable = False
    layers = resolution.layers.get(name, ())
    return Histogram(
        edges,
        code_index.codes,
        counts,
        int(nan),
        int(infinite),
        weight_cuts(resolution, name),
        layers,
    )


def _updated(
    resolution: Resolution, name: str, before: Histogram, monitor: Monitor
) -> Histogram | None:
    """Return the histogram updated for a moved cut; None if more than the last cut changed."""
    layers = resolution.layers.get(name, ())
    own, kept = draft_cut(resolution, name), before.kept_by(layers[:-1])
    if own is None or kept is None or layers[-1].step in {step.step for step in layers[:-1]}:
        return None
    pruned = count_pruned(resolution, name, own, before.edges, kept, monitor)
    rows = dict(zip(before.codes, before.counts, strict=True))
    rows.update({KEPT: kept - pruned, layers[-1].step: pruned})
    codes = CodeIndex.of(resolution, name).codes
    counts = np.stack([rows[code] for code in codes])
    counts.flags.writeable = False
    return replace(
        before, codes=codes, counts=counts, cuts=weight_cuts(resolution, name), layers=layers
    )


_Count = Callable[[tuple[int, int], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]], None]
"""Takes a span of a parameter, its codes, the slots, and counts to add to; see `count_bins`."""


def _counter(resolution: Resolution, name: str, edges: NDArray[np.float64]) -> _Count:
    info = resolution.checkpoint.tensors[name]
    dtype: torch.dtype = getattr(torch, info.dtype)
    if dtype.itemsize > 2 or info.scale is not None:
        read = values.shown(resolution, name)
        return lambda span, codes, slots, counts: kernels.count_bins(
            read(*span), codes, slots, edges, counts
        )
    every = np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}")
    bins = np.empty(every.size, np.uint32)
    kernels.find_bins(values.of_bits(every, dtype), edges, bins)
    bits = values.bits_reader_of(resolution.values(name))
    return lambda span, codes, slots, counts: kernels.count_known_bins(
        bits(*span), codes, slots, bins, counts
    )
