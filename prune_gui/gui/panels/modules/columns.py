"""The widths of the columns of the module tree."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QModelIndex, QObject, QTimer
from PySide6.QtWidgets import QHeaderView, QTreeView

from prune_gui.gui.panels.modules.model import TreeColumn, TreeModel

WIDEST: Final = {
    TreeColumn.SPARSITY: "> 99.9 %",
    TreeColumn.ZEROS: "> 99.9 %",
    TreeColumn.SHAPE: "65536 × 4096",  # noqa: RUF001
    TreeColumn.TYPE: "bfloat16",
    TreeColumn.PARAMETERS: "999,999,999",
}
"""Sample texts that define the initial widths; longer texts are elided in the middle."""
WIDEST_SHAPE: Final = "9999 × 9999 × 9 × 9"  # noqa: RUF001
"""Sample text that limits the automatic width of the shape column."""
BARS: Final = TreeColumn.SPARSITY, TreeColumn.ZEROS
"""The columns with a bar beside the share."""
BAR_PX: Final = 28
MARGIN_PX: Final = 12
MEASURED_ROWS: Final = 50
"""Number of rows outside the viewport that Qt measures; each takes time."""
MAX_NAME_SHARE: Final = 0.6
"""Limit of the share of the width for names; longer names are elided."""
MAX_NAME_SHARE_WITH_ZEROS: Final = 0.5
"""The same limit while the column of zeros is shown."""


class ColumnWidths(QObject):
    """Gives the name column the width it needs, without horizontal scrolling.

    Other columns that do not fit are hidden, starting from the right. The tool tip of a row
    contains their values.
    """

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree)
        self._tree, self._model = tree, model
        advance = tree.fontMetrics().horizontalAdvance
        self._widths = {column: advance(text) + MARGIN_PX for column, text in WIDEST.items()}
        self._width_without_bar = advance(WIDEST[TreeColumn.SPARSITY]) + MARGIN_PX // 2
        for column in BARS:
            self._widths[column] += BAR_PX
        self._max_shape_width = advance(WIDEST_SHAPE) + MARGIN_PX
        self._resized_by_user: set[TreeColumn] = set()
        self._fitting = False
        header = tree.header()
        header.setStretchLastSection(False)
        header.setResizeContentsPrecision(MEASURED_ROWS)
        header.setSectionResizeMode(TreeColumn.NAME, QHeaderView.ResizeMode.Stretch)
        for column, width in self._widths.items():
            header.resizeSection(column, width)
        header.sectionResized.connect(self._remember_width)
        # Many rows may be expanded at once; the timer measures them once, afterwards.
        self._fit_timer = QTimer(self, singleShot=True, interval=0)
        self._fit_timer.timeout.connect(self._fit)
        tree.expanded.connect(self._fit_timer.start)
        tree.collapsed.connect(self._fit_timer.start)
        tree.model().modelReset.connect(self._fit_timer.start)
        model.dataChanged.connect(self._fit_for_zeros)
        tree.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Distribute the width again when it changes."""
        if event.type() == QEvent.Type.Resize:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit_for_zeros(self, first: QModelIndex) -> None:
        """Show or hide the column of zeros when there are zeros, or no longer."""
        hidden = self._tree.isColumnHidden(TreeColumn.ZEROS)
        if first.column() == TreeColumn.ZEROS and hidden == self._model.has_zeros:
            self._fit_timer.start()

    def _fit(self) -> None:
        tree = self._tree
        width = tree.viewport().width()
        name_share = MAX_NAME_SHARE_WITH_ZEROS if self._model.has_zeros else MAX_NAME_SHARE
        free_width = width - min(tree.sizeHintForColumn(TreeColumn.NAME), int(name_share * width))
        self._fitting = True
        widths = self._widths | {TreeColumn.SHAPE: self._shape_width(free_width)}
        if self._model.has_zeros and free_width < sum(widths[column] for column in BARS):
            widths |= {column: self._bar_column_width(column) for column in BARS}
        for column, wanted in widths.items():
            if column == TreeColumn.ZEROS and not self._model.has_zeros:
                tree.setColumnHidden(column, True)
                continue
            free_width -= wanted
            tree.setColumnHidden(column, free_width < 0)
            if column in (*BARS, TreeColumn.SHAPE) and free_width >= 0:
                tree.header().resizeSection(column, wanted)
        self._fitting = False

    def _bar_column_width(self, column: TreeColumn) -> int:
        """Return the width of a column of shares in a narrow tree: without its bar."""
        is_resized = column in self._resized_by_user
        return self._widths[column] if is_resized else self._width_without_bar

    def _shape_width(self, free_width: int) -> int:
        """Return the width of the shape column, given the width that the names leave."""
        width = self._widths[TreeColumn.SHAPE]
        if TreeColumn.SHAPE in self._resized_by_user:
            return width
        needed = min(self._tree.sizeHintForColumn(TreeColumn.SHAPE), self._max_shape_width)
        bars = BARS if self._model.has_zeros else BARS[:1]
        return max(width, min(needed, free_width - sum(self._widths[bar] for bar in bars)))

    def _remember_width(self, column: int, _before: int, width: int) -> None:
        """Store the width that the user gave a column. A hidden column reports a width of 0."""
        if column != TreeColumn.NAME and width and not self._fitting:
            self._resized_by_user.add(TreeColumn(column))
            self._widths[TreeColumn(column)] = width
