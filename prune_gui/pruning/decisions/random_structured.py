"""The decision of `RandomStructured`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.decisions.units import Units, channel_dimension, channel_units, select_units
from prune_gui.pruning.methods.structured import RandomStructured
from prune_gui.pruning.selection.keys import RandomKeys


def decide(method: RandomStructured, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Prune k random channels among those with a remaining element."""
    return select_units([_units(method, target) for target in targets], method, monitor)


def _units(method: RandomStructured, target: Target) -> Units:
    dim = channel_dimension(method, target)

    def rank(_: Monitor) -> NDArray[np.floating[Any]]:
        channels = target.shape[dim]
        return RandomKeys(method.seed, target.name, channels).bits(0, channels).astype(np.float64)

    return channel_units(target, dim, rank)
