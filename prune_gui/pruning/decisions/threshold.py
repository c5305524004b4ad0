"""The decision of `Threshold`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import target_scores
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.threshold import Threshold
from prune_gui.pruning.predicates import ElementCut
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut, count_below, work
from prune_gui.pruning.selection.scores import Scores, standard_deviation


def decide(method: Threshold, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Cut each target at the threshold, and count the elements below it."""
    scores = [target_scores(method, target) for target in targets]
    total_work = sum(work(ScoreKeys.of(own)) for own in scores)
    if method.relative_to == "std":
        total_work += sum(own.nbytes for own in scores)
    with monitor.plan(total_work):
        return [
            _decide(method, target, own, monitor)
            for target, own in zip(targets, scores, strict=True)
        ]


def _decide(method: Threshold, target: Target, scores: Scores, monitor: Monitor) -> Decision:
    value = method.value
    if method.relative_to == "std":
        deviation = standard_deviation(scores, monitor)
        if not math.isfinite(deviation):
            raise RecipeError(
                tr(
                    "{name} has no standard deviation: at least two finite weights are required, "
                    "and no square may overflow. Set relative_to to absolute, or leave it out of "
                    "the targets.",
                    name=target.name,
                )
            )
        value *= deviation
    keys = ScoreKeys.of(scores)
    ranking = Ranking(keys, target.remaining_mask, histogram_cache=target.histogram_cache)
    threshold = keys.first_key(value)
    [counts] = count_below([ranking], threshold, monitor)
    cut = Lazy.of_value(Cut(threshold, -1, counts.below, counts.non_finite))
    return Decision(ElementCut(ranking, cut), counts.below)
