"""Selection of the lowest-ranked units, such as channels or blocks, which are pruned as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.arrays import Flags, Ints, Numbers, Values
from prune_gui.pruning.decisions.target import (
    AmountMethod,
    Decision,
    Target,
    all_targets,
    cap_note,
    count_units,
    max_prunable,
)
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import ChannelCut, Predicate, PrunedUnits, count_per_channel
from prune_gui.pruning.selection.batched import find_cuts_batched
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys, ranking_dtype
from prune_gui.pruning.selection.radix_select import mark
from prune_gui.pruning.selection.scores import TensorScores


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one target; those without `remaining_elements` are not ranked.

    `label` names them for messages. `rank` returns a number >= 0 per unit, of which the smallest
    are pruned first and NaN last; or it raises `ValueError`.
    """

    target: Target
    label: Callable[[], str]
    remaining_elements: Ints
    rank: Callable[[Monitor], Values]
    rank_bytes: int
    predicate: Callable[[Lazy[PrunedUnits]], Predicate]

    def ranks(self, monitor: Monitor) -> Values:
        try:
            return self.rank(monitor)
        except ValueError as error:
            raise RecipeError("{name}: {reason}", name=self.target.name, reason=error) from error

    @property
    def remaining(self) -> int:
        return int((self.remaining_elements > 0).sum())

    @property
    def total(self) -> int:
        return len(self.remaining_elements)

    def max_pruned(self, method: AmountMethod) -> int:
        return max_prunable(method.max_sparsity, self.remaining, self.total)


def select_units(
    all_units: Sequence[Units], method: AmountMethod, monitor: Monitor
) -> list[Decision]:
    """Prune the k lowest-ranked units of each target, or of all targets together."""
    if method.ranking_scope == "global":
        with monitor.plan(sum(units.rank_bytes for units in all_units)):
            return _select_globally(all_units, method, monitor)
    return [_select_locally(units, method) for units in monitor.each(all_units)]


def _select_locally(units: Units, method: AmountMethod) -> Decision:
    """Compute the counts, if possible from shapes; units are ranked on first use."""
    k = count_units(method, units.remaining, units.total, units.label)
    possible = min(k, units.max_pruned(method))

    def rank_and_select() -> PrunedUnits:
        [lowest] = select_lowest(
            [units.remaining_elements], [units.ranks(Monitor())], [possible], possible
        )
        return lowest

    selected = Lazy(rank_and_select)
    if units.target.remaining_mask is None:
        elements = possible * int(units.remaining_elements.max(initial=0))
    else:
        elements = int(units.remaining_elements[selected().pruned].sum())
    note = cap_note(method.max_sparsity, k - possible) if k > possible else ""
    return Decision(units.predicate(selected), elements, note)


def _select_globally(
    all_units: Sequence[Units], method: AmountMethod, monitor: Monitor
) -> list[Decision]:
    remaining = sum(units.remaining for units in all_units)
    k = count_units(method, remaining, sum(units.total for units in all_units), all_targets)
    max_pruned = [units.max_pruned(method) for units in all_units]
    possible = min(k, sum(max_pruned))
    ranks = [units.ranks(monitor) for units in all_units]
    elements = [units.remaining_elements for units in all_units]
    decisions = []
    lowest = select_lowest(elements, ranks, max_pruned, possible)
    for units, own_max, selected in zip(all_units, max_pruned, lowest, strict=True):
        is_capped = method.max_sparsity < 1.0 and int(selected.pruned.sum()) == own_max
        note = cap_note(method.max_sparsity, k - possible) if is_capped else ""
        count = int(units.remaining_elements[selected.pruned].sum())
        decisions.append(Decision(units.predicate(Lazy.of_value(selected)), count, note))
    return decisions


def select_lowest(
    remaining: Sequence[Ints], ranks: Sequence[Values], max_pruned: Sequence[int], k: int
) -> list[PrunedUnits]:
    """Select the `k` lowest units of several sets of units, at most `max_pruned[i]` of set i.

    Of equal ranks, units of earlier sets are selected first, then those of lower index.
    """
    scores = [TensorScores.of(torch.from_numpy(own)) for own in ranks]
    dtype = ranking_dtype({own.dtype for own in scores})
    masks = [elements > 0 for elements in remaining]
    rankings = [
        Ranking(
            ScoreKeys(own, dtype),
            None if mask.all() else partial(_span, mask),
            None if limit == mask.sum() else limit,
        )
        for own, mask, limit in zip(scores, masks, max_pruned, strict=True)
    ]
    cuts = find_cuts_batched(rankings, k, Monitor())
    return [
        PrunedUnits(mark(ranking.keys, cut, 0, len(mask)) & mask, own, elements)
        for elements, own, ranking, mask, cut in zip(
            remaining, ranks, rankings, masks, cuts, strict=True
        )
    ]


def lowest_units(remaining: Ints, scores: Numbers, k: int, source: str) -> PrunedUnits:
    """Select the `k` lowest units of one set, with the name of the file of their scores."""
    [units] = select_lowest([remaining], [scores], [k], k)
    return replace(units, source=source)


def _span(mask: Flags, start: int, stop: int) -> Flags:
    return mask[start:stop]


def channel_units(
    target: Target, dim: int, rank: Callable[[Monitor], Values], rank_bytes: int = 0
) -> Units:
    """Return the channels of a target along a dimension."""
    return Units(
        target=target,
        label=lambda: tr("{name}, channels along dimension {dim}", name=target.name, dim=dim),
        remaining_elements=remaining_channels(target, dim),
        rank=rank,
        rank_bytes=rank_bytes,
        predicate=partial(ChannelCut, target.shape, dim),
    )


def remaining_channels(target: Target, dim: int) -> Ints:
    """Return the number of remaining elements per channel along `dim` >= 0, int64."""
    if target.remaining_mask is not None:
        return count_per_channel(target.shape, dim, target.remaining_mask)
    channels = target.shape[dim]
    return np.full(channels, target.size // channels)
