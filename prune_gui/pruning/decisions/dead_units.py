"""The decision of `DeadUnits`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.pruning.decisions.base import Decision, Target
from prune_gui.pruning.decisions.coupled_units import Members, by_unit, decisions_for
from prune_gui.pruning.methods.coupled import DeadUnits
from prune_gui.pruning.predicates import PrunedUnits


def decide(
    _method: DeadUnits,
    groups: Sequence[CoupledGroup],
    targets: Sequence[Target],
    monitor: Monitor,
) -> list[Decision]:
    """Prune the units of all groups that have no effect."""
    members = Members.of(targets)
    pruned, notes = [], []
    for group in groups:
        monitor.advance()
        dead, constant = _effect(group, members)
        pruned.append(PrunedUnits(dead, None, members.remaining_elements(group)))
        notes.append(
            trn(
                "{count:,} unit has no weights and emits a constant, because a bias or a norm of "
                "it remains",
                "{count:,} units have no weights and emit a constant, because a bias or a norm of "
                "them remains",
                int(constant.sum()),
            )
            if constant.any()
            else ""
        )
    return decisions_for(groups, pruned, notes, members, monitor)


def _effect(group: CoupledGroup, members: Members) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which units of a sliced group have no effect, and which emit a constant."""
    remaining = {role: np.zeros(group.size, np.int64) for role in ("consumes", "produces", "shift")}
    roles = set()
    for member in group.members:
        channels = members.remaining_channels(member.name, member.dim or 0)
        role = member.role if member.role in remaining else "shift"
        remaining[role] += by_unit(channels, member, group.size).sum(1)
        roles.add(role)
    unread = remaining["consumes"] == 0 if "consumes" in roles else np.False_
    weightless = remaining["produces"] == 0 if "produces" in roles else np.False_
    dead = unread | (weightless & (remaining["shift"] == 0))
    return dead, weightless & ~dead
