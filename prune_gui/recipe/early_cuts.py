"""Cuts that are computed at once on an executor, instead of on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.base import Decision, Target
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import spread
from prune_gui.pruning.predicates import Predicate, RowCut


def compute_cuts(
    decisions: Sequence[Decision], targets: Sequence[Target], monitor: Monitor
) -> None:
    """Compute the cuts of decisions that are not computed yet, one task per parameter.

    Args:
        decisions: the decision on each target.
        targets: the targets.
        monitor: gets the number of bytes read.

    Raises:
        Cancelled: the monitor is cancelled.
    """
    missing = [
        (lazy, target.weights.nbytes)
        for decision, target in zip(decisions, targets, strict=True)
        if (lazy := _cut_of(decision.predicate)) is not None and not lazy.is_computed
    ]
    monitor.expect(sum(nbytes for _, nbytes in missing))
    with monitor.in_charge():
        for (lazy, _), value in zip(missing, spread(_compute, missing, monitor), strict=True):
            lazy.set(value)


def _compute(task: tuple[Lazy[Any], int], monitor: Monitor) -> object:
    lazy, nbytes = task
    value = lazy()
    monitor.advance(nbytes)
    return value


def _cut_of(predicate: Predicate | None) -> Lazy[Any] | None:
    if isinstance(predicate, RowCut):
        return predicate.cuts
    return None if predicate is None else predicate.lazy
