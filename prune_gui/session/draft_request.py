"""Changes of the draft that the user makes in a picture, and steps that prune picked units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar, get_args

from prune_gui.language import join_items, tr
from prune_gui.pruning.methods.channels import Channels
from prune_gui.pruning.methods.coupled import DeadUnits, Space
from prune_gui.pruning.methods.listed_units import (
    TOKENS,
    Experts,
    Layers,
    ListedUnits,
    ListingMethod,
)
from prune_gui.recipe import Step, patterns_for

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.pruning.layouts import CoupledGroup
    from prune_gui.recipe import Outcome, Resolution


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
    """Return the step that prunes some units of one group; at least one."""
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
    """Return the step that prunes what remains of units without effect, of a group or of all."""
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
    """
    method = draft.method
    if method.coupled_space != group.space:
        return None
    if method.listed_units:
        units = frozenset(method.listed_units)
        return units if draft == listed_units(units, group, checkpoint) else None
    if preview is None or number is None:
        return None
    if preview.outcomes[number - 1].pruned.keys() != {one.name for one in group.members}:
        return None
    from prune_gui.statistics.unit_statistics import units_of_step  # torch: slow to import

    found = units_of_step(preview, group, number)
    return None if found is None else frozenset(found.pruned.nonzero()[0].tolist())


def listed(channels: frozenset[int], dim: int, name: str, checkpoint: Checkpoint) -> Step:
    """Return the step that prunes some channels of one parameter along `dim`; at least one."""
    targets = patterns_for([name], checkpoint.tensors.values())
    return Step(method=Channels(channels=tuple(sorted(channels)), dim=dim), targets=targets)


def drafted_channels(
    draft: Step, outcome: Outcome | None, dim: int, name: str, checkpoint: Checkpoint
) -> frozenset[int] | None:
    """Return the channels of a parameter that a draft prunes along `dim`.

    None if the draft does not prune channels along `dim`, has other targets, or is not resolved.
    """
    method = draft.method
    if method.listed_channels is not None:
        channels = frozenset(method.listed_channels)
        return channels if draft == listed(channels, dim, name, checkpoint) else None
    if outcome is None or list(outcome.pruned) != [name]:
        return None
    from prune_gui.pruning.predicates import ChannelCut  # torch: slow to import

    predicate = outcome.predicates.get(name)
    if not isinstance(predicate, ChannelCut) or predicate.dim != dim:
        return None
    return frozenset(predicate.chosen().pruned.nonzero()[0].tolist())


@dataclass(frozen=True, slots=True)
class CutRequest:
    """The draft is to prune the chosen parameter up to a cut.

    Attributes:
        step: number of the step of the cut, from 1, which becomes the draft if it is not; None for
            the draft.
        quantity: what the cut limits: the absolute weight of elements, their score as the draft
            computes it, the rank of channels, or the score of the units of `group`.
        group: the label of a coupled group; "" for other quantities.
    """

    quantity: Literal["weight", "score", "rank", "unit_score"]
    value: float
    step: int | None = None
    group: str = ""


Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class PickRequest(Generic[Place]):
    """The draft is to prune some channels or units of a place, or to protect them."""

    place: Place
    numbers: frozenset[int]
    protect: bool = False

    def changed(self, drafted: frozenset[int] | None) -> frozenset[int] | None:
        """Return what a draft that prunes `drafted` is to prune instead; None for no change."""
        if self.protect:
            return None if drafted is None else drafted - self.numbers
        return (drafted or frozenset()) | self.numbers


class ChannelRequest(PickRequest[int]):
    """A request about the channels of the chosen parameter along a dimension."""


class UnitRequest(PickRequest["CoupledGroup"]):
    """A request about the units of a coupled group."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The draft is to be a step."""

    step: Step


@dataclass(frozen=True, slots=True)
class TargetsRequest:
    """The draft is to have these parameters as its targets."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class AmountRequest:
    """A step that ranks each target by itself is to have an amount for one of them.

    Attributes:
        amount: its amount; None for that of the other targets.
        step: number of the step, from 1, which becomes the draft if it is not; None for the draft.
    """

    name: str
    amount: int | float | None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SharesRequest:
    """The draft is to prune the shares of each parameter that a step prunes, in its place."""

    step: int | None = None


DraftRequest = (
    CutRequest
    | ChannelRequest
    | UnitRequest
    | StepRequest
    | TargetsRequest
    | AmountRequest
    | SharesRequest
)
