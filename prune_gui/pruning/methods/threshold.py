"""Pruning below a fixed threshold, whatever share of a parameter that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, predicates, selection
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.base import DraggedCut, ScoredMethod, Setting
from prune_gui.pruning.methods.fields import FieldText

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target
    from prune_gui.pruning.selection.scores import Scores

SIGNIFICANT_DIGITS: Final = 6
"""Digits of a threshold that was dragged."""


def _reject_bool(value: object) -> object:
    if isinstance(value, bool):
        # pydantic reports a ValueError as invalid input, but propagates a TypeError
        raise ValueError(tr("a threshold is a number"))  # noqa: TRY004
    return value


class Threshold(ScoredMethod):
    """Prune the weights whose absolute value or score is below a threshold.

    That is |score| < value, compared as real numbers whatever the type of the scores. Relative to
    std it is |score| < value * s, where s is the standard deviation of all finite scores x of the
    tensor, pruned earlier or not: s^2 = sum of (x - mean)^2 / (N - 1), as `torch.std` has it; Han
    et al., "Learning both Weights and Connections for Efficient Neural Networks", 2015. NaN and
    infinity are kept.
    """

    name = "threshold"
    title = deferred("Threshold")

    value: Annotated[
        float,
        BeforeValidator(_reject_bool),
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description=deferred("Weights with a smaller absolute value are pruned."),
        ),
        FieldText(label=deferred("&Below"), position=2, show=deferred("below {value}")),
    ]
    relative_to: Annotated[
        Literal["absolute", "std"],
        Field(
            description=deferred(
                "absolute: the value itself; std: a multiple of the standard deviation of the "
                "tensor."
            )
        ),
        FieldText(
            label=deferred("Relative to"),
            choices={
                "absolute": deferred("absolute: the value itself"),
                "std": deferred("std: standard deviations of the tensor"),
            },
            values={"std": deferred("in standard deviations")},
        ),
    ] = "absolute"

    def setting_for_weight(self, cut: DraggedCut, weight: float) -> Setting:
        return self.setting_for_score(cut, weight)

    def setting_for_score(self, cut: DraggedCut, score: float) -> Setting:
        if self.relative_to == "std":
            score /= cut.standard_deviation() or 1.0
        return "value", float(f"{score:.{SIGNIFICANT_DIGITS}g}")

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        scores = [decisions.target_scores(self, target) for target in targets]
        total_work = sum(selection.work(selection.ScoreKeys.of(own)) for own in scores)
        if self.relative_to == "std":
            total_work += sum(own.nbytes for own in scores)
        with monitor.plan(total_work):
            return [
                self._decide(target, own, monitor)
                for target, own in zip(targets, scores, strict=True)
            ]

    def _decide(self, target: Target, scores: Scores, monitor: Monitor) -> Decision:
        value = self.value
        if self.relative_to == "std":
            deviation = selection.standard_deviation(scores, monitor)
            if not math.isfinite(deviation):
                raise RecipeError(
                    "{name} has no standard deviation: at least two finite weights are "
                    "required, and no square may overflow. Set relative_to to absolute, or "
                    "leave it out of the targets.",
                    name=target.name,
                )
            value *= deviation
        keys = selection.ScoreKeys.of(scores)
        ranking = selection.Ranking(
            keys, target.remaining_mask, histogram_cache=target.histogram_cache
        )
        threshold = keys.first_key(value)
        [counts] = selection.count_below([ranking], threshold, monitor)
        cut = Lazy.of_value(selection.Cut(threshold, -1, counts.below, counts.non_finite))
        return decisions.Decision(predicates.ElementCut(ranking, cut), counts.below)
