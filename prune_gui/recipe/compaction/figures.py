"""The size of a network, and the work of its forward pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prune_gui.checkpoint.module_types import is_usually_pruned
from prune_gui.checkpoint.tensor_info import TensorInfo, size_in_bytes
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.compaction.source import EXPERTS_PER_TOKEN

EXPERTS = "experts"
"""The name of the space of experts in tables of architectures."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a network.

    Attributes:
        tensors: number of tensors; tied ones count once.
        parameters: number of elements of all tensors.
        nbytes: bytes of the elements.
        multiply_adds: multiplications with additions of all linear layers and convolutions, per
            token, or per image if the network has convolutions; None if the sizes of the outputs of
            these are not known.
    """

    tensors: int
    parameters: int
    nbytes: int
    multiply_adds: int | None


class Shaped(NamedTuple):
    """A tensor with its shape before or after the removal of units."""

    info: TensorInfo
    shape: tuple[int, ...]


def figures(
    tensors: Iterable[Shaped], active: Mapping[str, float], sizes: Mapping[str, int]
) -> Figures:
    """Return the figures of some tensors."""
    every = list(tensors)
    working = [
        (info, shape)
        for info, shape in every
        if info.name in active or (len(shape) > 1 and is_usually_pruned(info))
    ]
    is_known = all(
        len(shape) == 2 or info.name in active or info.name in sizes for info, shape in working
    )
    work = sum(
        math.prod(shape) * active.get(info.name, 1) * sizes.get(info.name, 1) ** 2
        for info, shape in working
    )
    return Figures(
        tensors=len(every),
        parameters=sum(math.prod(shape) for _, shape in every),
        nbytes=sum(size_in_bytes(shape, info.dtype) for info, shape in every),
        multiply_adds=round(work) if is_known else None,
    )


def active_shares(
    groups: Iterable[tuple[CoupledGroup, int]],
    counts: Mapping[str, int],
    tensors: Mapping[str, TensorInfo],
) -> dict[str, float]:
    """Return the share of each tensor of experts that processes a token.

    The router's tensors have one row per expert, and process every token.
    """
    per_token = next((counts[key] for key in EXPERTS_PER_TOKEN if key in counts), None)
    if per_token is None:
        return {}
    return {
        member.name: min(1.0, per_token / max(1, number))
        for group, number in groups
        if group.space == EXPERTS
        for member in group.members
        if member.name in tensors
        and len(tensors[member.name].shape) > (1 if member.dim is None else 2)
    }
