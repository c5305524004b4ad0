"""The scores by which a method ranks the elements of a target."""

from __future__ import annotations

from typing import Final

from prune_gui.pruning.decisions.base import Target
from prune_gui.pruning.methods.base import ScoredMethod
from prune_gui.pruning.selection.row_column_scores import RIA, Formula, RowColumnScores, balanced
from prune_gui.pruning.selection.scores import ScaledColumns, Scores, WeightDelta

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
