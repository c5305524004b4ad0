"""Statistics of the units of coupled groups: norms, and the number of elements pruned of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.coupled_units import by_unit, without_effect
from prune_gui.pruning.layouts import CoupledGroup, Member, MemberRole
from prune_gui.pruning.methods.listed_units import TOKENS
from prune_gui.pruning.predicates import AnyCut, ChannelCut, Predicate, PrunedUnits, UnitCut
from prune_gui.recipe import Resolution
from prune_gui.recipe.recipe import IN_FILE, KEPT
from prune_gui.statistics.channel_statistics import channels, norms


@dataclass(frozen=True, slots=True, eq=False)
class CountsByUnit:
    """The elements of the units of a group, in all members together.

    Attributes:
        codes: of each row of `counts`, int64 (codes, units).
        members: (pruned elements, all elements) of the slices of each member.
        dead: bool (units,), units without effect of which elements are kept; see `DeadUnits`.
    """

    codes: tuple[int, ...]
    counts: NDArray[np.int64]
    members: tuple[tuple[int, int], ...]
    dead: NDArray[np.bool_]

    @property
    def last_steps(self) -> NDArray[np.uint8]:
        """The code of the last step that pruned elements of a unit; 0 if none did."""
        found = np.full(self.counts.shape[1], KEPT, np.uint8)
        for code in sorted(self.codes, key=lambda code: code % IN_FILE):  # the file comes first
            if code != KEPT:
                found[self.counts[self.codes.index(code)] > 0] = code
        return found


def count_units(resolution: Resolution, group: CoupledGroup, monitor: Monitor) -> CountsByUnit:
    """Count the elements of each unit by the step that pruned them.

    Only members of which a step pruned other elements than whole channels are read. Elements of
    tensors that are not prunable are kept.
    """
    by_channel: dict[tuple[str, int], dict[int, NDArray[np.int64]]] = {}
    by_code = {KEPT: np.zeros(group.size, np.int64)}
    members = []
    remaining: dict[MemberRole, NDArray[np.int64]] = {}
    for member in group.members:
        if member.dim is None or member.name not in resolution.counts:
            counts = _of_whole_tensor(resolution, member, group)
        else:
            key = member.name, member.dim
            if key not in by_channel:
                by_channel[key] = _of_channels(resolution, *key, monitor)
            found = by_channel[key]
            counts = {code: by_unit(found[code], member, group.size).sum(1) for code in found}
        for code, row in counts.items():
            by_code[code] = by_code.get(code, 0) + row
        remaining[member.role] = remaining.get(member.role, 0) + counts[KEPT]
        total = sum(int(row.sum()) for row in counts.values())
        members.append((total - int(counts[KEPT].sum()), total))
    codes = tuple(sorted(by_code))
    dead = np.zeros(group.size, np.bool_)
    if group.is_sliced and group.space != TOKENS:
        dead = without_effect(remaining, group.size)[0] & (by_code[KEPT] > 0)
    counted = np.stack([by_code[code] for code in codes])
    return CountsByUnit(codes, counted, tuple(members), dead)


def _of_channels(
    resolution: Resolution, name: str, dim: int, monitor: Monitor
) -> dict[int, NDArray[np.int64]]:
    """Return the number of elements of each channel by code."""
    info, steps = resolution.checkpoint.tensors[name], resolution.layers.get(name, ())
    pruned_by = np.full(info.shape[dim], KEPT, np.uint8)
    for applied in steps:
        cut = applied.predicate
        if not isinstance(cut, ChannelCut) or cut.dim != dim:
            found = channels(resolution, name, dim, monitor)
            return dict(zip(found.codes, found.counts, strict=True))
        pruned_by[cut.chosen().pruned & (pruned_by == KEPT)] = applied.step
    per_channel = info.numel // info.shape[dim]
    codes = {KEPT, *(applied.step for applied in steps)}
    return {code: np.where(pruned_by == code, per_channel, 0) for code in codes}


def _of_whole_tensor(
    resolution: Resolution, member: Member, group: CoupledGroup
) -> dict[int, NDArray[np.int64]]:
    """Return the counts by code for a tensor of one unit, or one that is not prunable."""
    info = resolution.checkpoint.tensors[member.name]
    pruned, total = resolution.counts.get(member.name, (0, info.numel))
    if member.dim is not None:
        per_unit = total // info.shape[member.dim] * member.width
        return {KEPT: np.full(group.size, per_unit, np.int64)}
    numbers = {
        step: outcome.pruned.get(member.name, 0)
        for step, outcome in enumerate(resolution.outcomes, start=1)
    }
    numbers[IN_FILE] = pruned - sum(numbers.values())
    is_unit = np.arange(group.size) == member.offset
    counts = {code: is_unit * np.int64(number) for code, number in numbers.items() if number}
    return {KEPT: is_unit * np.int64(total - pruned)} | counts


def unit_norms(
    checkpoint: Checkpoint, group: CoupledGroup, monitor: Monitor
) -> NDArray[np.float64]:
    """Return the 2-norm of all slices of each unit together, of the weights in the file.

    Tensors with two or more dimensions count; all do if there are none.
    """
    tensors = checkpoint.tensors
    floats = [one for one in group.members if tensors[one.name].not_prunable is None]
    weights = [one for one in floats if len(tensors[one.name].shape) > 1]
    total = np.zeros(group.size)
    by_channel: dict[tuple[str, int], NDArray[np.float64]] = {}
    with np.errstate(over="ignore"):  # an infinite norm ranks as the largest
        for member in weights or floats:
            key = member.name, member.dim or 0
            if key not in by_channel:
                by_channel[key] = norms(checkpoint, *key, 2.0, monitor)
            if member.dim is None:
                whole = np.hypot.reduce(by_channel.pop(key))
                total[member.offset] = np.hypot(total[member.offset], whole)
            else:
                slices = by_unit(by_channel[key], member, group.size)
                total = np.hypot(total, np.hypot.reduce(slices, axis=1))
    return total


def ranked_groups(resolution: Resolution, step: int) -> dict[str, PrunedUnits]:
    """Return the units of each group that a step ranked, by the label of the group."""
    found: dict[str, PrunedUnits] = {}
    for predicate in resolution.outcomes[step - 1].predicates.values():
        for cut in _unit_cuts(predicate):
            for one in cut.slices:
                known = found.get(one.label)
                is_ranked = one.units.ranks is not None
                # The slice of a whole tensor has the score of one unit only.
                if is_ranked and (known is None or len(known.pruned) < len(one.units.pruned)):
                    found[one.label] = one.units
    return found


def units_of_step(resolution: Resolution, group: CoupledGroup, step: int) -> PrunedUnits | None:
    """Return the units of a group as a coupled step decided them; None if it pruned none."""
    predicates = resolution.outcomes[step - 1].predicates
    for member in group.members:
        for cut in _unit_cuts(predicates.get(member.name)):
            for one in cut.slices:
                if (
                    one.member == member
                    and one.label == group.label
                    and len(one.units.pruned) == group.size
                ):
                    return one.units
    return None


def _unit_cuts(predicate: Predicate | None) -> tuple[UnitCut, ...]:
    if isinstance(predicate, AnyCut):
        return predicate.cuts
    return (predicate,) if isinstance(predicate, UnitCut) else ()
