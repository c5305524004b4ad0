"""From a cut that was dragged to the field of the form that makes it."""

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
"""A field of a method, and its value."""


@dataclass(frozen=True, slots=True, eq=False)
class DraggedAmount:
    """The draft whose cut was dragged.

    Attributes:
        session: whose draft it is.
        step: the draft.
        shown: what it comes to, as it is.
        number: it has as a step.
        name: the parameter whose cut was dragged.
    """

    session: Session
    step: Step
    shown: Resolution
    number: int
    name: str

    @property
    def method(self) -> Method:
        """The draft's method."""
        return self.step.method

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are cut as one with it."""
        every = tuple(self.shown.outcomes[self.number - 1].pruned)
        return every if as_one(self.method) else (self.name,)

    @property
    def before(self) -> Resolution | None:
        """What earlier steps came to; None if they changed meanwhile. On the engine's thread."""
        return self.session.resolver.after(self.number - 1)


def as_one(method: Method) -> bool:
    """Tell whether a method cuts its targets as one."""
    return isinstance(method, OverallMethod) or getattr(method, "scope", "") == "global"


def field_for_weight(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return what prunes the entries of at most this absolute weight.

    For LAMP and ERK, which cut all parameters by an amount of all, it prunes so many of this one.

    Raises:
        Cancelled: the monitor said so.
    """
    from prune_gui.audit.statistics.scores import found_by

    method = moved.method
    if isinstance(method, Threshold):
        return _threshold(moved, value, monitor)
    if isinstance(method, Lamp):
        scored = found_by(moved.shown, moved.name, moved.number)
        if scored is None:
            return None
        score = moved.session.score_histograms.found(moved.name, scored, monitor).score_at(value)
        return field_for_score(moved, value=score, monitor=monitor)
    if isinstance(method, Erk):
        return _overall(moved, value, monitor)
    counted = _up_to(moved, moved.names, value, monitor)
    return ("amount", amount_for(method, *counted)) if counted else None


def field_for_score(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return what prunes the entries of at most this score, to the width of a group of scores.

    Raises:
        Cancelled: the monitor said so.
    """
    from prune_gui.audit.statistics.scores import found_by

    if isinstance(moved.method, Threshold):
        return _threshold(moved, value, monitor)
    below = remaining = total = 0
    for name in moved.names:
        scored = found_by(moved.shown, name, moved.number)
        if scored is not None:
            found = moved.session.score_histograms.found(name, scored, monitor)
            below += found.up_to(value)
            remaining += found.remaining
            total += scored.keys.size
    return "amount", amount_for(moved.method, below, remaining, total)


def field_for_rank(moved: DraggedAmount, *, value: float, monitor: Monitor) -> Setting | None:
    """Return what prunes the channels of at most this rank; None if the draft ranks none by now.

    Raises:
        Cancelled: the monitor said so.
    """
    from prune_gui.audit.statistics.norms import channels_up_to
    from prune_gui.pruning.predicates import ChannelCut

    monitor.advance()
    predicates = moved.shown.outcomes[moved.number - 1].predicates
    found = [predicates[name] for name in moved.names if name in predicates]
    every = [predicate.chosen() for predicate in found if isinstance(predicate, ChannelCut)]
    if any(chosen.ranks is None for chosen in every):
        return None
    return "amount", amount_for(moved.method, *channels_up_to(every, value))


def amount_for(method: Method, below: int, remaining: int, total: int) -> int | float:
    """Return the amount with which `method` prunes the `below` lowest units.

    It is a number of units if the method's own amount is one, else a share.

    Args:
        method: says what its amount is a share of.
        below: units that are to go.
        remaining: units that no earlier step pruned.
        total: all units.
    """
    amount_of = getattr(method, "amount_of", "remaining")
    units = total - remaining + below if amount_of == "reach" else below
    if isinstance(getattr(method, "amount", None), int):
        return units
    every = remaining if amount_of == "remaining" else total
    return units / every if every else 0.0


def _up_to(
    moved: DraggedAmount, names: Sequence[str], value: float, monitor: Monitor
) -> tuple[int, int, int] | None:
    """Return how many entries have at most an absolute weight, of how many still there, and of all.

    They are counted as the draft ranks them: then it finds its new cut in the same counts.

    Args:
        moved: a draft that ranks weights; None is returned of any other.
        names: parameters that it cuts as one.
        value: the absolute weight.
        monitor: told of the bytes read.
    """
    from prune_gui.pruning.predicates import ElementCut
    from prune_gui.pruning.selection.keys import ScoreKeys
    from prune_gui.pruning.selection.radix_select import count_below

    predicates = [moved.shown.outcomes[moved.number - 1].predicates.get(name) for name in names]
    rankings = [one.ranking for one in predicates if isinstance(one, ElementCut)]
    keys = rankings[0].keys if rankings else None
    if not isinstance(keys, ScoreKeys):
        return None
    beyond = keys.first_key(math.nextafter(value, math.inf))
    counted = count_below(rankings, beyond, monitor)
    size = sum(ranking.keys.size for ranking in rankings)
    return sum(one.below for one in counted), sum(one.there for one in counted), size


def _threshold(moved: DraggedAmount, value: float, monitor: Monitor) -> Setting | None:
    """Return the threshold at a score, in standard deviations if it is given in those."""
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
    return "value", float(f"{value:.6g}")  # as many digits as a person would type, and more


def _overall(moved: DraggedAmount, value: float, monitor: Monitor) -> Setting | None:
    """Return the amount of all targets with which the parameter loses what is at most `value`."""
    before, counted = moved.before, _up_to(moved, (moved.name,), value, monitor)
    if before is None or counted is None:
        return None
    wanted, _, _ = counted
    counts = [before.counts[name] for name in moved.names]
    remaining, total = sum(n - pruned for pruned, n in counts), sum(n for _, n in counts)

    def pruned(units: int) -> int:
        update = {"amount": units, "amount_of": "remaining"}
        method = moved.method.model_copy(update=update)
        try:
            tried = before.with_step(moved.step.model_copy(update={"method": method}), monitor)
        except StepError:
            return remaining + 1  # too many for the step: more than is wanted in any case
        return tried.outcomes[-1].pruned[moved.name]

    units = max(0, bisect_right(range(remaining + 1), wanted, key=pruned) - 1)
    return "amount", amount_for(moved.method, units, remaining, total)
