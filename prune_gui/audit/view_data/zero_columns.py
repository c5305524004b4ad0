"""The columns of the zeros in the file, in the table of all parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prune_gui.language import deferred
from prune_gui.number_formats import sparsity
from prune_gui.statistics.file_zeros import FileZeros
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo
    from prune_gui.statistics.layer_rows import Rows


def zero_columns(
    file_zeros: FileZeros, rows: Rows, infos: Sequence[TensorInfo]
) -> tuple[Column[Rows], ...]:
    """Return the columns of the zeros in the file; none if there are no noticeable zeros.

    Args:
        file_zeros: the zeros of the file, as far as they are counted.
        rows: the rows.
        infos: the parameters in file order, which `rows.grouping` assigns to the rows.
    """
    if not file_zeros.noticeable():
        return ()
    counts = [file_zeros.counts.get(info.name, 0) for info in infos]
    zeros = np.zeros(len(rows), np.int64)
    np.add.at(zeros, rows.grouping.places, counts)
    patterns = [
        file_zeros.describe(info.name) if size == 1 else ""
        for info, size in zip(rows.infos, rows.size.tolist(), strict=True)
    ]
    return (
        Column(
            title=deferred("Zero in the file"),
            tip=deferred("Share of weights that are zero in the file"),
            values=lambda rows: zeros / rows.total,
            text=lambda rows, row: sparsity(int(zeros[row]), int(rows.total[row])),
            width_px=104,
            file_title=deferred("zero in the file"),
            file_rank=5,
            file_values=lambda _: zeros,
        ),
        Column(
            title=deferred("Patterns"),
            tip=deferred("Patterns in the zeros of the file: n:m, dead channels, heads, blocks"),
            values=lambda _: patterns,
            text=lambda _, row: patterns[row],
            is_number=False,
            width_px=150,
            file_title=deferred("patterns"),
            file_rank=5,
        ),
    )
