"""Cuts that are computed at once on an executor, instead of on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.parallel import spread
from prune_gui.pruning.predicates import Predicate, RowCut
from prune_gui.pruning.predicates.element_cuts import ElementCut
from prune_gui.pruning.predicates.unit_cuts import BlockCut, ChannelCut, PrunedUnits
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.rows import RowCuts


def compute_cuts(
    decisions: Sequence[Decision], targets: Sequence[Target], monitor: Monitor
) -> None:
    """Compute the cuts of decisions that are not computed yet, one task per parameter.

    Args:
        monitor: gets the number of bytes read.
    """
    found = [
        (decision.predicate, (lazy, target.weights.nbytes))
        for decision, target in zip(decisions, targets, strict=True)
        if (lazy := _cut_of(decision.predicate)) is not None and not lazy.is_computed
    ]
    missing = [task for _, task in found]
    monitor.expect(sum(nbytes for _, nbytes in missing))
    with monitor.in_charge():
        values = spread(_compute, missing, monitor)
        for (predicate, (lazy, _)), value in zip(found, values, strict=True):
            if not _fits(predicate, value):
                raise ValueError("a cut of another parameter")
            lazy.set(value)


def _fits(predicate: Predicate | None, value: object) -> bool:
    """Return whether a value has the form of the cut: compiled loops trust the lengths."""
    match predicate, value:
        case (ElementCut(), Cut()):
            return True
        case (RowCut() as row, RowCuts(thresholds=thresholds, last_ties=last_ties)):
            rows = row.shape.rows
            is_key = thresholds.dtype == row.ranking.keys.bits(0, 0).dtype
            return is_key and len(thresholds) == len(last_ties) == rows
        case (ChannelCut() as channels, PrunedUnits(pruned=pruned)):
            return len(pruned) == channels.shape[channels.dim]
        case (BlockCut() as block, PrunedUnits(pruned=pruned)):
            return len(pruned) == block.blocks.down * block.blocks.across
    return False


def _compute(task: tuple[Lazy[Any], int], monitor: Monitor) -> object:
    lazy, nbytes = task
    value = lazy()
    monitor.advance(nbytes)
    return value


def _cut_of(predicate: Predicate | None) -> Lazy[Any] | None:
    if isinstance(predicate, RowCut):
        return predicate.cuts
    return None if predicate is None else predicate.lazy
