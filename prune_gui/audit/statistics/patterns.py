"""n:m patterns: in every group of m neighbours, at most n entries are other than zero."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.recipe import Resolution
from prune_gui.recipe.pruned_by_codes import KEPT

GROUPS: Final[tuple[int, ...]] = (4, 8)
"""Lengths of groups of consecutive entries; chunks hold whole groups."""
PATTERNS: Final = {"1:4": (4, 3), "2:4": (4, 2), "4:8": (8, 4)}
"""The entries of a group, and how many of them are zero at least."""


def possible(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the patterns that a tensor of a shape can follow.

    Groups lie along the input channels: dim 1 and those after it, flattened, which has to divide
    into groups.
    """
    length = math.prod(shape[1:]) if len(shape) > 1 else 0
    return tuple(name for name, (m, _) in PATTERNS.items() if length and length % m == 0)


def followed(patterns: Iterable[str], fewest: tuple[int, ...]) -> tuple[str, ...]:
    """Return the patterns that are followed.

    Args:
        patterns: that are possible.
        fewest: zeros of that group that has the fewest, for each length in `GROUPS`.
    """
    zeros = dict(zip(GROUPS, fewest, strict=True))
    return tuple(name for name in patterns if zeros[PATTERNS[name][0]] >= PATTERNS[name][1])


def followed_by(resolution: Resolution, name: str, monitor: Monitor) -> tuple[str, ...]:
    """Return the patterns that the mask of a parameter follows; pruned entries are its zeros.

    Entries are looked at only if enough of them are pruned, and until no pattern is left.

    Raises:
        Cancelled: the monitor said so.
    """
    pruned, total = resolution.counts[name]
    wanted = [
        pattern
        for pattern in possible(resolution.checkpoint.tensors[name].shape)
        if pruned * PATTERNS[pattern][0] >= total * PATTERNS[pattern][1]
    ]
    if not wanted:
        return ()

    def look(span: tuple[int, int]) -> tuple[int, ...]:
        monitor.advance(span[1] - span[0])
        return fewest_in_groups(resolution.pruned_by_within(name, *span) != KEPT)

    monitor.expect(total)
    fewest = GROUPS
    for found in run(look, chunks(total)):
        fewest = tuple(map(min, fewest, found))
        if not followed(wanted, fewest):
            break
    return followed(wanted, fewest)


def fewest_in_groups(zero: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return how many are True in the group that has the fewest, for each length in `GROUPS`.

    Args:
        zero: of consecutive entries; those after the last whole group do not count.
    """
    found = []
    for length in GROUPS:
        whole = zero[: len(zero) // length * length].view(f"u{length}")
        found.append(int(np.bitwise_count(whole).min(initial=length)))
    return tuple(found)
