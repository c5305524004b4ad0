"""The tables of a comparison as texts: a summary, and the overlap of every parameter. No Qt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.gui.views.compare.data import Shades
from prune_gui.gui.views.legend_text import SEPARATOR, counted, marked, unbroken
from prune_gui.language import deferred, format_number, join_items, tr
from prune_gui.number_formats import percent, short_count, sparsity
from prune_gui.raster.colours import Colours
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.comparison.mask_overlap import Obstacle, Overlap
    from prune_gui.comparison.summary import Extent, SideSummary, Summary

UNKNOWN: Final = "…"
UNDEFINED: Final = "–"  # noqa: RUF001
MINUS: Final = "\N{MINUS SIGN}"
ARROW: Final = "\N{RIGHTWARDS ARROW}"
OBSTACLES: Final[dict[Obstacle, str]] = {
    "shape": deferred("{count:,} of another shape"),
    "not_left": deferred("{count:,} not on the left"),
    "not_right": deferred("{count:,} not on the right"),
    "not_prunable": deferred("{count:,} that cannot be pruned on both sides"),
}
"""Texts for the numbers of parameters that cannot be compared, by the reason."""


@dataclass(frozen=True, slots=True)
class SummaryCell:
    """A text, and a more exact one as its tool tip."""

    text: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row: left, right and difference; each of the parameter, then of all parameters."""

    title: str
    tip: str
    cells: tuple[SummaryCell, ...]


def summary_rows(summary: Summary | None) -> tuple[SummaryRow, ...]:
    """Return the rows of the table; None for a summary that is not computed."""
    columns: list[tuple[SummaryCell, ...]] = [(SummaryCell(UNKNOWN),) * 3] * 6
    left, right = (None, None) if summary is None else (summary.left, summary.right)
    if left is not None and right is not None:
        scopes = [(side.parameter, side.everything) for side in (left, right)]
        columns = [_cells(extent) for scope in scopes for extent in scope]
        columns += map(_change_cells, *scopes)
    sparsities, energies, counts = zip(*columns, strict=True)
    energy_tip = tr("Sum of the squares of the kept weights, as a share of all in the open file")
    return (
        SummaryRow(tr("Sparsity"), "", sparsities),
        SummaryRow(tr("Kept energy"), energy_tip, energies),
        SummaryRow(tr("Pruned"), tr("Number of pruned elements"), counts),
        _worst_row(left, right),
    )


def _cells(extent: Extent | None) -> tuple[SummaryCell, ...]:
    """Return the sparsity, the kept energy and the number of pruned elements."""
    if extent is None:
        return (SummaryCell(UNDEFINED),) * 3
    pruned, total, energy = extent.pruned, extent.total, extent.kept_energy
    return (
        SummaryCell(sparsity(pruned, total)),
        SummaryCell(UNKNOWN if energy is None else share_text(energy)),
        SummaryCell(short_count(pruned), tr("{pruned:,} of {total:,}", pruned=pruned, total=total)),
    )


def _change_cells(before: Extent | None, after: Extent | None) -> tuple[SummaryCell, ...]:
    if before is None or after is None:
        return (SummaryCell(UNDEFINED),) * 3
    change, old, new = after.pruned - before.pruned, before.kept_energy, after.kept_energy
    return (
        SummaryCell(points(after.sparsity - before.sparsity, 1)),
        SummaryCell(UNKNOWN if old is None or new is None else points(new - old, 2)),
        SummaryCell(
            _signed(short_count(abs(change)), change), _signed(format_number(abs(change)), change)
        ),
    )


def worst_names(summary: Summary | None) -> tuple[str, str]:
    """Return texts that name the worst layer on the left and on the right; "" for none."""
    left, right = (None, None) if summary is None else (summary.left.worst, summary.right.worst)
    return (
        tr("Worst on the left: {name}", name=one_line(left[0])) if left else "",
        tr("Worst on the right: {name}", name=one_line(right[0])) if right else "",
    )


def _worst_row(left: SideSummary | None, right: SideSummary | None) -> SummaryRow:
    none, cells = SummaryCell(""), []
    for side in (left, right):
        if side is not None and side.worst is not None:
            cells.append(SummaryCell(share_text(side.worst[1])))
        else:
            complete = side is not None and side.statistics.is_complete
            cells.append(SummaryCell(UNDEFINED if complete else UNKNOWN))
    change = SummaryCell(UNDEFINED)
    if left is not None and right is not None and left.worst and right.worst:
        change = SummaryCell(points(right.worst[1] - left.worst[1], 2))
    tip = tr("The parameter that keeps the smallest share of its energy, and that share")
    return SummaryRow(tr("Worst layer"), tip, (none, cells[0], none, cells[1], none, change))


