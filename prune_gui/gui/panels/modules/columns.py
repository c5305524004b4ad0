"""How the columns of the tree share its width."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QHeaderView, QTreeView

from prune_gui.gui.panels.modules.model import Column

WIDEST: Final = {
    Column.SPARSITY: "> 99.9 %",
    Column.SHAPE: "65536 × 4096",  # noqa: RUF001
    Column.TYPE: "bfloat16",
    Column.PARAMETERS: "999,999,999",
}
"""What a column has room for at first; anything longer is cut in the middle."""
WIDEST_SHAPE: Final = "9999 × 9999 × 9 × 9"  # noqa: RUF001
"""For such shapes their column has room where the names and the sparsity leave it."""
BAR: Final = 28
"""Pixels for the bar beside the sparsity."""
MARGIN: Final = 12
ROWS: Final = 50
"""So many names are measured, and all in sight: each takes time."""
MOST_FOR_NAMES: Final = 0.6
"""Of the width; a name that is longer still is cut."""


class TreeColumns(QObject):
    """Gives the names the width they need, and never lets the tree scroll sideways.

    Where the other columns do not fit beside them, these are hidden, from the right; the tool tip
    of a row says what they have.
    """

    def __init__(self, tree: QTreeView) -> None:
        super().__init__(tree)
        self._tree = tree
        advance = tree.fontMetrics().horizontalAdvance
        self._widths = {column: advance(text) + MARGIN for column, text in WIDEST.items()}
        self._widths[Column.SPARSITY] += BAR
        self._most_for_shapes = advance(WIDEST_SHAPE) + MARGIN
        self._chosen: set[Column] = set()
        self._fits = False
        header = tree.header()
        header.setStretchLastSection(False)
        header.setResizeContentsPrecision(ROWS)
        header.setSectionResizeMode(Column.NAME, QHeaderView.ResizeMode.Stretch)
        for column, width in self._widths.items():
            header.resizeSection(column, width)
        header.sectionResized.connect(self._keep)
        # Rows are opened by the dozen: they are measured once, when that is over.
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._fit)
        tree.expanded.connect(self._soon.start)
        tree.collapsed.connect(self._soon.start)
        tree.model().modelReset.connect(self._soon.start)
        tree.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Share the width anew when it changes."""
        if event.type() == QEvent.Type.Resize:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        tree = self._tree
        width = tree.viewport().width()
        room = width - min(tree.sizeHintForColumn(Column.NAME), int(MOST_FOR_NAMES * width))
        self._fits = True
        for column, wanted in (self._widths | {Column.SHAPE: self._for_shapes(room)}).items():
            room -= wanted
            tree.setColumnHidden(column, room < 0)
            if column == Column.SHAPE and room >= 0:
                tree.header().resizeSection(column, wanted)
        self._fits = False

    def _for_shapes(self, room: int) -> int:
        """Return the width of their column: what the longest needs, or what there is of it."""
        width = self._widths[Column.SHAPE]
        if Column.SHAPE in self._chosen:
            return width
        needed = min(self._tree.sizeHintForColumn(Column.SHAPE), self._most_for_shapes)
        return max(width, min(needed, room - self._widths[Column.SPARSITY]))

    def _keep(self, column: int, _before: int, width: int) -> None:
        """Remember what the user made of a column; one that is hidden has no width."""
        if column != Column.NAME and width and not self._fits:
            self._chosen.add(Column(column))
            self._widths[Column(column)] = width
