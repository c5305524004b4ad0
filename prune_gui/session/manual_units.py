"""Steps that prune units of a coupled group which the user selected by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from prune_gui.pruning.methods.coupled import (
    CoupledMethod,
    Experts,
    Layers,
    ListedUnits,
    ListingMethod,
    Space,
)
from prune_gui.recipe import Step, patterns_for

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.pruning.coupling import CoupledGroup
    from prune_gui.recipe import Resolution

LAYER_STACKS: Final = {"layers": "all", "encoder_layers": "encoder", "decoder_layers": "decoder"}
"""By space of layers, the field `stack` of `Layers`."""


def can_be_listed(group: CoupledGroup) -> bool:
    """Return whether there is a method that prunes listed units of the space of a group."""
    return group.space in LAYER_STACKS or group.space in get_args(Space)


def listed_units(units: frozenset[int], group: CoupledGroup, checkpoint: Checkpoint) -> Step:
    """Return the step that prunes some units of one group; at least one.

    Args:
        units: numbers of units.
        group: the group, for which `can_be_listed`.
        checkpoint: the open checkpoint.
    """
    listed = tuple(sorted(units))
    method: ListingMethod
    if group.space in LAYER_STACKS:
        method = Layers.model_validate({"layers": listed, "stack": LAYER_STACKS[group.space]})
    elif group.space == "experts":
        method = Experts(experts=listed)
    else:
        method = ListedUnits.model_validate({"space": group.space, "units": listed})
    tensors = checkpoint.tensors
    names = group.producers
    matrices = [name for name in names if len(tensors[name].shape) > 1]
    targets = patterns_for([(matrices or names)[0]], tensors.values())
    return Step(method=method, targets=targets)


def drafted_units(
    draft: Step,
    preview: Resolution | None,
    number: int | None,
    group: CoupledGroup,
    checkpoint: Checkpoint,
) -> frozenset[int] | None:
    """Return the units of a group that a draft prunes.

    None if the draft does not prune units of the group, prunes those of other groups, too, or is
    not resolved.

    Args:
        draft: the draft.
        preview: the resolution with the draft; None if it is not resolved.
        number: the number of the draft in it.
        group: the group.
        checkpoint: the open checkpoint.
    """
    method = draft.method
    if not isinstance(method, CoupledMethod) or method.coupled_space != group.space:
        return None
    if isinstance(method, ListingMethod):
        units = frozenset(method.listed_units)
        return units if draft == listed_units(units, group, checkpoint) else None
    if preview is None or number is None:
        return None
    if preview.outcomes[number - 1].pruned.keys() != {one.name for one in group.members}:
        return None
    from prune_gui.audit.statistics.coupled_units import units_of_step  # torch: slow to import

    units_or_none = units_of_step(preview, group, number)
    if units_or_none is None:
        return None
    return frozenset(units_or_none.pruned.nonzero()[0].tolist())
