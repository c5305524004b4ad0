"""Sensitivity: what pruning one parameter or group at a time costs, as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Trial
    from prune_gui.session.evaluations.metric import Metric


@dataclass(frozen=True, slots=True)
class SensitivityRow:
    """What pruning one parameter or group costs.

    Attributes:
        label: its name.
        values: the metric at each amount; NaN where it failed or is not known yet.
        drops: how much worse than the dense value that is, at each amount; negative if better.
        errors: why an amount failed, or "".
    """

    label: str
    values: tuple[float, ...]
    drops: tuple[float, ...]
    errors: tuple[str, ...]


def sensitivity_rows(
    groups: Mapping[str, Sequence[str]],
    amounts: Sequence[float],
    trials: Sequence[Trial],
    dense: Evaluation,
    metric: Metric,
) -> list[SensitivityRow]:
    """Return a row for each group of a scan, in its order."""
    found = {(trial.label, trial.amount): trial for trial in trials}
    before = metric.value(dense)
    sign = 1 if metric.higher_is_better(dense) else -1
    rows = []
    for label in groups:
        own = [found.get((label, amount)) for amount in amounts]
        values = tuple(metric.value(each.evaluation) if each else math.nan for each in own)
        rows.append(
            SensitivityRow(
                label,
                values,
                tuple(sign * (before - value) for value in values),
                tuple(each.error if each else "" for each in own),
            )
        )
    return rows


def largest_drop(rows: Sequence[SensitivityRow]) -> float:
    """Return the largest finite drop; 0.0 if nothing is worse."""
    drops = (drop for row in rows for drop in row.drops if math.isfinite(drop))
    return max((*drops, 0.0))
