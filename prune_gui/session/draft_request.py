"""A change of the draft that the user makes in a picture. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prune_gui.pruning.coupling import CoupledGroup


@dataclass(frozen=True, slots=True)
class CutRequest:
    """The draft is to prune the chosen parameter up to a cut.

    Attributes:
        step: number of the step of the cut, from 1, which becomes the draft if it is not; None for
            the draft.
        quantity: what the cut limits: the absolute weight of elements, their score as the draft
            computes it, or the rank of channels.
        value: the cut, in the unit of the quantity.
    """

    quantity: Literal["weight", "score", "rank"]
    value: float
    step: int | None = None


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


DraftRequest = CutRequest | ChannelRequest | UnitRequest
