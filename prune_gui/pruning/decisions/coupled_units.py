"""Units of coupled groups: what remains of them, and the decisions that prune some of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup, Member, MemberRole
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.decisions.units import remaining_channels
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.predicates import AnyCut, Predicate, PrunedUnits, UnitCut, UnitSlices


@dataclass(frozen=True, slots=True)
class Members:
    """The tensors of coupled groups, with the numbers of remaining elements of their channels."""

    targets: Mapping[str, Target]
    _remaining: dict[tuple[str, int], NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, targets: Sequence[Target]) -> Members:
        """Return the members among some targets."""
        return cls({target.name: target for target in targets})

    def remaining_channels(self, name: str, dim: int) -> NDArray[np.int64]:
        """Return the number of remaining elements of each channel of a tensor, int64."""
        if (name, dim) not in self._remaining:
            target = self.targets[name]
            is_scalar = not target.shape  # one channel
            self._remaining[name, dim] = (
                np.array([target.remaining]) if is_scalar else remaining_channels(target, dim)
            )
        return self._remaining[name, dim]

    def remaining_elements(self, group: CoupledGroup) -> NDArray[np.int64]:
        """Return the number of remaining elements of each unit in all members, int64 (size,)."""
        total = np.zeros(group.size, np.int64)
        for member in group.members:
            if member.dim is None:
                total[member.offset] += self.targets[member.name].remaining
            else:
                channels = self.remaining_channels(member.name, member.dim)
                total += by_unit(channels, member, group.size).sum(1)
        return total

    def without_effect(self, group: CoupledGroup) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which units of a sliced group have no effect, and which emit a constant."""
        remaining: dict[MemberRole, NDArray[np.int64]] = {}
        for member in group.members:
            channels = self.remaining_channels(member.name, member.dim or 0)
            elements = by_unit(channels, member, group.size).sum(1)
            remaining[member.role] = remaining.get(member.role, 0) + elements
        return without_effect(remaining, group.size)


def without_effect(
    remaining: Mapping[MemberRole, NDArray[np.int64]], size: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which units have no effect, and which emit a constant.

    Args:
        remaining: by role, int64 (size,), number of remaining elements of each unit in the tensors
            of that role.
        size: number of units.
    """
    nothing = np.zeros(size, np.int64)
    unread = remaining["consumes"] == 0 if "consumes" in remaining else np.zeros(size, np.bool_)
    weightless = remaining["produces"] == 0 if "produces" in remaining else np.zeros(size, np.bool_)
    shift = remaining.get("bias", nothing) + remaining.get("norm", nothing)
    dead = unread | (weightless & (shift == 0))
    return dead, weightless & ~dead


def by_unit(channels: NDArray[np.generic], member: Member, size: int) -> NDArray[np.generic]:
    """Return values per channel as an array of shape (units, channels of a unit)."""
    stop = member.offset + size * member.width
    return channels[member.offset : stop].reshape(size, member.width)


def decisions_for(
    groups: Sequence[CoupledGroup],
    pruned: Sequence[PrunedUnits],
    notes: Sequence[str],
    members: Members,
    monitor: Monitor,
) -> list[Decision]:
    """Return the decision for each member that prunes some units of groups."""
    slices: dict[str, dict[int, list[UnitSlices]]] = defaultdict(lambda: defaultdict(list))
    note_of: dict[str, str] = {}
    for group, units, note in zip(groups, pruned, notes, strict=True):
        for member in group.members:
            if note:
                note_of[member.name] = note
            if units.pruned.any() or units.ranks is not None:
                owner = member.offset if member.dim is None else None
                one = UnitSlices(group.label, units, member.offset, member.width, owner)
                slices[member.name][member.dim or 0].append(one)
    decisions = []
    for target in members.targets.values():
        monitor.advance()
        cuts = [
            UnitCut.of(
                target.shape or (1,), dim, found, members.remaining_channels(target.name, dim)
            )
            for dim, found in slices[target.name].items()
        ]
        cuts = [cut for cut in cuts if cut.has_scores or cut.chosen().pruned.any()]
        note = note_of.get(target.name, "")
        if not cuts:
            decisions.append(Decision(None, 0, note))
            continue
        predicate = cuts[0] if len(cuts) == 1 else AnyCut(tuple(cuts))
        decisions.append(Decision(predicate, _count(target, predicate), note))
    return decisions


def _count(target: Target, predicate: Predicate) -> int:
    """Return the number of remaining elements for which a predicate holds."""
    if isinstance(predicate, UnitCut):
        units = predicate.chosen()
        return int(units.remaining[units.pruned].sum())
    if isinstance(predicate, AnyCut) and target.remaining_mask is None:
        kept = math.prod(int((~cut.chosen().pruned).sum()) for cut in predicate.cuts)
        dims = {cut.dim for cut in predicate.cuts}
        others = math.prod(size for dim, size in enumerate(target.shape) if dim not in dims)
        return target.size - kept * others
    count = 0
    for start, stop in chunks(target.size):
        pruned = predicate.prunes(start, stop)
        if target.remaining_mask is not None:
            pruned = pruned & target.remaining_mask(start, stop)
        count += int(np.count_nonzero(pruned))
    return count
