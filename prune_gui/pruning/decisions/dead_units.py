"""The decision of `DeadUnits`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup, MemberRole
from prune_gui.pruning.decisions.coupled_units import Members, by_unit, decisions_for
from prune_gui.pruning.decisions.target import Decision, GroupScores, Target
from prune_gui.pruning.methods.coupled import DeadUnits
from prune_gui.pruning.predicates import PrunedUnits


def decide(
    method: DeadUnits,
    groups: Sequence[CoupledGroup],
    targets: Sequence[Target],
    monitor: Monitor,
    _given: Sequence[GroupScores],
) -> list[Decision]:
    """Prune the units of all groups that have no effect."""
    members = Members.of(targets)
    pruned, notes = [], []
    for group in groups:
        monitor.advance()
        dead, constant = _effect(group, members)
        pruned.append(PrunedUnits(dead, None, members.remaining_elements(group)))
        notes.append(_note(int(constant.sum()), fold=method.fold_constants))
    return decisions_for(groups, pruned, notes, members, monitor)


def _note(count: int, *, fold: bool) -> str:
    """Return a note on units that emit a constant; "" if there are none."""
    if not count:
        return ""
    if not fold:
        return trn(
            "{count:,} unit has no weights and emits a constant, because a bias or a norm of "
            "it remains",
            "{count:,} units have no weights and emit a constant, because a bias or a norm of "
            "them remains",
            count,
        )
    return trn(
        "{count:,} unit has no weights and emits a constant, because a bias or a norm of it "
        "remains; the compact form leaves it out if the next layers can take the constant over",
        "{count:,} units have no weights and emit a constant, because a bias or a norm of them "
        "remains; the compact form leaves them out if the next layers can take the constants over",
        count,
    )


def _effect(group: CoupledGroup, members: Members) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which units of a sliced group have no effect, and which emit a constant."""
    remaining: dict[MemberRole, NDArray[np.int64]] = {}
    for member in group.members:
        channels = members.remaining_channels(member.name, member.dim or 0)
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
