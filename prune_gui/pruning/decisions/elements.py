"""Cuts through the ranked elements of a row, a target, or all targets, and what they rank by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from prune_gui.language import tr
from prune_gui.monitor import Monitor
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
from prune_gui.pruning.predicates import ElementCut, RowCut, count_per_channel
from prune_gui.pruning.selection.batched import find_cuts_batched
from prune_gui.pruning.selection.keys import KeySource, Ranking, ScoreKeys, ranking_dtype
from prune_gui.pruning.selection.lamp_cuts import find_lamp_cuts
from prune_gui.pruning.selection.radix_select import Cut, RowShape, find_cuts, find_row_cuts
from prune_gui.pruning.selection.row_column_scores import RIA, Formula, RowColumnScores, balanced
from prune_gui.pruning.selection.scores import ScaledColumns, Scores, WeightDelta

if TYPE_CHECKING:
    from prune_gui.pruning.methods.base import ScoredMethod


def decide_scored(
    method: AmountMethod, targets: Sequence[Target], scores: Sequence[Scores], monitor: Monitor
) -> list[Decision]:
    """Rank the elements by absolute score; see `decide_ranked`."""
    if method.ranking_scope == "global":
        shared_dtype = ranking_dtype({own.dtype for own in scores})
        keys = [ScoreKeys(own, shared_dtype) for own in scores]
    else:
        keys = [ScoreKeys.of(own) for own in scores]
    return decide_ranked(method, targets, keys, monitor)


def decide_ranked(
    method: AmountMethod, targets: Sequence[Target], keys: Sequence[KeySource], monitor: Monitor
) -> list[Decision]:
    """Cut each row, each target, or all targets together after the k-th smallest key."""
    rankings = rankings_of(method, targets, keys)
    if method.ranking_scope == "global":
        return _cut_together(method, targets, rankings, find_cuts_batched, monitor)
    cut = _cut_rows if method.ranking_scope == "row" else _cut_one
    pairs = monitor.each(zip(targets, rankings, strict=True))
    return [cut(method, target, ranking) for target, ranking in pairs]


def decide_lamp(
    method: AmountMethod, targets: Sequence[Target], scores: Sequence[Scores], monitor: Monitor
) -> list[Decision]:
    """Cut each target so that the k smallest LAMP scores of all targets are pruned."""
    rankings = rankings_of(method, targets, list(map(ScoreKeys.of, scores)))
    return _cut_together(method, targets, rankings, find_lamp_cuts, monitor)


def _cut_together(
    method: AmountMethod,
    targets: Sequence[Target],
    rankings: Sequence[Ranking],
    find: Callable[[Sequence[Ranking], int, Monitor], list[Cut]],
    monitor: Monitor,
) -> list[Decision]:
    k = count_overall(method, targets)
    possible = min(k, sum(map(prunable_count, targets, rankings)))
    cuts = find(rankings, possible, monitor)
    return [
        _decision(method, target, ranking, Lazy.of_value(cut), cut.pruned, k - possible)
        for target, ranking, cut in zip(targets, rankings, cuts, strict=True)
    ]


def _cut_one(method: AmountMethod, target: Target, ranking: Ranking) -> Decision:
    """Compute the count from the shape alone; the cut is computed on first use."""
    k = count_units(method, target.remaining, target.size, target.name)
    possible = min(k, prunable_count(target, ranking))
    return cut_lazily(method, target, ranking, possible, missing=k - possible)


def _cut_rows(method: AmountMethod, target: Target, ranking: Ranking) -> Decision:
    shape = RowShape(1, 1, target.size)
    if len(target.shape) > 1:
        shape = RowShape(*target.layout.around(target.layout.output_dim, target.shape))
    if target.remaining_mask is None:
        row_remaining = np.full(shape.rows, shape.columns)
    else:
        row_remaining = count_per_channel(shape, 1, target.remaining_mask)
    requested, units = 0, row_remaining.copy()
    for remaining in np.unique(row_remaining).tolist():
        k = count_units(
            method, remaining, shape.columns, lambda: tr("A row of {name}", name=target.name)
        )
        equal_rows = row_remaining == remaining
        units[equal_rows] = min(k, max_prunable(method.max_sparsity, remaining, shape.columns))
        requested += k * int(equal_rows.sum())
    possible = int(units.sum())
    missing = requested - possible
    cuts = Lazy(partial(find_row_cuts, ranking, units, shape))
    note = cap_note(method.max_sparsity, missing) if missing else ""
    return Decision(RowCut(ranking, shape, cuts), possible, note)


def rankings_of(
    method: AmountMethod, targets: Sequence[Target], keys: Sequence[KeySource]
) -> list[Ranking]:
    """Return a ranking per target, with its limit under `max_sparsity`."""
    limit = method.max_sparsity
    return [
        Ranking(
            key,
            target.remaining_mask,
            None if limit == 1.0 else max_prunable(limit, target.remaining, target.size),
            target.histogram_cache,
        )
        for target, key in zip(targets, keys, strict=True)
    ]


def prunable_count(target: Target, ranking: Ranking) -> int:
    """Return how many elements of a target may be pruned."""
    return target.remaining if ranking.max_pruned is None else ranking.max_pruned


def count_overall(method: AmountMethod, targets: Sequence[Target]) -> int:
    """Return the number of elements to prune of all targets together."""
    remaining = sum(target.remaining for target in targets)
    return count_units(method, remaining, sum(target.size for target in targets), all_targets)


def cut_lazily(
    method: AmountMethod, target: Target, ranking: Ranking, k: int, *, missing: int
) -> Decision:
    """Prune the `k` lowest-ranked elements of a target; the cut is computed on first use."""
    return _decision(method, target, ranking, Lazy(partial(_find_cut, ranking, k)), k, missing)


def _find_cut(ranking: Ranking, k: int) -> Cut:
    [cut] = find_cuts([ranking], k, Monitor())
    return cut


def _decision(
    method: AmountMethod,
    target: Target,
    ranking: Ranking,
    cut: Lazy[Cut],
    pruned: int,
    missing: int,
) -> Decision:
    is_capped = method.max_sparsity < 1.0 and pruned == ranking.max_pruned and target.remaining
    note = cap_note(method.max_sparsity, missing) if is_capped else ""
    return Decision(ElementCut(ranking, cut), pruned, note)


FORMULAS: Final = {"balanced": balanced(), "ria": RIA}
"""The formulas of the field `score`; "magnitude" has none."""


def target_scores(method: ScoredMethod, target: Target) -> Scores:
    """Return the scores of a target, whose absolute values rank its elements."""
    if method.score in FORMULAS:
        return row_column_scores(target, FORMULAS[method.score])
    if method.moved_from is not None:
        return WeightDelta(target.weights, target.other(method.moved_from, "weights"))
    if method.importance is None:
        return target.weights
    given = target.other(method.importance, "scores")
    if given.shape == target.shape:
        return given
    return ScaledColumns(target.weights, given, target.layout.input_dim)


def row_column_scores(target: Target, formula: Formula) -> Scores:
    """Return weights relative to rows and columns; of fewer than two dimensions, the weights."""
    if len(target.shape) < 2:  # there are no columns
        return target.weights
    return RowColumnScores(
        target.weights, target.remaining_mask, formula, target.layout, target.histogram_cache
    )
