"""The size of a network, and the work of its forward pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prune_gui.checkpoint.module_types import is_usually_pruned
from prune_gui.checkpoint.tensor_info import TensorInfo, size_in_bytes
from prune_gui.pruning.coupling import CoupledGroup
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
        multiply_adds: multiplications with additions per token, of all linear layers; None if the
            network has convolutions, whose work depends on the size of the input.
    """

    tensors: int
    parameters: int
    nbytes: int
    multiply_adds: int | None


class Shaped(NamedTuple):
    """A tensor with its shape before or after the removal of units."""

    info: TensorInfo
    shape: tuple[int, ...]


def figures(tensors: Iterable[Shaped], active: Mapping[str, float]) -> Figures:
    """Return the figures of some tensors.

    Args:
        tensors: the tensors.
        active: for tensors of experts, the share of them that processes a token.
    """
    every = list(tensors)
    convolves = any(
        len(shape) > 2 and info.name not in active and is_usually_pruned(info)
        for info, shape in every
    )
    work = sum(
        math.prod(shape) * active.get(info.name, 1.0)
        for info, shape in every
        if info.name in active or (len(shape) == 2 and is_usually_pruned(info))
    )
    return Figures(
        tensors=len(every),
        parameters=sum(math.prod(shape) for _, shape in every),
        nbytes=sum(size_in_bytes(shape, info.dtype) for info, shape in every),
        multiply_adds=None if convolves else round(work),
    )


def active_shares(
    groups: Iterable[tuple[CoupledGroup, int]],
    counts: Mapping[str, int],
    tensors: Mapping[str, TensorInfo],
) -> dict[str, float]:
    """Return the share of each tensor of experts that processes a token.

    The router's tensors have one row per expert, and process every token.

    Args:
        groups: the groups, each with the number of its units.
        counts: numbers from config.json.
        tensors: the tensors by name.
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
