"""The channels of a target as the units that a method ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.base import Target, dimension
from prune_gui.pruning.decisions.units import Units
from prune_gui.pruning.methods.structured import ChannelMethod
from prune_gui.pruning.predicates import ChannelCut, count_per_channel

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning channels needs two dimensions or more. Leave it out of the "
    "targets, or use an unstructured method."
)


def channel_dimension(method: ChannelMethod, target: Target) -> int:
    """Return the dimension whose channels a method prunes, not negative."""
    return dimension(target, method.dim, min_dims=2, flat=FLAT)


def channel_units(
    target: Target,
    dim: int,
    rank: Callable[[Monitor], NDArray[np.floating[Any]]],
    rank_bytes: int = 0,
) -> Units:
    """Return the channels of a target along a dimension.

    Args:
        rank_bytes: number of bytes that `rank` reads.
    """
    return Units(
        target=target,
        label=lambda: tr("{name}, channels along dimension {dim}", name=target.name, dim=dim),
        remaining_elements=remaining_channels(target, dim),
        rank=rank,
        rank_bytes=rank_bytes,
        predicate=partial(ChannelCut, target.shape, dim),
    )


def remaining_channels(target: Target, dim: int) -> NDArray[np.int64]:
    """Return the number of remaining elements per channel along `dim` >= 0, int64."""
    if target.remaining_mask is not None:
        return count_per_channel(target.shape, dim, target.remaining_mask)
    channels = target.shape[dim]
    return np.full(channels, target.size // channels)
