"""The decision of `Coupled`: the units of the lowest scores, in each group or in all together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.pruning.decisions.coupled_units import Members, decisions_for
from prune_gui.pruning.decisions.target import (
    Decision,
    GroupScores,
    Target,
    all_targets,
    cap_note,
    count_units,
    max_prunable,
)
from prune_gui.pruning.decisions.unit_scores import (
    UnitScores,
    norms_of_units,
    scores_from_file,
)
from prune_gui.pruning.decisions.units import select_lowest
from prune_gui.pruning.methods.coupled import Coupled
from prune_gui.pruning.methods.files import file_name


def decide(
    method: Coupled,
    groups: Sequence[CoupledGroup],
    targets: Sequence[Target],
    monitor: Monitor,
    given: Sequence[GroupScores],
) -> list[Decision]:
    """Prune the k units of smallest score in each group, or in all groups together."""
    members = Members.of(targets)
    if given:
        scores = scores_from_file(groups, given, members, method.reduction, monitor)
    else:
        scores = norms_of_units(groups, members, method.reduction, float(method.n), monitor)
    if method.scope == "global":
        scores = [_normalized(method, own) for own in scores]
    remaining = [members.remaining_elements(group) for group in groups]
    numbers, notes = _numbers(method, groups, scores, remaining)
    source = file_name(method.importance) if method.importance else ""
    pruned = [
        replace(select_lowest([elements], [own], [number], number)[0], source=source)
        for elements, own, number in zip(remaining, scores, numbers, strict=True)
    ]
    return decisions_for(groups, pruned, notes, members, monitor)


def _numbers(
    method: Coupled,
    groups: Sequence[CoupledGroup],
    scores: Sequence[UnitScores],
    remaining: Sequence[NDArray[np.int64]],
) -> tuple[list[int], list[str]]:
    """Return the number of units to prune of each group, and a note on each."""
    there = [int(np.count_nonzero(elements)) for elements in remaining]
    limits = [
        max_prunable(method.max_sparsity, remaining=count, total=group.size)
        for count, group in zip(there, groups, strict=True)
    ]
    if method.scope == "local":
        wanted = [
            count_units(
                method.amount,
                method.amount_of,
                remaining=count,
                total=group.size,
                of=lambda group=group: group.label,  # type: ignore[misc]
            )
            for count, group in zip(there, groups, strict=True)
        ]
        numbers = [min(pair) for pair in zip(wanted, limits, strict=True)]
    else:
        k = count_units(
            method.amount,
            method.amount_of,
            remaining=sum(there),
            total=sum(group.size for group in groups),
            of=all_targets,
        )
        if method.uniform:
            kept = math.ceil((sum(there) - k) / len(groups))
            wanted = [max(0, count - kept) for count in there]
            numbers = [min(pair) for pair in zip(wanted, limits, strict=True)]
        else:
            selected = select_lowest(remaining, scores, limits, min(k, sum(limits)))
            numbers = [int(units.pruned.sum()) for units in selected]
            wanted = numbers
    notes = []
    for i, (count, number) in enumerate(zip(there, numbers, strict=True)):
        kept = -(-(count - number) // method.round_to) * method.round_to
        numbers[i] = max(0, count - kept)
        note = cap_note(method.max_sparsity, wanted[i] - number) if wanted[i] > number else ""
        if numbers[i] < number:
            note = tr(
                "{count:,} units are kept, a multiple of {number}",
                count=count - numbers[i],
                number=method.round_to,
            )
        notes.append(note)
    return numbers, notes


def _normalized(method: Coupled, scores: UnitScores) -> UnitScores:
    finite = scores[np.isfinite(scores)]
    if method.normalization == "none" or not finite.size:
        return scores
    scale = float(finite.mean() if method.normalization == "mean" else finite.max())
    return scores / scale if scale > 0 else scores
