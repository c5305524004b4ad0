"""A sweep over the amounts of one step: pruned elements and kept energy per amount."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from prune_gui.errors import RecipeError, StepError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution
from prune_gui.recipe.amounts import Amount, with_amount
from prune_gui.recipe.resolver import Resolver
from prune_gui.statistics.layer_rows import grouping, rows_of
from prune_gui.statistics.layer_statistics import LayerStatistics, compute, empty_statistics
from prune_gui.statistics.losses import energy_share


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The result of a recipe with one amount in one of its steps.

    Attributes:
        kept_energy: kept share of the sum of squares of their finite weights, in [0, 1]; NaN if
            that sum is zero or infinite.
        target_energy: as `kept_energy`, of the targets of that step only.
        worst: name of that target; "" if there is none.
        error: why the recipe cannot be carried out, or ""; with an error, the other fields are not
            set.
    """

    amount: Amount
    pruned: int = 0
    total: int = 0
    kept_energy: float = math.nan
    target_energy: float = math.nan
    worst_energy: float = math.nan
    worst: str = ""
    nearly_empty: int = 0
    error: str = ""

    @property
    def sparsity(self) -> float:
        return self.pruned / self.total if self.total else 0.0


class Sweep:
    """Tries amounts of one step; the steps before it are resolved once.

    Weights of a parameter are read again only if an amount prunes it differently from the amount
    before. Not thread-safe.
    """

    def __init__(self, resolver: Resolver, recipe: Recipe, number: int) -> None:
        self._resolver = resolver
        self._recipe = recipe
        self._number = number
        self._before: Resolution | None = None
        self._statistics: LayerStatistics | None = None

    def row(self, amount: Amount, monitor: Monitor) -> SweepRow:
        """Return the result for an amount. No file is written."""
        if self._before is None:
            self._before = self._resolve_before(monitor)
        step, *later = self._recipe.steps[self._number - 1 :]
        try:
            resolution = self._before.with_step(with_amount(step, amount), monitor)
            for one in later:
                resolution = resolution.with_step(one, monitor)
        except RecipeError as error:
            return SweepRow(amount, error=str(error))
        self._statistics = compute(
            empty_statistics(resolution, self._statistics), lambda _: True, monitor
        )
        targets = resolution.outcomes[self._number - 1].pruned
        return _row(amount, self._statistics, targets)

    def _resolve_before(self, monitor: Monitor) -> Resolution:
        """Return the resolution before the step.

        This resolves the whole recipe, usually from the cache, since resolving fewer steps makes
        the resolver drop the later ones.
        """
        with suppress(StepError):  # the step itself or a later one failed: another amount may not
            self._resolver.resolve(self._recipe, monitor)
        before = self._resolver.after(self._number - 1)
        if before is None:
            earlier = self._recipe.with_steps(self._recipe.steps[: self._number - 1])
            before = self._resolver.resolve(earlier, monitor)
        return before


def _row(amount: Amount, statistics: LayerStatistics, targets: Collection[str]) -> SweepRow:
    rows = rows_of(statistics, grouping(statistics.infos, None))
    is_target = np.array([name in targets for name in rows.names], np.bool_)
    shares = np.where(is_target, rows.kept_share, np.nan)
    worst = int(np.nanargmin(shares)) if np.isfinite(shares).any() else None
    return SweepRow(
        amount,
        *statistics.resolution.total,
        float(energy_share(rows.kept.sum(), rows.energy.sum())),
        float(energy_share(rows.kept[is_target].sum(), rows.energy[is_target].sum())),
        math.nan if worst is None else float(shares[worst]),
        "" if worst is None else rows.names[worst],
        int(rows.nearly_empty.sum()),
    )
