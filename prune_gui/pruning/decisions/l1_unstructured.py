"""The decision of `L1Unstructured`."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.base import Decision, Target
from prune_gui.pruning.decisions.elements import decide_ranked
from prune_gui.pruning.decisions.scores import target_scores
from prune_gui.pruning.methods.unstructured import L1Unstructured
from prune_gui.pruning.selection.keys import ScoreKeys, ranking_dtype


def decide(method: L1Unstructured, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Rank the elements by absolute score."""
    scores = [target_scores(method, target) for target in targets]
    if method.scope == "global":
        shared_dtype = ranking_dtype({own.dtype for own in scores})
        keys = [ScoreKeys(own, shared_dtype) for own in scores]
    else:
        keys = [ScoreKeys.of(own) for own in scores]
    return decide_ranked(method, targets, keys, monitor)
