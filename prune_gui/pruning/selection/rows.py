"""Selection of the k lowest scores within each row of a tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning import parallel
from prune_gui.pruning.kernels import keys as key_kernels
from prune_gui.pruning.selection.keys import Bits, with_equal_nans
from prune_gui.pruning.selection.ranking import Ranking


@dataclass(frozen=True, slots=True)
class RowCuts:
    """The cut of each row, as `Cut` with an array element per row.

    Attributes:
        thresholds: shape (rows,), keys in the dtype of the bits.
        last_ties: shape (rows,), int64, column of the last pruned tie; -1 where no tie is pruned.
    """

    thresholds: Bits
    last_ties: NDArray[np.int64]


def find_row_cuts(ranking: Ranking, units: NDArray[np.int64]) -> RowCuts:
    """Return the cuts that prune the `units` smallest keys of each row.

    Args:
        ranking: the elements of all rows, in row-major order.
        units: shape (rows,), at most the number of remaining elements of each row.
    """
    columns = ranking.keys.size // len(units)
    thresholds = np.zeros(len(units), ranking.keys.bits(0, 0).dtype)
    last_ties = np.full(len(units), -1, np.int64)

    def cut_rows(rows: tuple[int, int]) -> None:
        start, stop = (row * columns for row in rows)
        bits = ranking.keys.bits(start, stop)
        remaining_mask = (
            None if ranking.remaining_mask is None else ranking.remaining_mask(start, stop)
        )
        row_slice = slice(*rows)
        magnitude = bits.dtype.type(ranking.keys.magnitude)
        key_kernels.cut_rows(
            bits,
            magnitude,
            remaining_mask,
            units[row_slice],
            thresholds[row_slice],
            last_ties[row_slice],
        )

    per_task = max(1, parallel.CHUNK_ELEMENTS // max(columns, 1))
    tasks = [(row, min(row + per_task, len(units))) for row in range(0, len(units), per_task)]
    for _ in parallel.run(cut_rows, tasks):
        pass
    keys = with_equal_nans(ranking.keys, int(thresholds.max(initial=0)))
    if keys is not ranking.keys:
        return find_row_cuts(replace(ranking, keys=keys), units)
    return RowCuts(thresholds, last_ties)
