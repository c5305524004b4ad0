"""The scores by which a method ranks the elements of a target."""

from __future__ import annotations

from prune_gui.pruning.decisions.base import Target
from prune_gui.pruning.methods.base import ScoredMethod
from prune_gui.pruning.selection.scores import ScaledColumns, Scores, WeightDelta


def target_scores(method: ScoredMethod, target: Target) -> Scores:
    """Return the scores of a target, whose absolute values rank its elements.

    Raises:
        RecipeError: a file cannot be opened, or has no tensor for the target.
    """
    if method.moved_from is not None:
        return WeightDelta(target.weights, target.other(method.moved_from, "weights"))
    if method.importance is None:
        return target.weights
    given = target.other(method.importance, "scores")
    return given if given.shape == target.shape else ScaledColumns(target.weights, given)
