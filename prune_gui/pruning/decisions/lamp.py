"""The decision of `Lamp`."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import (
    ElementAmount,
    count_batched,
    cut_batched,
    rankings_of,
    target_scores,
)
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.layer_adaptive import Lamp
from prune_gui.pruning.selection.keys import ScoreKeys
from prune_gui.pruning.selection.lamp_cuts import find_lamp_cuts
from prune_gui.pruning.selection.scores import Scores


def decide(method: Lamp, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Rank the elements by the LAMP scores of their weights, or of other scores."""
    scores = [target_scores(method, target) for target in targets]
    return decide_lamp(method, targets, scores, monitor)


def decide_lamp(
    method: ElementAmount, targets: Sequence[Target], scores: Sequence[Scores], monitor: Monitor
) -> list[Decision]:
    """Cut each target so that the k smallest LAMP scores of all targets are pruned."""
    rankings = rankings_of(targets, list(map(ScoreKeys.of, scores)), method.max_sparsity)
    k = count_batched(targets, method.amount, method.amount_of)
    return cut_batched(targets, rankings, k, method.max_sparsity, find_lamp_cuts, monitor)
