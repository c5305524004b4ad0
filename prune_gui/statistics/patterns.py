"""n:m patterns: at most n of every m consecutive elements are nonzero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.monitor import Monitor
from prune_gui.pruning.parallel import chunks, run
from prune_gui.recipe import Resolution, stack
from prune_gui.recipe.pruned_by_codes import KEPT
from prune_gui.statistics.spreading import map_parameters

GROUPS: Final[tuple[int, ...]] = (4, 8)
"""Lengths of groups of consecutive elements; chunks consist of whole groups."""
PATTERNS: Final = {"1:4": (4, 3), "2:4": (4, 2), "4:8": (8, 4)}
"""The length of a group, and the minimum number of zeros in it."""


def possible(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the patterns that a tensor of a shape can follow.

    Groups are along the input channels: the flattened dims from 1 on, whose size must be a multiple
    of the group length.
    """
    length = math.prod(shape[1:]) if len(shape) > 1 else 0
    return tuple(name for name, (m, _) in PATTERNS.items() if length and length % m == 0)


def followed(patterns: Iterable[str], fewest: tuple[int, ...]) -> tuple[str, ...]:
    """Return the patterns that a tensor follows."""
    zeros = dict(zip(GROUPS, fewest, strict=True))
    return tuple(name for name in patterns if zeros[PATTERNS[name][0]] >= PATTERNS[name][1])


def followed_by(
    resolution: Resolution, names: Sequence[str], monitor: Monitor
) -> list[tuple[str, ...]]:
    """Return the patterns that the masks of parameters follow; pruned elements are their zeros.

    A mask is computed only if enough elements are pruned, and until no pattern is possible.
    """
    tasks, found = {}, dict[str, tuple[str, ...]]()
    for name in names:
        pruned, total = resolution.counts[name]
        wanted = [
            pattern
            for pattern in possible(resolution.checkpoint.tensors[name].shape)
            if pruned * PATTERNS[pattern][0] >= total * PATTERNS[pattern][1]
        ]
        if wanted:
            tasks[name] = wanted, resolution.layers.get(name, ()), total
    nbytes = sum(resolution.checkpoint.tensors[name].nbytes for name in tasks)
    monitor.expect(sum(total for *_, total in tasks.values()))
    results = map_parameters(_followed, tasks.values(), nbytes, monitor)
    found |= zip(tasks, results, strict=True)
    return [found.get(name, ()) for name in names]


def _followed(
    task: tuple[Sequence[str], Sequence[stack.AppliedStep], int], monitor: Monitor
) -> tuple[str, ...]:
    """Return which of some patterns a mask of a number of elements follows."""
    wanted, applied, total = task

    def fewest_in_span(span: tuple[int, int]) -> tuple[int, ...]:
        monitor.advance(span[1] - span[0])
        return fewest_in_groups(stack.pruned_by(applied, *span) != KEPT)

    fewest = GROUPS
    for fewest_here in run(fewest_in_span, chunks(total)):
        fewest = tuple(map(min, fewest, fewest_here))
        if not followed(wanted, fewest):
            break
    return followed(wanted, fewest)


def fewest_in_groups(zero: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return, for each length in `GROUPS`, the minimum number of True in a group."""
    fewest = []
    for length in GROUPS:
        whole = zero[: len(zero) // length * length].view(f"u{length}")
        fewest.append(int(np.bitwise_count(whole).min(initial=length)))
    return tuple(fewest)
