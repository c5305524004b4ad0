"""The decision of the methods that prune units by a list, or by a file of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.pruning.decisions import listed_units
from prune_gui.pruning.decisions.coupled_units import Members, decisions_for
from prune_gui.pruning.decisions.target import Decision, GroupScores, Target, count_units
from prune_gui.pruning.decisions.unit_scores import scores_from_file
from prune_gui.pruning.decisions.units import select_lowest
from prune_gui.pruning.methods.coupled import ListedOrRanked
from prune_gui.pruning.methods.files import file_name


def decide(
    method: ListedOrRanked,
    groups: Sequence[CoupledGroup],
    targets: Sequence[Target],
    monitor: Monitor,
    given: Sequence[GroupScores],
) -> list[Decision]:
    """Prune the listed units of each group, or those of smallest score."""
    if method.amount is None or method.importance is None:
        return listed_units.decide(method, groups, targets, monitor, given)
    members = Members.of(targets)
    pruned = []
    scores = scores_from_file(groups, given, members, method.reduction, monitor)
    for group, own in zip(groups, scores, strict=True):
        elements = members.remaining_elements(group)
        number = count_units(
            method.amount,
            "remaining",
            remaining=int(np.count_nonzero(elements)),
            total=group.size,
            of=lambda group=group: group.label,  # type: ignore[misc]
        )
        [lowest] = select_lowest([elements], [own], [number], number)
        pruned.append(replace(lowest, source=file_name(method.importance)))
    return decisions_for(groups, pruned, [""] * len(groups), members, monitor)
