"""A table of how much two states prune of each parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView

from prune_gui.gui.widgets.table_widgets import SortableModel, TableView
from prune_gui.language import deferred, format_number, tr
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.comparison.mask_overlap import Overlap
    from prune_gui.table import Table

ARROW: Final = "\N{RIGHTWARDS ARROW}"
MIN_COLUMN_WIDTH_PX: Final = 48
MIN_NAME_WIDTH_PX: Final = 240
"""Minimum width of the names. Wider tables scroll."""


def _number(
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


def _patterns_in_file(title: str, side: int) -> Column[Sequence[Overlap]]:
    return Column(
        values=lambda rows: [", ".join(overlap.patterns[side]) for overlap in rows],
        file_title=title,
    )


def _patterns_text(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    """Return the patterns that each side follows; "" if neither follows any."""
    if not left and not right:
        return ""
    before, after = (", ".join(names) or tr("none") for names in (left, right))
    return before if before == after else f"{before} {ARROW} {after}"


COLUMNS: Final[tuple[Column[Sequence[Overlap]], ...]] = (
    Column(
        title=deferred("Parameter"),
        text=lambda rows, row: rows[row].name,
        values=lambda rows: [overlap.name for overlap in rows],
        is_number=False,
        file_title=deferred("Parameter"),
    ),
    _number(deferred("Both"), lambda overlap: overlap.both),
    _number(
        deferred("Left"),
        lambda overlap: overlap.left,
        deferred("Pruned on the left, kept on the right (revived)"),
        file_title=deferred("Only left"),
    ),
    _number(
        deferred("Right"),
        lambda overlap: overlap.right,
        deferred("Kept on the left, pruned on the right"),
        file_title=deferred("Only right"),
    ),
    _number(
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
    _patterns_in_file(deferred("n:m on the left"), 0),
    _patterns_in_file(deferred("n:m on the right"), 1),
)
"""The columns of the table; the last three are only in files."""

PATTERNS: Final = 5
"""The column of the patterns."""


class OverlapTable(TableView):
    """Shows overlaps; a click on a heading sorts, and a third click restores the order of the file.

    Signals:
        chosen: (name) the user selected the row of a parameter.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        self._model: SortableModel[Sequence[Overlap]] = SortableModel(COLUMNS, ())
        super().__init__(self._model, tr("Every parameter in both"))
        self._name: str | None = None
        self._marking = False
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setFrameShape(self.Shape.NoFrame)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Fixed)
        header.sectionResized.connect(self._fit_names)
        header.setMinimumSectionSize(MIN_COLUMN_WIDTH_PX)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        self._model.modelReset.connect(self._mark)
        self._model.layoutChanged.connect(self._mark)
        self.selectionModel().currentRowChanged.connect(self._current_row_changed)

    def show_rows(self, rows: Sequence[Overlap]) -> None:
        """Replace the rows. Without any n:m pattern, their column makes room for the names."""
        self._model.show(rows)
        self.setColumnHidden(PATTERNS, all(row.patterns == ((), ()) for row in rows))
        self._fit_names()

    def _fit_names(self, resized: int = PATTERNS) -> None:
        """Give the names the remaining width, but at least `MIN_NAME_WIDTH_PX`."""
        if resized > 0:  # another column than that of the names
            others = sum(map(self.columnWidth, range(1, PATTERNS + 1)))
            self.setColumnWidth(0, max(MIN_NAME_WIDTH_PX, self.viewport().width() - others))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Fit the names to the new width."""
        super().resizeEvent(event)
        self._fit_names()

    def as_table(self, title: str) -> Table:
        """Return the rows in the order on the screen, for export."""
        return self._model.table(title)

    def mark(self, name: str | None) -> None:
        """Mark the row of a parameter without emitting `chosen`."""
        if name != self._name:
            self._name = name
            self._mark()

    def _mark(self) -> None:
        row = next((i for i, row in enumerate(self._model.rows) if row.name == self._name), None)
        self.executeDelayedItemsLayout()  # otherwise scrolling is limited by the previous rows
        self._marking = True
        if row is None:
            self.selectionModel().clear()
        else:
            index = self._model.index(self._model.position_of(row), 0)
            self.setCurrentIndex(index)
            self.scrollTo(index)
        self._marking = False

    def _current_row_changed(self, current: QModelIndex) -> None:
        if current.isValid() and not self._marking:
            self.chosen.emit(self._model.rows[self._model.row_at(current.row())].name)
