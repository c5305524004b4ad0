"""The k smallest of every row of a tensor, each row by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning import parallel
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.selection.keys import Bits, with_equal_nans
from prune_gui.pruning.selection.radix_select import Ranking


@dataclass(frozen=True, slots=True)
class RowCuts:
    """Where each row is cut; as `Cut`, but with arrays of one number per row.

    Attributes:
        thresholds: keys, in the type of the bits.
        last_ties: int64, places within the row; -1 where no tie goes.
    """

    thresholds: Bits
    last_ties: NDArray[np.int64]


def find_row_cuts(ranking: Ranking, units: NDArray[np.int64]) -> RowCuts:
    """Return the cuts that prune so many of the smallest keys of each row.

    Args:
        ranking: its rows are as many equal stretches as there are `units`.
        units: one number per row, at most as many as the row's entries that are still there.
    """
    columns = ranking.keys.size // len(units)
    thresholds = np.zeros(len(units), ranking.keys.bits(0, 0).dtype)
    last_ties = np.full(len(units), -1, np.int64)

    def cut(rows: tuple[int, int]) -> None:
        start, stop = (row * columns for row in rows)
        bits = ranking.keys.bits(start, stop)
        remaining_mask = (
            None if ranking.remaining_mask is None else ranking.remaining_mask(start, stop)
        )
        here = slice(*rows)
        magnitude = bits.dtype.type(ranking.keys.magnitude)
        key_kernels.cut_rows(
            bits, magnitude, remaining_mask, units[here], thresholds[here], last_ties[here]
        )

    per_task = max(1, parallel.CHUNK_ELEMENTS // max(columns, 1))
    tasks = [(row, min(row + per_task, len(units))) for row in range(0, len(units), per_task)]
    for _ in parallel.run(cut, tasks):
        pass
    keys = with_equal_nans(ranking.keys, int(thresholds.max(initial=0)))
    if keys is not ranking.keys:
        return find_row_cuts(replace(ranking, keys=keys), units)
    return RowCuts(thresholds, last_ties)
