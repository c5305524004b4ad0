"""The decision of `RandomUnstructured`."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import decide_ranked
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.unstructured import RandomUnstructured
from prune_gui.pruning.selection.keys import RandomKeys


def decide(
    method: RandomUnstructured, targets: Sequence[Target], monitor: Monitor
) -> list[Decision]:
    """Rank the elements by random keys, which depend on the seed and the name of the target."""
    keys = [RandomKeys(method.seed, target.name, target.size) for target in targets]
    return decide_ranked(method, targets, keys, monitor)
