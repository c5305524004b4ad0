"""The cut of random keys in one pass, because it is known beforehand about where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.pruning.arrays import Bits, Ints
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.keys import RandomKeys, Ranking, blocks

DEVIATIONS: Final = 8
"""Half the width of the interval that is searched: the cut is outside once in 10^15 times."""
SPARE: Final = 64
"""Further keys on each side, which count where there are few."""

Found = tuple[int, int, Bits, Ints]
"""The index of a ranking, its keys below an interval, and the keys in it with their indices."""


def random_threshold(
    rankings: Sequence[Ranking], k: int, monitor: Monitor
) -> tuple[int, list[tuple[int, Ints]]] | None:
    """Return the `k`-th lowest key of all rankings, and of each the lower keys and the equal ones.

    The former are counted, the latter are flat indices. None if the keys are not independent and
    uniform, or if this is the one case in which the interval misses the cut.
    """
    if not k > 0 or not all(
        type(own.keys) is RandomKeys and own.remaining_mask is None and own.max_pruned is None
        for own in rankings
    ):
        return None
    size = sum(own.keys.size for own in rankings)
    share, every = k / size, rankings[0].keys.magnitude + 1
    half = (DEVIATIONS * math.sqrt(size * share * (1 - share)) + SPARE) / size
    low, high = int(max(share - half, 0) * every), int(min(share + half, 1) * every) - 1

    def search(task: tuple[int, tuple[int, int]]) -> Found:
        index, (start, stop) = task
        keys, below = rankings[index].keys, 0
        monitor.advance((stop - start) * keys.width)
        found = [np.empty(0, np.uint32)]
        indices = [np.empty(0, np.int64)]
        positions = np.empty(stop - start, np.uint32)
        for first, last in blocks(keys, start, stop):
            bits = keys.bits(first, last)
            below += int(np.count_nonzero(bits < low))
            count = key_kernels.find_between(
                bits, np.uint32(keys.magnitude), np.uint32(low), np.uint32(high), positions
            )
            found.append(bits[positions[:count]])
            indices.append(positions[:count].astype(np.int64) + first)
        return index, below, np.concatenate(found), np.concatenate(indices)

    tasks = [
        (index, span)
        for index, own in enumerate(rankings)
        for span in parallel.chunks(own.keys.size)
    ]
    parts = list(parallel.run(search, tasks))
    keys = np.concatenate([part[2] for part in parts])
    wanted = k - sum(part[1] for part in parts)
    if not 0 < wanted <= keys.size:
        return None
    threshold = int(np.partition(keys, wanted - 1)[wanted - 1])
    of_each: dict[int, tuple[int, Ints]] = dict.fromkeys(
        range(len(rankings)), (0, np.empty(0, np.int64))
    )
    for index, own in groupby(parts, itemgetter(0)):
        some = list(own)
        lower = sum(part[1] + int(np.count_nonzero(part[2] < threshold)) for part in some)
        of_each[index] = lower, np.concatenate([part[3][part[2] == threshold] for part in some])
    return threshold, [of_each[index] for index in range(len(rankings))]
