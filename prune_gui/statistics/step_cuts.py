"""The cuts of steps in a parameter, as absolute weights or as scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from prune_gui.pruning.methods import LAMP_KINDS, ScoredMethod
from prune_gui.pruning.predicates import ElementCut
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.recipe.stack import AppliedStep
from prune_gui.statistics.score_histogram import ScoreHistogram


@dataclass(frozen=True, slots=True)
class StepCut:
    """The cut of a step in one parameter: it prunes the numbers below.

    Attributes:
        value: an absolute weight or a score.
        inclusive: whether the step prunes numbers that equal the value, or some of them.
        shared: the cut of all targets of the step, where `max_sparsity` stops the step before it in
            this parameter; None where both are the same.
    """

    value: float
    inclusive: bool = True
    shared: float | None = None


def weight_cuts(resolution: Resolution, name: str) -> dict[int, StepCut]:
    """Return the cut in the absolute weights of a parameter for each step that has one.

    Steps that do not rank by the absolute weight, and infinite cuts, are omitted.
    """
    cuts = {}
    for applied in resolution.layers.get(name, ()):
        if applied.step == IN_FILE:
            continue
        method = resolution.recipe.steps[applied.step - 1].method
        if isinstance(method, ScoredMethod) and method.ranks_weights:
            cut = _cut(resolution, name, applied, None)
            if cut is not None:
                cuts[applied.step] = cut
    return cuts


def score_cut(
    resolution: Resolution, name: str, step: int, histogram: ScoreHistogram
) -> StepCut | None:
    """Return the cut of a step in its own scores of a parameter; None if it has no finite cut."""
    [applied] = (one for one in resolution.layers[name] if one.step == step)
    return _cut(resolution, name, applied, histogram)


def _cut(
    resolution: Resolution, name: str, applied: AppliedStep, histogram: ScoreHistogram | None
) -> StepCut | None:
    """Return the finite cut of an applied step as a weight, or as a score with a histogram."""
    predicate = applied.predicate
    if not isinstance(predicate, ElementCut):
        return None
    cut, keys = predicate.cut(), predicate.ranking.keys

    def number(key: int) -> float:
        value = keys.value(key)
        return value if histogram is None else histogram.score_at(value)

    value = number(cut.threshold)
    if not math.isfinite(value):
        return None
    shared_key = _shared_threshold(resolution, applied.step)
    shared = None
    if shared_key is not None and shared_key > cut.threshold and math.isfinite(number(shared_key)):
        shared = number(shared_key)
    return StepCut(value, cut.last_tie >= 0, shared)


def _shared_threshold(resolution: Resolution, step: int) -> int | None:
    """Return the key at which a limited global step cuts the targets that it does not limit.

    None if there is no such key: without a limit, the cut of each target is that of all.
    """
    method, outcome = resolution.recipe.steps[step - 1].method, resolution.outcomes[step - 1]
    if (
        method.ranking_scope != "global"
        or method.score_kind in LAMP_KINDS  # no common weight or score
        or getattr(method, "max_sparsity", 1.0) == 1.0
    ):
        return None
    cuts = [one.cut() for one in outcome.predicates.values() if isinstance(one, ElementCut)]
    return max((cut.threshold for cut in cuts if cut.pruned), default=None)
