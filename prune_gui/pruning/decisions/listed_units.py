"""The decision of the methods that prune listed units of coupled groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.pruning.decisions.coupled_units import Members, decisions_for
from prune_gui.pruning.decisions.target import Decision, GroupScores, Target
from prune_gui.pruning.methods.coupled import ListingMethod
from prune_gui.pruning.predicates import PrunedUnits


def decide(
    method: ListingMethod,
    groups: Sequence[CoupledGroup],
    targets: Sequence[Target],
    monitor: Monitor,
    _given: Sequence[GroupScores],
) -> list[Decision]:
    """Prune the listed units of each group."""
    members = Members.of(targets)
    pruned = []
    for group in groups:
        monitor.advance()
        last = max(method.listed_units)
        if last >= group.size:
            raise RecipeError(
                tr(
                    "{group} has {count:,} units; {number} does not exist. Use 0 to {last}.",
                    group=group.label,
                    count=group.size,
                    number=last,
                    last=group.size - 1,
                )
            )
        listed = np.zeros(group.size, np.bool_)
        listed[list(method.listed_units)] = True
        pruned.append(PrunedUnits(listed, None, members.remaining_elements(group)))
    return decisions_for(groups, pruned, [""] * len(groups), members, monitor)
