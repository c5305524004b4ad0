"""Conversion of a dragged cut to the setting of the draft's method that produces it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prune_gui.errors import StepError
from prune_gui.pruning.methods.base import Setting, UnitCounts
from prune_gui.pruning.methods.coupled import Coupled
from prune_gui.recipe.amounts import with_own_amount

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method
    from prune_gui.pruning.predicates import Predicate
    from prune_gui.recipe import Outcome, Resolution, Step
    from prune_gui.session.session import Session
    from prune_gui.statistics.element_scores import Scored
    from prune_gui.statistics.score_histogram import ScoreHistogram


@dataclass(frozen=True, slots=True, eq=False)
class DraggedAmount:
    """The draft whose cut is dragged, before the change."""

    session: Session
    step: Step
    shown: Resolution
    number: int
    name: str

    @property
    def method(self) -> Method:
        """The method of the draft, with the amount of the parameter if it has its own."""
        method, own = self.step.method, self._own_amount
        return method if own is None else method.with_one_amount(own)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that share one cut with `name`."""
        return self.targets if self.method.ranking_scope == "global" else (self.name,)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self._outcome.pruned)

    @property
    def before(self) -> Resolution | None:
        """The resolution of earlier steps, None if they changed. For quick jobs only."""
        return self.session.resolver.after(self.number - 1)

    @property
    def _outcome(self) -> Outcome:
        return self.shown.outcomes[self.number - 1]

    @property
    def _own_amount(self) -> int | float | None:
        return self._outcome.amounts.get(self.name)

    def for_parameter(self, setting: Setting) -> tuple[str, object]:
        """Return a setting of the amount as one of `amounts`, if the parameter has its own."""
        field, value = setting
        if field != "amount" or self._own_amount is None:
            return setting
        amounts = dict(self.step.method).get("amounts")
        return "amounts", with_own_amount(amounts, self.name, value)

    def predicate(self, name: str) -> Predicate | None:
        return self._outcome.predicates.get(name)


def field_for_weight(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return the setting that prunes the elements with an absolute weight of at most `value`."""
    return moved.method.setting_for_weight(_ElementCounts(moved, monitor), value)


def field_for_score(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return the setting that prunes the elements with a score of at most `value`."""
    return moved.method.setting_for_score(_ElementCounts(moved, monitor), value)


def field_for_rank(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return the setting that prunes the channels with a rank of at most `value`."""
    from prune_gui.pruning.predicates import ChannelCut  # torch: slow to import
    from prune_gui.statistics.channel_statistics import channels_up_to  # torch: slow to import

    monitor.advance()
    predicates = map(moved.predicate, moved.names)
    chosen = [predicate.chosen() for predicate in predicates if isinstance(predicate, ChannelCut)]
    if any(one.ranks is None for one in chosen):
        return None
    return "amount", moved.method.amount_for(channels_up_to(chosen, value))


def field_for_unit_score(
    moved: DraggedAmount, *, group: str, value: float, monitor: Monitor
) -> Setting | None:
    """Return the setting that prunes the units of a group with a score of at most `value`."""
    from prune_gui.statistics.channel_statistics import channels_up_to  # torch: slow to import
    from prune_gui.statistics.unit_statistics import ranked_groups  # torch: slow to import

    monitor.advance()
    method, ranked = moved.method, ranked_groups(moved.shown, moved.number)
    if not isinstance(method, Coupled) or group not in ranked:
        return None
    own = channels_up_to([ranked[group]], value)
    if method.scope == "local":
        return "amount", method.amount_for(own)
    every = channels_up_to(list(ranked.values()), value)
    if method.uniform:  # each group has its own cut, and loses as many units as the others
        every = every._replace(below=min(own.below * len(ranked), every.remaining))
    return "amount", method.amount_for(every)


FindSetting = Callable[..., Setting | None]
"""One of the functions above, called with the draft, `value` and `monitor`. It returns None if the
draft does not rank this quantity."""
FIELD_FOR: Final[Mapping[str, FindSetting]] = {
    "weight": field_for_weight,
    "score": field_for_score,
    "rank": field_for_rank,
    "unit_score": field_for_unit_score,
}
"""The function for each quantity of a `CutRequest`."""


@dataclass(frozen=True, slots=True, eq=False)
class _ElementCounts:
    """What a method may ask about the cut of the draft; see `DraggedCut`."""

    moved: DraggedAmount
    monitor: Monitor

    def up_to_weight(self, weight: float) -> UnitCounts | None:
        return self._up_to_weight(self.moved.names, weight)

    def up_to_score(self, score: float) -> UnitCounts:
        below = remaining = total = 0
        for name in self.moved.names:
            if (scored := self._scored(name)) is not None:
                histogram = self._histogram(name, scored)
                below += histogram.up_to(score)
                remaining += histogram.remaining
                total += scored.keys.size
        return UnitCounts(below, remaining, total)

    def own_up_to_weight(self, weight: float) -> UnitCounts | None:
        return self._up_to_weight((self.moved.name,), weight)

    def of_targets(self) -> UnitCounts | None:
        before = self.moved.before
        if before is None:
            return None
        counts = [before.counts[name] for name in self.moved.targets]
        total = sum(size for _, size in counts)
        return UnitCounts(0, total - sum(pruned for pruned, _ in counts), total)

    def own_pruned_with(self, **fields: object) -> int | None:
        before = self.moved.before
        if before is None:
            return None
        method = self.moved.method.model_copy(update=fields)
        step = self.moved.step.model_copy(update={"method": method})
        try:
            return before.with_step(step, self.monitor).outcomes[-1].pruned[self.moved.name]
        except StepError:
            return None

    def score_of(self, weight: float) -> float | None:
        name, scored = self.moved.name, self._scored(self.moved.name)
        return None if scored is None else self._histogram(name, scored).score_at(weight)

    def standard_deviation(self) -> float:
        from prune_gui.pruning.selection.keys import ScoreKeys  # torch: slow to import
        from prune_gui.pruning.selection.scores import standard_deviation

        scored = self._scored(self.moved.name)
        if scored is None or not isinstance(scored.keys, ScoreKeys):
            return math.nan
        return standard_deviation(scored.keys.scores, self.monitor)

    def _scored(self, name: str) -> Scored | None:
        from prune_gui.statistics.element_scores import scores_before  # torch: slow to import

        return scores_before(self.moved.shown, name, self.moved.number)

    def _histogram(self, name: str, scored: Scored) -> ScoreHistogram:
        return self.moved.session.score_histograms.found(name, scored, self.monitor)

    def _up_to_weight(self, names: Sequence[str], weight: float) -> UnitCounts | None:
        """Count the elements of some parameters with at most an absolute weight.

        The counting uses the keys of the draft's ranking, so that the draft finds its new cut from
        the same histograms.
        """
        from prune_gui.pruning.predicates import ElementCut  # torch: slow to import
        from prune_gui.pruning.selection.keys import ScoreKeys  # torch: slow to import
        from prune_gui.pruning.selection.radix_select import count_below

        predicates = map(self.moved.predicate, names)
        rankings = [one.ranking for one in predicates if isinstance(one, ElementCut)]
        keys = rankings[0].keys if rankings else None
        if not isinstance(keys, ScoreKeys):
            return None
        end_key = keys.first_key(math.nextafter(weight, math.inf))
        counts = count_below(rankings, end_key, self.monitor)
        return UnitCounts(
            sum(one.below for one in counts),
            sum(one.remaining for one in counts),
            sum(ranking.keys.size for ranking in rankings),
        )
