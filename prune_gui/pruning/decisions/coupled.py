"""The decision of `Coupled`: scores of units from the norms of their slices, and the lowest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup, Member
from prune_gui.pruning.decisions.base import (
    Decision,
    Target,
    all_targets,
    cap_note,
    count_units,
    max_prunable,
)
from prune_gui.pruning.decisions.coupled_units import Members, by_unit, decisions_for
from prune_gui.pruning.decisions.units import select_lowest
from prune_gui.pruning.methods.coupled import Coupled
from prune_gui.pruning.norms.channels import score_norms

Scores = NDArray[np.float64]


def decide(
    method: Coupled, groups: Sequence[CoupledGroup], targets: Sequence[Target], monitor: Monitor
) -> list[Decision]:
    """Prune the k units of smallest score in each group, or in all groups together."""
    members = Members.of(targets)
    with monitor.plan(sum(_nbytes(group, members) for group in groups)):
        scores = [_scores(method, group, members, monitor) for group in groups]
    remaining = [members.remaining_elements(group) for group in groups]
    numbers, notes = _numbers(method, groups, scores, remaining)
    pruned = [
        select_lowest([elements], [own], [number], number)[0]
        for elements, own, number in zip(remaining, scores, numbers, strict=True)
    ]
    return decisions_for(groups, pruned, notes, members, monitor)


def _numbers(
    method: Coupled,
    groups: Sequence[CoupledGroup],
    scores: Sequence[Scores],
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


def _scored(group: CoupledGroup, members: Members) -> list[Member]:
    """Return the members whose norms are in the score: all tensors with two or more dimensions.

    Raises:
        RecipeError: there are none.
    """
    scored = [one for one in group.members if len(members.targets[one.name].shape) > 1]
    if not scored:
        raise RecipeError(
            tr(
                "{group} has no tensor with two dimensions or more to rank its units by.",
                group=group.label,
            )
        )
    return scored


def _nbytes(group: CoupledGroup, members: Members) -> int:
    tensors = {one.name for one in _scored(group, members)}
    return sum(members.targets[name].weights.nbytes for name in tensors)


def _scores(method: Coupled, group: CoupledGroup, members: Members, monitor: Monitor) -> Scores:
    """Return the score of each unit, float64 (size,)."""
    slices, belongs = [], []
    p = float(method.n)
    for member in _scored(group, members):
        target, dim = members.targets[member.name], member.dim or 0
        powers = _channel_norms(target, dim, p, monitor) ** p
        if member.dim is None:
            units = np.arange(group.size) == member.offset
            powers_of_units, elements = np.where(units, powers.sum(), 0.0), target.size
        else:
            units = np.ones(group.size, np.bool_)
            powers_of_units = by_unit(powers, member, group.size).sum(1)
            elements = target.size // target.shape[dim] * member.width
        is_sum = method.reduction == "sum"
        slices.append(powers_of_units if is_sum else (powers_of_units / elements) ** (1 / p))
        belongs.append(units)
    return _normalized(method, _reduced(method, np.array(slices), np.array(belongs)))


def _channel_norms(target: Target, dim: int, p: float, monitor: Monitor) -> Scores:
    """Return the p-norm of each channel of a target, from the cache if it is there."""
    cache = target.histogram_cache.norms if target.histogram_cache else None
    key = target.weights, target.remaining_mask, dim, p
    cached = cache.get(key) if cache else None
    if cached is not None:
        monitor.expect(target.weights.nbytes)
        monitor.advance(target.weights.nbytes)
        return cached
    norms: Scores = (
        score_norms(target.weights, target.remaining_mask, p, dim, monitor=monitor).double().numpy()
    )
    if cache:
        cache.put(key, norms)
    return norms


def _reduced(method: Coupled, slices: Scores, belongs: NDArray[np.bool_]) -> Scores:
    """Return one number per unit.

    Args:
        method: the method.
        slices: (members, units): the norms; 0 where a member has no slice of a unit. For "sum"
            their p-th powers.
        belongs: (members, units): whether a member has a slice of a unit.
    """
    match method.reduction:
        case "sum":
            reduced: Scores = slices.sum(0) ** (1 / float(method.n))
        case "mean":
            reduced = slices.sum(0) / belongs.sum(0)
        case "max":
            reduced = slices.max(0)
    return reduced


def _normalized(method: Coupled, scores: Scores) -> Scores:
    finite = scores[np.isfinite(scores)]
    if method.normalization == "none" or not finite.size:
        return scores
    scale = float(finite.mean() if method.normalization == "mean" else finite.max())
    return scores / scale if scale > 0 else scores
