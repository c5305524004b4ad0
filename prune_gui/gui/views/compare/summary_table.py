"""A small table of what both sides of a comparison prune and keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from prune_gui.gui.views.compare.text import summary_rows, worst_names
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.gui.widgets.spacing import GAP_PX, TIGHT_PX
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.comparison.summary import Summary

GROUPS: Final = (deferred("Left"), deferred("Right"), deferred("Difference"))
SCOPES: Final = (deferred("parameter"), deferred("all"))
COLUMNS: Final = len(GROUPS) * len(SCOPES)
ALIGNMENT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class SummaryTable(QWidget):
    """Shows rows of a left side, a right side and their difference.

    Each has a column for the chosen parameter and one for all parameters. Below are the names of
    the worst layers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Summary of the comparison"))
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        self._grid.setHorizontalSpacing(GAP_PX)
        self._grid.setVerticalSpacing(TIGHT_PX)
        for group, title in enumerate(GROUPS):
            self._grid.addWidget(_heading(tr(title)), 0, 1 + 2 * group, 1, 2)
            for scope, text in enumerate(SCOPES):
                self._grid.addWidget(_heading(tr(text)), 1, 1 + 2 * group + scope)
        for column in range(1, 1 + COLUMNS):
            self._grid.setColumnStretch(column, 1)
        self._labels: list[list[QLabel]] = []
        for row, content in enumerate(summary_rows(None), start=2):
            labels = [QLabel(), *(QLabel(alignment=ALIGNMENT) for _ in content.cells)]
            for column, label in enumerate(labels):
                self._grid.addWidget(label, row, column)
            self._labels.append(labels)
        self._names = [
            ElidedLabel(tr("Worst layer"), elide=Qt.TextElideMode.ElideMiddle) for _ in range(2)
        ]
        for side, label in enumerate(self._names):
            label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
            self._grid.addWidget(label, 2 + len(self._labels) + side, 0, 1, 1 + COLUMNS)
        self.show_summary(None)

    def texts(self) -> list[list[str]]:
        """Return the titles and the texts of the cells, row by row."""
        return [[label.text() for label in labels] for labels in self._labels]

    def show_summary(self, summary: Summary | None) -> None:
        """Show a summary; None for one that is not computed."""
        for labels, row in zip(self._labels, summary_rows(summary), strict=True):
            labels[0].setText(row.title)
            labels[0].setToolTip(row.tip)
            for label, cell in zip(labels[1:], row.cells, strict=True):
                label.setText(cell.text)
                label.setToolTip(cell.tip)
        for name_label, name in zip(self._names, worst_names(summary), strict=True):
            name_label.say(name)
            name_label.setToolTip(name)
            name_label.setVisible(bool(name))


def _heading(text: str) -> QLabel:
    label = QLabel(text, alignment=ALIGNMENT)
    label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
    return label
