"""Conversion of a dragged cut to the field value that produces it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune_gui.errors import StepError
from prune_gui.pruning.methods.erk import Erk
from prune_gui.pruning.methods.lamp import Lamp
from prune_gui.pruning.methods.threshold import Threshold
from prune_gui.pruning.methods.unstructured import OverallMethod

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Resolution, Step
    from prune_gui.session import Session

Setting = tuple[str, float]
"""The name of a field of a method, and its value."""


@dataclass(frozen=True, slots=True, eq=False)
class DraggedAmount:
    """The draft whose cut is dragged, before the change.

    Attributes:
        session: the session of the draft.
        step: the draft.
        shown: the resolution that includes the draft.
        number: the number of the draft as a step, from 1.
        name: the parameter whose cut is dragged.
    """

    session: Session
    step: Step
    shown: Resolution
    number: int
    name: str

    @property
    def method(self) -> Method:
        """The method of the draft."""
        return self.step.method

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that share one cut with `name`."""
        every = tuple(self.shown.outcomes[self.number - 1].pruned)
        return every if as_one(self.method) else (self.name,)

    @property
    def before(self) -> Resolution | None:
        """The resolution of earlier steps, None if they changed. For the engine's thread only."""
        return self.session.resolver.after(self.number - 1)


def as_one(method: Method) -> bool:
    """Return whether a method has one cut for all its targets."""
    return isinstance(method, OverallMethod) or getattr(method, "scope", "") == "global"


def field_for_weight(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return the setting that prunes the elements with an absolute weight of at most `value`.

    LAMP and ERK have one amount for all parameters. Their setting prunes as many elements of this
    parameter as are below `value`.

    Raises:
        Cancelled: by the monitor.
    """
    from prune_gui.audit.statistics.scores import scores_before

    method = moved.method
    if isinstance(method, Threshold):
        return _threshold(moved, value, monitor)
    if isinstance(method, Lamp):
        scored = scores_before(moved.shown, moved.name, moved.number)
        if scored is None:
            return None
        score = moved.session.score_histograms.found(moved.name, scored, monitor).score_at(value)
        return field_for_score(moved, value=score, monitor=monitor)
    if isinstance(method, Erk):
        return _overall(moved, value, monitor)
    counted = _count_up_to(moved, moved.names, value, monitor)
    return ("amount", amount_for(method, *counted)) if counted else None


def field_for_score(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return the setting that prunes the elements with a score of at most `value`.

    It is exact to one group of the score histogram.

    Raises:
        Cancelled: by the monitor.
    """
    from prune_gui.audit.statistics.scores import scores_before

    if isinstance(moved.method, Threshold):
        return _threshold(moved, value, monitor)
    below = remaining = total = 0
    for name in moved.names:
        scored = scores_before(moved.shown, name, moved.number)
        if scored is not None:
            histogram = moved.session.score_histograms.found(name, scored, monitor)
            below += histogram.up_to(value)
            remaining += histogram.remaining
            total += scored.keys.size
    return "amount", amount_for(moved.method, below, remaining, total)


def field_for_rank(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return the setting that prunes the channels with a rank of at most `value`.

    None if the draft does not rank channels.

    Raises:
        Cancelled: by the monitor.
    """
    from prune_gui.audit.statistics.norms import channels_up_to
    from prune_gui.pruning.predicates import ChannelCut

    monitor.advance()
    predicates = moved.shown.outcomes[moved.number - 1].predicates
    of_targets = [predicates[name] for name in moved.names if name in predicates]
    chosen = [predicate.chosen() for predicate in of_targets if isinstance(predicate, ChannelCut)]
    if any(one.ranks is None for one in chosen):
        return None
    return "amount", amount_for(moved.method, *channels_up_to(chosen, value))


def amount_for(method: Method, below: int, remaining: int, total: int) -> int | float:
    """Return the amount with which `method` prunes the `below` lowest units.

    It is a number of units if the current amount of the method is one, else a share.

    Args:
        method: defines by `amount_of` what a share refers to.
        below: number of units to prune.
        remaining: number of units that no earlier step pruned.
        total: number of all units.
    """
    amount_of = getattr(method, "amount_of", "remaining")
    units = total - remaining + below if amount_of == "reach" else below
    if isinstance(getattr(method, "amount", None), int):
        return units
    whole = remaining if amount_of == "remaining" else total
    return units / whole if whole else 0.0


def _count_up_to(
    moved: DraggedAmount, names: Sequence[str], value: float, monitor: Monitor
) -> tuple[int, int, int] | None:
    """Return the numbers of elements with at most an absolute weight, of remaining and of all ones.

    The counting uses the keys of the draft's ranking, so that the draft finds its new cut from the
    same histograms. Returns None if the draft does not rank weights.

    Args:
        moved: the draft.
        names: parameters that share one cut.
        value: the absolute weight.
        monitor: receives the number of bytes read.
    """
    from prune_gui.pruning.predicates import ElementCut
    from prune_gui.pruning.selection.keys import ScoreKeys
    from prune_gui.pruning.selection.radix_select import count_below

    predicates = [moved.shown.outcomes[moved.number - 1].predicates.get(name) for name in names]
    rankings = [one.ranking for one in predicates if isinstance(one, ElementCut)]
    keys = rankings[0].keys if rankings else None
    if not isinstance(keys, ScoreKeys):
        return None
    end_key = keys.first_key(math.nextafter(value, math.inf))
    counts = count_below(rankings, end_key, monitor)
    size = sum(ranking.keys.size for ranking in rankings)
    return sum(one.below for one in counts), sum(one.there for one in counts), size


def _threshold(moved: DraggedAmount, value: float, monitor: Monitor) -> Setting | None:
    """Return the threshold setting for a score, in standard deviations if the method uses them."""
    from prune_gui.pruning.methods.threshold import standard_deviation
    from prune_gui.pruning.predicates import ElementCut
    from prune_gui.pruning.selection.keys import ScoreKeys

    method = moved.method
    predicate = moved.shown.outcomes[moved.number - 1].predicates.get(moved.name)
    if not isinstance(method, Threshold) or not isinstance(predicate, ElementCut):
        return None
    keys = predicate.ranking.keys
    if method.relative_to == "std" and isinstance(keys, ScoreKeys):
        value /= standard_deviation(keys.scores, monitor) or 1.0
    return "value", float(f"{value:.6g}")  # 6 significant digits


def _overall(moved: DraggedAmount, value: float, monitor: Monitor) -> Setting | None:
    """Return the amount for all targets that prunes the elements of `moved.name` up to `value`.

    The amount is found by bisection over the number of units.
    """
    before, counted = moved.before, _count_up_to(moved, (moved.name,), value, monitor)
    if before is None or counted is None:
        return None
    wanted, _, _ = counted
    counts = [before.counts[name] for name in moved.names]
    remaining, total = sum(n - pruned for pruned, n in counts), sum(n for _, n in counts)

    def pruned(units: int) -> int:
        update = {"amount": units, "amount_of": "remaining"}
        method = moved.method.model_copy(update=update)
        try:
            trial = before.with_step(moved.step.model_copy(update={"method": method}), monitor)
        except StepError:
            return remaining + 1  # too many units for the step: larger than any wanted count
        return trial.outcomes[-1].pruned[moved.name]

    units = max(0, bisect_right(range(remaining + 1), wanted, key=pruned) - 1)
    return "amount", amount_for(moved.method, units, remaining, total)
