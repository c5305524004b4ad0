"""The decision of `Channels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target, dimension
from prune_gui.pruning.decisions.units import remaining_channels
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.channels import Channels
from prune_gui.pruning.predicates import ChannelCut, PrunedUnits

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning channels needs at least one dimension. Leave it out of the "
    "targets, or use an unstructured method."
)


def decide(method: Channels, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Prune the listed channels of each target."""
    decisions = []
    for target in targets:
        monitor.advance()
        decisions.append(_decide(method, target))
    return decisions


def _decide(method: Channels, target: Target) -> Decision:
    dim = dimension(target, method.dim, min_dims=1, flat=FLAT)
    size, last = target.shape[dim], max(method.channels)
    if last >= size:
        raise RecipeError(
            trn(
                "{name} has {count:,} channel along dimension {dim}; channel {channel} does not "
                "exist. Use 0 to {last}, or leave it out of the targets.",
                "{name} has {count:,} channels along dimension {dim}; channel {channel} does not "
                "exist. Use 0 to {last}, or leave it out of the targets.",
                size,
                name=target.name,
                dim=dim,
                channel=last,
                last=size - 1,
            )
        )
    remaining = remaining_channels(target, dim)
    pruned = np.zeros(size, np.bool_)
    pruned[list(method.channels)] = True
    chosen = Lazy.of_value(PrunedUnits(pruned, None, remaining))
    return Decision(ChannelCut(target.shape, dim, chosen), int(remaining[pruned].sum()))
