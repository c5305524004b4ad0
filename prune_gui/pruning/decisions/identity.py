"""The decision of `Identity`."""

from __future__ import annotations

from collections.abc import Sequence

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods.custom_mask import Identity


def decide(_method: Identity, targets: Sequence[Target], _monitor: Monitor) -> list[Decision]:
    """Prune nothing."""
    return [Decision(None, 0) for _ in targets]
