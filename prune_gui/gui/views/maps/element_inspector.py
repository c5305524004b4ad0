"""The strip below a map that describes one element: its value, and its score in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from prune_gui.audit.view_data.element_text import ElementText, StepRow
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import RecordModel, TableView
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold
from prune_gui.language import deferred, tr
from prune_gui.table import Column, record_column

VISIBLE_ROWS: Final = 3
"""Number of steps that are visible at once; more are scrolled."""
ROW_MARGIN_PX: Final = 3
LABEL_CHARS: Final = 19
"""Width of the labels, in average characters."""
COLUMNS: Final[tuple[Column[Sequence[StepRow]], ...]] = (
    record_column(deferred("Step"), lambda row: row.step, lambda row: row.step, is_number=False),
    record_column(deferred("Score"), lambda row: row.score, lambda row: row.score),
    record_column(deferred("Cut"), lambda row: row.cut, lambda row: row.cut),
    record_column(deferred("Rank"), lambda row: row.rank, lambda row: row.rank),
)


class ElementInspector(QWidget):
    """Describes an element. Its height is the same for all elements, and without one."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Weight under the cursor, or the pinned one"))
        self._labels = [
            ElidedLabel(name)
            for name in (tr("Index"), tr("Value"), tr("State"), tr("Whether it is pinned"))
        ]
        self._labels[0].setFont(bold(self.font()))
        self._model = RecordModel[StepRow](COLUMNS, self)
        self._table = TableView(self._model, tr("Score of the weight in every step"))
        self._table.setFrameShape(QFrame.Shape.NoFrame)
        self._table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self._table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._table.verticalHeader().hide()
        header = self._table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(1)
        self._side = QWidget()
        lines = QVBoxLayout(self._side)
        lines.setContentsMargins(GAP_PX, 0, 0, 0)
        lines.setSpacing(0)
        for label in self._labels:
            lines.addWidget(label)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, TIGHT_PX, 0, 0)
        layout.setSpacing(GAP_PX)
        layout.addWidget(self._side)
        layout.addWidget(self._table, 1)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._fit_font()
        self.clear()

    def show_element(self, text: ElementText, *, pinned: bool) -> None:
        """Describe an element."""
        note = tr("pinned (Esc)") if pinned else tr("click to pin")
        self._say(text.index, text.value, text.state, note)
        if text.rows != self._model.rows:
            self._model.show(text.rows)

    def clear(self) -> None:
        """Describe no element."""
        self._say("", tr("point at a weight"), "", "")
        self._model.show(())

    @property
    def texts(self) -> list[str]:
        """The texts of the labels, then of the cells of the table, row by row."""
        cells = [
            cell for row in self._model.rows for cell in (row.step, row.score, row.cut, row.rank)
        ]
        return [label.accessibleDescription() for label in self._labels] + cells

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the height, and the minimum width: the strip never makes the window grow."""
        return QSize(1, self.height())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_font()

    def _say(self, *texts: str) -> None:
        for label, text in zip(self._labels, texts, strict=True):
            label.say(text)
            label.setToolTip(text)

    def _fit_font(self) -> None:
        """Fix the height to that of `VISIBLE_ROWS` rows, and the width of the labels."""
        metrics = self.fontMetrics()
        row_px = metrics.height() + ROW_MARGIN_PX
        self._table.verticalHeader().setDefaultSectionSize(row_px)
        header_px = self._table.horizontalHeader().sizeHint().height()
        margins = self.contentsMargins()
        self._side.setFixedWidth(LABEL_CHARS * metrics.averageCharWidth())
        self.setFixedHeight(header_px + VISIBLE_ROWS * row_px + margins.top() + 2)
