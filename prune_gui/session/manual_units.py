"""Steps that prune units of a coupled group which the user selected by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from prune_gui.language import join_items, tr
from prune_gui.pruning.methods.coupled import (
    CoupledMethod,
    DeadUnits,
    Experts,
    Layers,
    ListedUnits,
    ListingMethod,
    Space,
)
from prune_gui.pruning.methods.tokens import SPACE as TOKENS
from prune_gui.recipe import Step, patterns_for

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.pruning.coupling import CoupledGroup
    from prune_gui.recipe import Resolution

LAYER_STACKS: Final = {
    "layers": "all",
    "encoder_layers": "encoder",
    "decoder_layers": "decoder",
    "vision_layers": "vision",
}
"""By space of layers, the field `stack` of `Layers`."""


def why_not_listed(group: CoupledGroup) -> str:
    """Return why no method prunes listed units of the space of a group; "" if one does."""
    if group.space in LAYER_STACKS or group.space in get_args(Space):
        return ""
    if group.space == TOKENS:
        return tr("Tokens cannot be picked here: the method Tokens prunes those of a file")
    return tr(
        "No step prunes units of the kind {space!r}: name the space in the table {names}",
        space=group.space,
        names=join_items(get_args(Space)),
    )


def listed_units(units: frozenset[int], group: CoupledGroup, checkpoint: Checkpoint) -> Step:
    """Return the step that prunes some units of one group; at least one.

    Args:
        units: numbers of units.
        group: the group; `why_not_listed` returns "" for it.
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
    return Step(method=method, targets=_targets(group, checkpoint))


def dead_units(group: CoupledGroup | None, checkpoint: Checkpoint) -> Step:
    """Return the step that prunes what remains of units without effect.

    Args:
        group: the group of the units; None for all groups of the checkpoint.
        checkpoint: the open checkpoint.
    """
    targets = ("*",) if group is None else _targets(group, checkpoint)
    return Step(method=DeadUnits(), targets=targets)


def _targets(group: CoupledGroup, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the pattern of a tensor that has the units as outputs, preferably a matrix."""
    tensors, names = checkpoint.tensors, group.producers
    matrices = [name for name in names if len(tensors[name].shape) > 1]
    return patterns_for([(matrices or names)[0]], tensors.values())


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
    if isinstance(method, ListingMethod) and method.listed_units:
        units = frozenset(method.listed_units)
        return units if draft == listed_units(units, group, checkpoint) else None
    if preview is None or number is None:
        return None
    if preview.outcomes[number - 1].pruned.keys() != {one.name for one in group.members}:
        return None
    from prune_gui.statistics.unit_statistics import units_of_step  # torch: slow to import

    units_or_none = units_of_step(preview, group, number)
    if units_or_none is None:
        return None
    return frozenset(units_or_none.pruned.nonzero()[0].tolist())
