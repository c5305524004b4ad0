"""The decision of `Balanced`."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import decide_scored, row_column_scores
from prune_gui.pruning.decisions.lamp import decide_lamp
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.layer_adaptive import Balanced
from prune_gui.pruning.selection.row_column_scores import balanced


def decide(method: Balanced, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Rank the elements by balanced score, or by the LAMP scores of these."""
    formula = balanced(method.row_power, method.column_power)
    scores = [row_column_scores(target, formula) for target in targets]
    decide_by = decide_lamp if method.over == "lamp" else decide_scored
    return decide_by(method, targets, scores, monitor)