def share_text(share: float) -> str:
    """Return a kept share with two decimals; "100 %" means exactly all."""
    if math.isnan(share):
        return UNDEFINED
    return percent(1.0) if share == 1 else tr("{percent:.2f} %", percent=100 * share)


def points(change: float, decimals: int) -> str:
    """Return the difference of two shares in percentage points: "+12.5 pp"."""
    if math.isnan(change):
        return UNDEFINED
    rounded = round(100 * change, decimals)
    number = format_number(abs(rounded), f".{decimals}f")
    return tr("{points} pp", points=_signed(number, rounded))


def _signed(text: str, change: float) -> str:
    return f"{'+' if change > 0 else MINUS if change < 0 else ''}{text}"


def _number_column(
    title: str,
    value: Callable[[Overlap], float],
    tip: str = "",
    spec: str = ",",
    file_title: str = "",
) -> Column[Sequence[Overlap]]:
    return Column(
        title=title,
        text=lambda rows, row: format_number(value(rows[row]), spec),
        values=lambda rows: [value(overlap) for overlap in rows],
        tip=tip,
        descending_first=True,
        file_title=file_title or title,
    )


def _patterns_text(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    if not left and not right:
        return ""
    before, after = (", ".join(names) or tr("none") for names in (left, right))
    return before if before == after else f"{before} {ARROW} {after}"


OVERLAP_COLUMNS: Final[tuple[Column[Sequence[Overlap]], ...]] = (
    Column(
        title=deferred("Parameter"),
        text=lambda rows, row: rows[row].name,
        values=lambda rows: [overlap.name for overlap in rows],
        is_number=False,
        file_title=deferred("Parameter"),
    ),
    _number_column(deferred("Both"), lambda overlap: overlap.both),
    _number_column(
        deferred("Left"),
        lambda overlap: overlap.left,
        deferred("Pruned on the left, kept on the right (revived)"),
        file_title=deferred("Only left"),
    ),
    _number_column(
        deferred("Right"),
        lambda overlap: overlap.right,
        deferred("Kept on the left, pruned on the right"),
        file_title=deferred("Only right"),
    ),
    _number_column(
        deferred("IoU"),
        lambda overlap: overlap.iou,
        deferred("Number pruned in both, divided by number pruned in either"),
        ".3f",
    ),
    Column(
        title=deferred("n:m"),
        text=lambda rows, row: _patterns_text(*rows[row].patterns),
        values=lambda rows: [_patterns_text(*overlap.patterns) for overlap in rows],
        tip=deferred("n:m patterns of each side along the input channels, left side first"),
        descending_first=True,
    ),
    Column(values=lambda rows: [overlap.total for overlap in rows], file_title=deferred("Total")),
    Column(
        values=lambda rows: [", ".join(overlap.patterns[0]) for overlap in rows],
        file_title=deferred("n:m on the left"),
    ),
    Column(
        values=lambda rows: [", ".join(overlap.patterns[1]) for overlap in rows],
        file_title=deferred("n:m on the right"),
    ),
)
"""The columns of the table; the last three are only in files."""

PATTERNS: Final = 5  # the column of the patterns


def legend(overlap: Overlap, colours: Colours, *, corrected: bool = False) -> str:
    """Return the legend of two pictures as rich text; see `ComparePainter.has_corrected`."""
    shades = Shades.of(colours)
    parts = (
        (shades.both, tr("pruned in both"), overlap.both),
        (shades.left, tr("only left (revived)"), overlap.left),
        (shades.right, tr("only right"), overlap.right),
        (shades.kept, tr("kept in both"), overlap.kept),
    )
    shown = (part for part in parts if part[2])
    entries = [marked(shade, counted(title, n, overlap.total)) for shade, title, n in shown]
    if corrected:
        entries.append(marked(shades.corrected, tr("kept in both, corrected")))
    return SEPARATOR.join([*entries, unbroken(tr("IoU {iou:.3f}", iou=overlap.iou))])


def total_text(overlap: Overlap, excluded: Counter[Obstacle]) -> str:
    """Describe how much two states prune in the parameters of the table, and what is left out."""
    total = _overlap_text(overlap)
    if not excluded:
        return total
    found = (obstacle for obstacle in OBSTACLES if excluded[obstacle])
    counts = (tr(OBSTACLES[obstacle], count=excluded[obstacle]) for obstacle in found)
    return tr("{total}. Parameters left out: {counts}", total=total, counts=join_items(counts))


def _overlap_text(overlap: Overlap) -> str:
    if not overlap.total:
        return tr("No parameter of the stack can be compared")
    if not overlap.left + overlap.right:
        return tr("In total: both prune the same {count:,} weights", count=overlap.both)
    return tr(
        "In total: {both:,} in both, {left:,} only left, {right:,} only right, IoU {iou:.3f}",
        both=overlap.both,
        left=overlap.left,
        right=overlap.right,
        iou=overlap.iou,
    )
