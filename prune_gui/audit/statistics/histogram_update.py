"""A histogram after the cut of the last step moved: what is counted anew is one bin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.audit.kernels import count_between
from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import run
from prune_gui.pruning.predicates import ElementCut
from prune_gui.pruning.selection.chunk_spans import chunk_spans
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.auxiliary_files import file_entries
from prune_gui.recipe.pruned_by_codes import IN_FILE


@dataclass(frozen=True, slots=True)
class DraftCut:
    """A cut through the absolute values of a parameter's own weights.

    Attributes:
        keys: of the weights.
        cut: where they are cut.
        value: the absolute value there.
    """

    keys: ScoreKeys
    cut: Cut
    value: float


def draft_cut(resolution: Resolution, name: str) -> DraftCut | None:
    """Return the cut of the last step that is for a parameter, if it ranks the weights alone."""
    layers, checkpoint = resolution.layers.get(name, ()), resolution.checkpoint
    predicate = layers[-1].predicate if layers else None
    if not isinstance(predicate, ElementCut) or layers[-1].step == IN_FILE:
        return None
    keys = predicate.ranking.keys
    if not isinstance(keys, ScoreKeys) or keys.scores != file_entries(
        checkpoint, checkpoint.tensors[name]
    ):
        return None
    value = keys.value(predicate.cut().threshold)
    return DraftCut(keys, predicate.cut(), value) if math.isfinite(value) else None


def count_pruned(
    resolution: Resolution,
    name: str,
    own: DraftCut,
    edges: NDArray[np.float64],
    kept: NDArray[np.int64],
    monitor: Monitor,
) -> NDArray[np.int64]:
    """Return how many weights of each bin the last step prunes.

    Between the bins that hold the cut and its negative it prunes all that is left, and beyond them
    nothing. It is known how many it prunes, so of these two bins one is counted.

    Args:
        resolution: what is pruned.
        name: of the parameter.
        own: its `draft_cut`.
        edges: of the bins; no finite weight lies outside.
        kept: how many weights of each bin the steps before leave.
        monitor: told of the entries looked at.

    Raises:
        Cancelled: the monitor said so.
    """
    # A cut beyond all weights may pass for one in the last bin: what goes there is known as well.
    places = np.searchsorted(edges[:-1], [-own.value, own.value], side="right") - 1
    low, high = places.tolist()
    bins = np.arange(len(kept))
    found: NDArray[np.int64] = np.where((low < bins) & (bins < high), kept, 0)
    rest = own.cut.pruned - int(found.sum())
    if low in (-1, high):
        found[high] = rest
    elif edges[high] > 0:
        found[high] = _count_beyond(resolution, name, own, edges[high], monitor)
        found[low] = rest - found[high]
    else:  # then the other one lies below zero
        found[low] = _count_beyond(resolution, name, own, edges[low + 1], monitor)
        found[high] = rest - found[low]
    return found


def _count_beyond(
    resolution: Resolution, name: str, own: DraftCut, edge: float, monitor: Monitor
) -> int:
    """Count what the last step prunes on the far side of an edge, as seen from zero.

    The edge itself is a part of that if it lies above zero, as bins hold their lower edges.
    """
    before, keys, cut = stack.remaining_mask_of(resolution.layers[name][:-1]), own.keys, own.cut
    if edge > 0:
        sign, first = 0, keys.first_key(edge)
    else:
        sign, first = keys.magnitude + 1, keys.first_key(math.nextafter(-edge, math.inf))

    def look(span: tuple[int, int]) -> int:
        monitor.advance(span[1] - span[0])
        bits = keys.bits(*span)
        remaining_mask = None if before is None else before(*span)
        as_bits = bits.dtype.type
        return count_between(
            bits,
            remaining_mask,
            as_bits(sign | first),
            as_bits(sign | cut.threshold),
            cut.last_tie - span[0],
        )

    monitor.expect(keys.size)
    return sum(run(look, chunk_spans(keys)))
