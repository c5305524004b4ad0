"""The card beside the overview: the file in numbers, and the parameters with warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prune_gui.audit.view_data.layer_columns import UNDEFINED_TEXT, warnings
from prune_gui.byte_counts import short_bytes
from prune_gui.language import format_number, join_items, tr
from prune_gui.number_formats import short_count, sparsity

if TYPE_CHECKING:
    from prune_gui.audit.statistics.layer_rows import Rows
    from prune_gui.audit.statistics.layers import LayerStatistics

MAX_WARNINGS: Final = 20
"""Maximum number of parameters whose warnings are listed; the others are counted."""


class CardRow(NamedTuple):
    """A row of the card.

    Attributes:
        label: what the row is about.
        text: its value.
        parameter: the parameter to which the row leads; None if it leads nowhere.
    """

    label: str
    text: str
    parameter: str | None = None


class Card(NamedTuple):
    """The content of the card.

    Attributes:
        facts: the file in numbers.
        warnings: the parameters with warnings, in file order; at most `MAX_WARNINGS`.
        more_warnings: the number of further parameters with warnings.
    """

    facts: tuple[CardRow, ...]
    warnings: tuple[CardRow, ...]
    more_warnings: int


def card(statistics: LayerStatistics, rows: Rows, blocks: int) -> Card:
    """Return the card of a file.

    Args:
        statistics: of all parameters, as far as they are computed.
        rows: the same, with one row per parameter.
        blocks: number of repeated blocks.
    """
    problems = rows.nearly_empty + rows.nan + rows.infinite + rows.dead
    found = np.flatnonzero(problems).tolist()
    listed = (
        CardRow(rows.names[row], tr("; ").join(warnings(rows, row)), rows.names[row])
        for row in found[:MAX_WARNINGS]
    )
    more = max(0, len(found) - MAX_WARNINGS)
    return Card(tuple(_facts(statistics, rows, blocks)), tuple(listed), more)


def _facts(statistics: LayerStatistics, rows: Rows, blocks: int) -> Iterator[CardRow]:
    pruned, total = statistics.resolution.total
    elements = Counter[str]()
    for info in statistics.infos:
        elements[info.dtype] += info.numel
    yield CardRow(tr("Parameters"), format_number(len(rows)))
    yield CardRow(tr("Weights"), short_count(total))
    yield CardRow(tr("Size"), short_bytes(int(statistics.sizes.sum())))
    yield CardRow(tr("Data type"), join_items(dtype for dtype, _ in elements.most_common()))
    if blocks:
        yield CardRow(tr("Blocks"), format_number(blocks))
    yield CardRow(tr("Pruned"), short_count(pruned))
    yield CardRow(tr("Sparsity"), sparsity(pruned, total))
    yield CardRow(tr("Kept energy"), _kept_energy(statistics))
    if pruned:
        row = int(np.argmax(rows.share))
        share = sparsity(int(rows.pruned[row]), int(rows.total[row]))
        yield CardRow(tr("Highest sparsity"), share, rows.names[row])


def _kept_energy(statistics: LayerStatistics) -> str:
    measures = statistics.measures
    if not statistics.is_complete:
        return tr("{percent:.0f} % read", percent=100 * statistics.progress)
    energy, kept = float(measures["energy"].sum()), float(measures["kept"].sum())
    if not np.isfinite(energy) or energy <= 0:
        return UNDEFINED_TEXT
    return tr("{percent:.2f} %", percent=100 * kept / energy)
