"""The decision of `L1Unstructured`."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import decide_scored, target_scores
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.unstructured import L1Unstructured


def decide(method: L1Unstructured, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Rank the elements by absolute score."""
    scores = [target_scores(method, target) for target in targets]
    return decide_scored(method, targets, scores, monitor)
