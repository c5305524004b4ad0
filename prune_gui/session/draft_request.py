"""A change of the draft that the user makes in a picture. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prune_gui.pruning.coupling import CoupledGroup
    from prune_gui.recipe import Step


@dataclass(frozen=True, slots=True)
class CutRequest:
    """The draft is to prune the chosen parameter up to a cut.

    Attributes:
        step: number of the step of the cut, from 1, which becomes the draft if it is not; None for
            the draft.
        quantity: what the cut limits: the absolute weight of elements, their score as the draft
            computes it, the rank of channels, or the score of the units of `group`.
        value: the cut, in the unit of the quantity.
        group: the label of a coupled group; "" for other quantities.
    """

    quantity: Literal["weight", "score", "rank", "unit_score"]
    value: float
    step: int | None = None
    group: str = ""


def _changed(
    drafted: frozenset[int] | None, numbers: frozenset[int], *, protect: bool
) -> frozenset[int] | None:
    """Return what a draft is to list that lists `drafted`; None if it is not to change."""
    if protect:
        return None if drafted is None else drafted - numbers
    return (drafted or frozenset()) | numbers


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """The draft is to prune some channels of the chosen parameter, or to protect them.

    Attributes:
        dim: the dimension of the channels.
        channels: indices along that dimension.
        protect: whether the draft is to keep them; else it is to prune them.
    """

    dim: int
    channels: frozenset[int]
    protect: bool = False

    def changed(self, drafted: frozenset[int] | None) -> frozenset[int] | None:
        """Return the channels that a draft is to prune instead; None for no change."""
        return _changed(drafted, self.channels, protect=self.protect)


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """The draft is to prune some units of a coupled group, or to protect them.

    Attributes:
        group: the group; there is a method that prunes listed units of its space.
        units: numbers of units.
        protect: whether the draft is to keep them; else it is to prune them.
    """

    group: CoupledGroup
    units: frozenset[int]
    protect: bool = False

    def changed(self, drafted: frozenset[int] | None) -> frozenset[int] | None:
        """Return the units that a draft is to prune instead; None for no change."""
        return _changed(drafted, self.units, protect=self.protect)


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The draft is to be a step.

    Attributes:
        step: the step.
    """

    step: Step


@dataclass(frozen=True, slots=True)
class AmountRequest:
    """A step that ranks each target by itself is to have an amount for one of them.

    Attributes:
        name: the parameter.
        amount: its amount; None for that of the other targets.
        step: number of the step, from 1, which becomes the draft if it is not; None for the draft.
    """

    name: str
    amount: int | float | None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SharesRequest:
    """The draft is to prune the shares of each parameter that a step prunes, in its place.

    Attributes:
        step: number of the step, from 1; None for the draft itself.
    """

    step: int | None = None


DraftRequest = (
    CutRequest | ChannelRequest | UnitRequest | StepRequest | AmountRequest | SharesRequest
)
