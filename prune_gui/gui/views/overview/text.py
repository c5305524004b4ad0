"""The card beside the overview: the file in numbers, and the parameters with warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prune_gui.gui.views.layers.columns import UNDEFINED_TEXT
from prune_gui.language import format_number, join_items, tr
from prune_gui.number_formats import short_bytes, short_count, sparsity
from prune_gui.pruning.methods.coupled import DeadUnits
from prune_gui.recipe.recipe import IN_FILE

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution
    from prune_gui.statistics.file_zeros import FileZeros
    from prune_gui.statistics.layer_rows import Rows
    from prune_gui.statistics.layer_statistics import LayerStatistics

MAX_LISTED: Final = 20


class CardRow(NamedTuple):
    """A row of the card, which may lead to a parameter."""

    label: str
    text: str
    parameter: str | None = None


class CardList(NamedTuple):
    """The first `MAX_LISTED` of a list of parameters, each with a text, and the number of all."""

    rows: tuple[CardRow, ...]
    total: int


class FileCard(NamedTuple):
    """The file in numbers, and its parameters with patterns and with warnings, in file order.

    It has dead ones if a step leaves channels dead of which other tensors may have elements.
    """

    facts: tuple[CardRow, ...]
    patterns: CardList
    warnings: CardList
    has_dead: bool = False


def card(statistics: LayerStatistics, rows: Rows, blocks: int, file_zeros: FileZeros) -> FileCard:
    """Return the card of a file."""
    problems = rows.nearly_empty + rows.nan + rows.infinite + rows.dead
    found = np.flatnonzero(problems).tolist()
    warned = [
        CardRow(rows.names[row], tr("; ").join(rows.warnings(row)), rows.names[row])
        for row in found[:MAX_LISTED]
    ]
    patterns = {name: text for name in file_zeros.patterns if (text := file_zeros.describe(name))}
    recognized = [CardRow(name, text, name) for name, text in islice(patterns.items(), MAX_LISTED)]
    return FileCard(
        tuple(_facts(statistics, rows, blocks, file_zeros)),
        CardList(tuple(recognized), len(patterns)),
        CardList(tuple(warned), len(found)),
        _leaves_dead(statistics.resolution, rows),
    )


def _leaves_dead(resolution: Resolution, rows: Rows) -> bool:
    """Return whether a step leaves channels dead of which other tensors may still have elements.

    Coupled steps prune units in all of them.
    """
    enabled = [step for step in resolution.recipe.steps if step.enabled]
    if not enabled or isinstance(enabled[-1].method, DeadUnits):
        return False
    steps = enumerate(resolution.recipe.steps, start=1)
    coupled = {number for number, step in steps if step.method.is_coupled}
    dead = np.flatnonzero(rows.dead > rows.dead_in_file).tolist()
    return any(
        applied.step not in coupled and applied.step != IN_FILE
        for row in dead
        for applied in resolution.layers.get(rows.names[row], ())
    )


def _facts(
    statistics: LayerStatistics, rows: Rows, blocks: int, file_zeros: FileZeros
) -> Iterator[CardRow]:
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
    if file_zeros.zeros:
        share = sparsity(file_zeros.zeros, file_zeros.elements)
        yield CardRow(tr("Zero in the file"), share)
    share = sparsity(pruned, total)
    yield CardRow(tr("Pruned"), tr("{count} ({share})", count=short_count(pruned), share=share))
    yield CardRow(tr("Kept energy"), _kept_energy(statistics))
    if pruned:
        row = int(np.argmax(rows.share))
        share = sparsity(int(rows.pruned[row]), int(rows.total[row]))
        yield CardRow(tr("Highest sparsity"), share, rows.names[row])


def _kept_energy(statistics: LayerStatistics) -> str:
    measures = statistics.measures
    if not (statistics.is_complete or statistics.is_pending):
        return tr("not fetched")
    if not statistics.is_complete:
        return tr("{percent:.0f} % read", percent=100 * statistics.progress)
    energy, kept = float(measures["energy"].sum()), float(measures["kept"].sum())
    if not np.isfinite(energy) or energy <= 0:
        return UNDEFINED_TEXT
    if statistics.reference is not statistics.checkpoint:
        return tr("{percent:.2f} % of the original", percent=100 * kept / energy)
    return tr("{percent:.2f} %", percent=100 * kept / energy)
