"""How the weights of a parameter are distributed, and which of them each step prunes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.audit import kernels
from prune_gui.audit.raster.code_index import CodeIndex
from prune_gui.audit.statistics import values
from prune_gui.audit.statistics.histogram_update import count_pruned, draft_cut
from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import ScoredMethod
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import ElementCut
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT
from prune_gui.recipe.stack import AppliedStep


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many weights lie in each of some equal bins. The arrays are read-only.

    Attributes:
        edges: float64, ascending, one more than there are bins. A bin holds its lower edge, the
            last one also its upper.
        codes: what each row of `counts` is about: 0 kept, then steps, then 255, in the file.
        counts: int64 (codes, bins).
        nan: how many weights are not a number; they lie in no bin.
        infinite: how many are infinite; likewise.
        cuts: for steps that prune where abs(weight) is small: up to which value.
        layers: what was pruned.
    """

    edges: NDArray[np.float64]
    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    nan: int
    infinite: int
    cuts: Mapping[int, float] = field(default_factory=dict)
    layers: tuple[AppliedStep, ...] = field(default=(), repr=False)

    def kept_by(self, layers: tuple[AppliedStep, ...]) -> NDArray[np.int64] | None:
        """Return how many weights of each bin some layers leave, if that is known.

        It is of these very layers, and if one more came after them.
        """
        kept: NDArray[np.int64] = self.counts[0]
        if self.layers == layers:
            return kept
        steps = {layer.step for layer in layers}
        if not self.layers or self.layers[:-1] != layers or self.layers[-1].step in steps:
            return None
        last: NDArray[np.int64] = self.counts[self.codes.index(self.layers[-1].step)]
        return kept + last


def value_range(checkpoint: Checkpoint, name: str, monitor: Monitor) -> tuple[float, float]:
    """Return the least and the greatest finite weight of a parameter; (0.0, 0.0) without any.

    Raises:
        Cancelled: the monitor said so.
    """
    read = values.reader(checkpoint, name)

    def look(span: tuple[int, int]) -> NDArray[np.float64]:
        monitor.advance(span[1] - span[0])
        found = np.array([math.inf, -math.inf])
        kernels.widen_range(read(*span), found)
        return found

    size = checkpoint.tensors[name].numel
    monitor.expect(size)
    parts = list(run(look, chunks(size)))
    low = min((float(part[0]) for part in parts), default=math.inf)
    high = max((float(part[1]) for part in parts), default=-math.inf)
    return (low, high) if low <= high else (0.0, 0.0)


def bin_edges(low: float, high: float, bins: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Return the edges of `bins` equal bins from `low` to `high`.

    Args:
        low: the least weight.
        high: the greatest; if it is no greater, the bins are laid around it.
        bins: how many.
        symmetric: lay them from -m to m instead, where m is the larger absolute value.
    """
    if symmetric:
        high = max(abs(low), abs(high))
        low = -high
    if not low < high:
        around = abs(high) / 2 or 0.5
        limit = float(np.finfo(np.float64).max)
        low, high = max(low - around, -limit), min(high + around, limit)
    # The difference of two large doubles may overflow; that of their halves cannot.
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

    If the last step alone is another than `before`, and prunes where the weight is small, only the
    bins that hold its cut are counted.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        edges: from `bin_edges`, around `value_range`.
        monitor: told of the entries looked at.
        before: of the same parameter.

    Raises:
        Cancelled: the monitor said so.
    """
    if before is not None and np.array_equal(before.edges, edges):
        moved = _moved(resolution, name, before, monitor)
        if moved is not None:
            return moved
    slots = CodeIndex.of(resolution, name)
    count = _counter(resolution.checkpoint, name, edges)
    shape = len(slots.codes), len(edges) + 1

    def look(span: tuple[int, int]) -> NDArray[np.int64]:
        monitor.advance(span[1] - span[0])
        counts = np.zeros(shape, np.int64)
        count(span, resolution.pruned_by_within(name, *span), slots.lookup, counts)
        return counts

    size = resolution.checkpoint.tensors[name].numel
    monitor.expect(size)
    found = sum(run(look, chunks(size)), start=np.zeros(shape, np.int64))
    counts, (nan, infinite) = found[:, :-2], found[:, -2:].sum(0)
    counts.flags.writeable = False
    layers = resolution.layers.get(name, ())
    return Histogram(
        edges, slots.codes, counts, int(nan), int(infinite), cuts(resolution, name), layers
    )


def _moved(
    resolution: Resolution, name: str, before: Histogram, monitor: Monitor
) -> Histogram | None:
    """Return the histogram after the last step's cut moved, if that is all that happened."""
    layers = resolution.layers.get(name, ())
    own, kept = draft_cut(resolution, name), before.kept_by(layers[:-1])
    if own is None or kept is None or layers[-1].step in {layer.step for layer in layers[:-1]}:
        return None
    pruned = count_pruned(resolution, name, own, before.edges, kept, monitor)
    rows = dict(zip(before.codes, before.counts, strict=True))
    rows.update({KEPT: kept - pruned, layers[-1].step: pruned})
    codes = CodeIndex.of(resolution, name).codes
    counts = np.stack([rows[code] for code in codes])
    counts.flags.writeable = False
    return replace(before, codes=codes, counts=counts, cuts=cuts(resolution, name), layers=layers)


_Count = Callable[[tuple[int, int], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]], None]
"""Adds a stretch of a parameter, given its codes and their slots, to counts; see `kernels`."""


def _counter(checkpoint: Checkpoint, name: str, edges: NDArray[np.float64]) -> _Count:
    dtype = getattr(torch, checkpoint.tensors[name].dtype)
    if dtype.itemsize > 2:
        read = values.reader(checkpoint, name)
        return lambda span, codes, slots, counts: kernels.count_bins(
            read(*span), codes, slots, edges, counts
        )
    every = np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}")
    bins = np.empty(every.size, np.uint32)
    kernels.find_bins(values.of_bits(every, dtype), edges, bins)
    bits = values.bits_reader(checkpoint, name)
    return lambda span, codes, slots, counts: kernels.count_known_bins(
        bits(*span), codes, slots, bins, counts
    )


def cuts(resolution: Resolution, name: str) -> dict[int, float]:
    """Return up to which absolute value each step prunes a parameter, where that is what it does.

    Steps that rank by something else than the weight itself, and cuts at infinity, are left out.
    """
    found = {}
    for layer in resolution.layers.get(name, ()):
        predicate = layer.predicate
        if layer.step == IN_FILE or not isinstance(predicate, ElementCut):
            continue
        method = resolution.recipe.steps[layer.step - 1].method
        if isinstance(method, ScoredMethod) and method.ranks_weights:
            found[layer.step] = predicate.ranking.keys.value(predicate.cut().threshold)
    return {step: value for step, value in found.items() if math.isfinite(value)}
