"""One step at several amounts: what each would prune, and how much of the energy it would keep."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from prune_gui.audit.statistics.layer_rows import grouping, rows_of
from prune_gui.audit.statistics.layers import LayerStatistics, compute, empty_statistics
from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError, StepError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution
from prune_gui.recipe.amounts import Amount, with_amount
from prune_gui.session.resolver import Resolver


@dataclass(frozen=True, slots=True)
class SweepRow:
    """What a recipe comes to with one amount in one of its steps.

    Attributes:
        amount: of that step.
        pruned: entries, of all parameters that can be pruned.
        total: their entries.
        kept_energy: which share of the sum of the squares of their finite weights is kept; NaN if
            that sum is zero or infinite.
        nearly_empty: how many parameters have next to nothing left.
        error: why it cannot be carried out, or ""; the figures mean nothing then.
    """

    amount: Amount
    pruned: int = 0
    total: int = 0
    kept_energy: float = math.nan
    nearly_empty: int = 0
    error: str = ""

    @property
    def sparsity(self) -> float:
        """The share that is pruned."""
        return self.pruned / self.total if self.total else 0.0


class Sweep:
    """Tries amounts of one step; what comes before that step is resolved once.

    Of parameters that an amount prunes as the one before did, no weight is read again. Not for use
    from two threads at once: it belongs to the engine.

    Args:
        resolver: of the checkpoint.
        recipe: with the step, and whatever comes before and after it.
        number: of the step, from 1.
    """

    def __init__(self, resolver: Resolver, recipe: Recipe, number: int) -> None:
        self._resolver = resolver
        self._recipe = recipe
        self._number = number
        self._before: Resolution | None = None
        self._survey: LayerStatistics | None = None

    def row(self, amount: Amount, monitor: Monitor) -> SweepRow:
        """Return what an amount comes to. Nothing is written.

        Raises:
            StepError: an earlier step cannot be carried out, whatever the amount.
            Cancelled: the monitor said so.
        """
        if self._before is None:
            self._before = self._resolve_before(monitor)
        step, *later = self._recipe.steps[self._number - 1 :]
        try:
            resolution = self._before.with_step(with_amount(step, amount), monitor)
            for one in later:
                resolution = resolution.with_step(one, monitor)
        except RecipeError as error:
            return SweepRow(amount, error=str(error))
        self._survey = compute(empty_statistics(resolution, self._survey), lambda _: True, monitor)
        return _row(amount, self._survey)

    def _resolve_before(self, monitor: Monitor) -> Resolution:
        """Resolve the whole recipe, which is known as a rule, so that the resolver forgets none."""
        with suppress(StepError):  # of the step itself or a later one: the amount may mend that
            self._resolver.resolve(self._recipe, monitor)
        before = self._resolver.after(self._number - 1)
        if before is None:
            earlier = self._recipe.with_steps(self._recipe.steps[: self._number - 1])
            before = self._resolver.resolve(earlier, monitor)
        return before


def sweep(
    recipe: Recipe, checkpoint: Checkpoint, number: int, amounts: Iterable[Amount], monitor: Monitor
) -> list[SweepRow]:
    """Return what a recipe comes to with each of some amounts in its step `number`, from 1.

    Raises:
        StepError: an earlier step cannot be carried out, whatever the amount.
        Cancelled: the monitor said so.
    """
    trial = Sweep(Resolver(checkpoint), recipe, number)
    return [trial.row(amount, monitor) for amount in amounts]


def _row(amount: Amount, statistics: LayerStatistics) -> SweepRow:
    rows = rows_of(statistics, grouping(statistics.infos, None))
    kept, energy = float(rows.kept.sum()), float(rows.energy.sum())
    known = 0 < energy < math.inf
    return SweepRow(
        amount,
        int(rows.pruned.sum()),
        int(rows.total.sum()),
        kept / energy if known else math.nan,
        int(rows.nearly_empty.sum()),
    )
