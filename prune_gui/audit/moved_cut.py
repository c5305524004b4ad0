"""A histogram after the cut of the last step moved: only weights near it are looked at again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit import kernels, values
from prune_gui.monitor import Monitor
from prune_gui.pruning.kernels import find_between
from prune_gui.pruning.keys import ScoreKeys
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.predicates import EntryCut
from prune_gui.pruning.selection import Cut
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.companions import file_entries


@dataclass(frozen=True, slots=True)
class OwnCut:
    """A cut through the absolute values of a parameter's own weights.

    Attributes:
        keys: of the weights.
        cut: where they are cut.
        value: the absolute value there.
    """

    keys: ScoreKeys
    cut: Cut
    value: float


def own_cut(resolution: Resolution, name: str) -> OwnCut | None:
    """Return the cut of the last step that is for a parameter, if it ranks the weights alone."""
    layers, checkpoint = resolution.layers.get(name, ()), resolution.checkpoint
    predicate = layers[-1].predicate if layers else None
    if not isinstance(predicate, EntryCut):
        return None
    keys = predicate.ranking.keys
    if not isinstance(keys, ScoreKeys) or keys.scores != file_entries(
        checkpoint, checkpoint.tensors[name]
    ):
        return None
    value = keys.value(predicate.cut().threshold)
    return OwnCut(keys, predicate.cut(), value) if math.isfinite(value) else None


def count_pruned(
    resolution: Resolution,
    name: str,
    own: OwnCut,
    edges: NDArray[np.float64],
    kept: NDArray[np.int64],
    monitor: Monitor,
) -> NDArray[np.int64]:
    """Return how many weights of each bin the last step prunes.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        own: its `own_cut`.
        edges: of the bins.
        kept: how many weights of each bin the steps before leave.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    nearest, farthest = _distances(edges)
    all_go, unclear = farthest < own.value, (nearest <= own.value) & (own.value <= farthest)
    before = stack.alive(resolution.layers[name][:-1])
    key = own.keys.bits(0, 0).dtype.type
    # One less, as rounding may have brought it up.
    least = key(max(0, own.keys.key(float(nearest.min(where=unclear, initial=own.value))) - 1))

    def look(stretch: tuple[int, int]) -> NDArray[np.int64]:
        monitor.advance(stretch[1] - stretch[0])
        bits = own.keys.bits(*stretch)
        near = np.empty(bits.size, np.uint32)
        last_tie = own.cut.last_tie - stretch[0]
        count = find_between(
            bits, key(own.keys.magnitude), least, key(own.cut.threshold), last_tie, near
        )
        near = near[:count]
        if before is not None:
            near = near[before(*stretch)[near]]
        bins = np.empty(near.size, np.uint32)
        kernels.find_bins(values.of_bits(bits[near], own.keys.dtype), edges, bins)
        return np.bincount(bins, minlength=len(edges) - 1)

    size = resolution.checkpoint.tensors[name].numel
    monitor.expect(size)
    counted = sum(run(look, chunks(size)), start=np.zeros(len(edges) - 1, np.int64))
    found: NDArray[np.int64] = np.where(unclear, counted, np.where(all_go, kept, 0))
    return found


def _distances(edges: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest absolute value in each bin, both edges included."""
    low, high = edges[:-1], edges[1:]
    ends = np.abs([low, high])
    return np.where((low <= 0) & (high >= 0), 0.0, ends.min(0)), ends.max(0)
