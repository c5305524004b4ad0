"""The table of a comparison as texts: sparsity, kept energy, elements, worst layer. No Qt."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.language import deferred, format_number, tr
from prune_gui.number_formats import percent, short_count, sparsity

if TYPE_CHECKING:
    from prune_gui.comparison.summary import Extent, SideSummary, Summary

UNKNOWN: Final = "…"
UNDEFINED: Final = "–"  # noqa: RUF001
MINUS: Final = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the table.

    Attributes:
        text: the text.
        tip: a more exact text; "" for none.
    """

    text: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of the table.

    Attributes:
        title: its heading.
        tip: what it means; "" if the heading says it.
        cells: left, right and difference; each of the parameter, then of all parameters.
    """

    title: str
    tip: str
    cells: tuple[Cell, ...]


def summary_rows(summary: Summary | None) -> tuple[SummaryRow, ...]:
    """Return the rows of the table; None for a summary that is not computed."""
    sides = (None, None) if summary is None else (summary.left, summary.right)
    return (
        _row(deferred("Sparsity"), "", sides, _sparsity, _sparsity_change),
        _row(
            deferred("Kept energy"),
            deferred("Sum of the squares of the kept weights, as a share of all in the open file"),
            sides,
            _kept_energy,
            _energy_change,
        ),
        _row(deferred("Pruned"), deferred("Number of pruned elements"), sides, _pruned, _change),
        _worst_row(*sides),
    )


def _row(
    title: str,
    tip: str,
    sides: tuple[SideSummary | None, SideSummary | None],
    text: Callable[[Extent], Cell],
    change: Callable[[Extent, Extent], Cell],
) -> SummaryRow:
    tip = tr(tip) if tip else ""
    left, right = sides
    if left is None or right is None:
        return SummaryRow(tr(title), tip, (Cell(UNKNOWN),) * 6)
    scopes = [(side.parameter, side.everything) for side in (left, right)]
    extents = [one for scope in scopes for one in scope]
    differences = (
        Cell(UNDEFINED) if before is None or after is None else change(before, after)
        for before, after in zip(*scopes, strict=True)
    )
    cells = (Cell(UNDEFINED) if one is None else text(one) for one in extents)
    return SummaryRow(tr(title), tip, (*cells, *differences))


def worst_names(summary: Summary | None) -> tuple[str, str]:
    """Return texts that name the worst layer on the left and on the right; "" for none."""
    left, right = (None, None) if summary is None else (summary.left.worst, summary.right.worst)
    return (
        tr("Worst on the left: {name}", name=one_line(left[0])) if left else "",
        tr("Worst on the right: {name}", name=one_line(right[0])) if right else "",
    )


def _worst_row(left: SideSummary | None, right: SideSummary | None) -> SummaryRow:
    none, cells = Cell(""), []
    for side in (left, right):
        if side is not None and side.worst is not None:
            cells.append(Cell(share_text(side.worst[1])))
        else:
            complete = side is not None and side.statistics.is_complete
            cells.append(Cell(UNDEFINED if complete else UNKNOWN))
    change = Cell(UNDEFINED)
    if left is not None and right is not None and left.worst and right.worst:
        change = Cell(points(right.worst[1] - left.worst[1], 2))
    tip = tr("The parameter that keeps the smallest share of its energy, and that share")
    return SummaryRow(tr("Worst layer"), tip, (none, cells[0], none, cells[1], none, change))


def _sparsity(extent: Extent) -> Cell:
    return Cell(sparsity(extent.pruned, extent.total))


def _sparsity_change(before: Extent, after: Extent) -> Cell:
    return Cell(points(after.sparsity - before.sparsity, 1))


def _kept_energy(extent: Extent) -> Cell:
    return Cell(UNKNOWN if extent.kept_energy is None else share_text(extent.kept_energy))


def _energy_change(before: Extent, after: Extent) -> Cell:
    if before.kept_energy is None or after.kept_energy is None:
        return Cell(UNKNOWN)
    return Cell(points(after.kept_energy - before.kept_energy, 2))


def _pruned(extent: Extent) -> Cell:
    exact = tr("{pruned:,} of {total:,}", pruned=extent.pruned, total=extent.total)
    return Cell(short_count(extent.pruned), tip=exact)


def _change(before: Extent, after: Extent) -> Cell:
    change = after.pruned - before.pruned
    exact = _signed(format_number(abs(change)), change)
    return Cell(_signed(short_count(abs(change)), change), tip=exact)


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
