"""The tree widget: its selection, the widths of its columns, and how cells are painted."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QItemSelectionRange,
    QModelIndex,
    QObject,
    QRectF,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
)

from prune_gui.gui.modules.tree_model import TreeColumn, TreeModel
from prune_gui.gui.widgets.table_widgets import RIGHT, Index
from prune_gui.gui.widgets.theme import colours, icon
from prune_gui.language import tr
from prune_gui.number_formats import sparsity

INDENTATION_PX: Final = 14
Flag = QItemSelectionModel.SelectionFlag


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
BARS: Final = TreeColumn.SPARSITY, TreeColumn.ZEROS  # the columns with a bar beside the share
BAR_PX: Final = 28
MARGIN_PX: Final = 12
MEASURED_ROWS: Final = 50  # number of rows outside the viewport that Qt measures; each takes time
MAX_NAME_SHARE: Final = 0.6  # limit of the share of the width for names; longer names are elided
MAX_NAME_SHARE_WITH_ZEROS: Final = 0.5  # the same limit while the column of zeros is shown
BAR_HEIGHT_PX: Final = 7.0
GAP_PX: Final = 6
MIN_BAR_PX: Final = 12  # width below which a bar is not drawn, but only its text
INK: Final = QPalette.ColorRole.Text
WITHOUT_ICON: Final = QStyleOptionViewItem.ViewItemFeature.HasDisplay
WITH_ICON: Final = WITHOUT_ICON | QStyleOptionViewItem.ViewItemFeature.HasDecoration


class WholeRows(QItemSelectionModel):
    """Selects whole rows without Qt's `Rows` flag, which takes seconds for thousands of rows."""

    def select(  # type: ignore[override]
        self, what: QModelIndex | QItemSelection, command: QItemSelectionModel.SelectionFlag
    ) -> None:
        if isinstance(what, QModelIndex):
            what = QItemSelection(what, what)
        model, rows = self.model(), QItemSelection()
        for cells in what.toList():
            parent = cells.parent()
            last = model.columnCount(parent) - 1
            ends = model.index(cells.top(), 0, parent), model.index(cells.bottom(), last, parent)
            rows.append(QItemSelectionRange(*ends))
        super().select(rows, command & ~Flag.Rows)

    def rows(self) -> list[QModelIndex]:
        return [
            self.model().index(row, TreeColumn.NAME, rows.parent())
            for rows in self.selection().toList()
            for row in range(rows.top(), rows.bottom() + 1)
        ]


class ModuleTree(QTreeView):
    """The tree view of modules and parameters."""

    selection: WholeRows

    def __init__(self, model: TreeModel) -> None:
        super().__init__()
        self.setModel(model)
        self.selection = WholeRows(model, self)
        self.setSelectionModel(self.selection)
        self.setAccessibleName(tr("Modules and parameters"))
        self.setUniformRowHeights(True)
        self.setIndentation(INDENTATION_PX)
        self.setAlternatingRowColors(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setItemDelegate(RowDelegate(self, model))
        for column in BARS:
            self.setItemDelegateForColumn(column, ShareBar(self, model))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        ColumnWidths(self, model)
        # Auto scroll would move the names out of view to show the clicked column.
        self.setAutoScroll(False)
        self.selection.currentChanged.connect(
            lambda current, _: self.scrollTo(current.siblingAtColumn(TreeColumn.NAME))
        )

    def selectAll(self) -> None:  # noqa: N802
        model = self.model()
        if last := model.rowCount():
            first = model.index(0, TreeColumn.NAME)
            rows = QItemSelection(first, model.index(last - 1, TreeColumn.NAME))
            self.selection.setCurrentIndex(first, Flag.NoUpdate)
            self.selection.select(rows, Flag.ClearAndSelect)


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
        for changed in (tree.expanded, tree.collapsed, model.modelReset):
            changed.connect(self._fit_timer.start)
        model.dataChanged.connect(self._fit_for_zeros)
        tree.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Resize:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit_for_zeros(self, first: QModelIndex) -> None:
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
        if free_width < sum(widths[column] for column in self._bars):
            by_user = self._resized_by_user
            widths |= {bar: self._width_without_bar for bar in BARS if bar not in by_user}
        for column, wanted in widths.items():
            if column == TreeColumn.ZEROS and not self._model.has_zeros:
                tree.setColumnHidden(column, True)
                continue
            free_width -= wanted
            tree.setColumnHidden(column, free_width < 0)
            if column in (*BARS, TreeColumn.SHAPE) and free_width >= 0:
                tree.header().resizeSection(column, wanted)
        self._fitting = False

    def _shape_width(self, free_width: int) -> int:
        width = self._widths[TreeColumn.SHAPE]
        if TreeColumn.SHAPE in self._resized_by_user:
            return width
        needed = min(self._tree.sizeHintForColumn(TreeColumn.SHAPE), self._max_shape_width)
        return max(width, min(needed, free_width - sum(self._widths[bar] for bar in self._bars)))

    @property
    def _bars(self) -> tuple[TreeColumn, ...]:
        return BARS if self._model.has_zeros else BARS[:1]

    def _remember_width(self, column: int, _before: int, width: int) -> None:
        """Store the width that the user gave a column. A hidden column reports a width of 0."""
        if column != TreeColumn.NAME and width and not self._fitting:
            self._resized_by_user.add(TreeColumn(column))
            self._widths[TreeColumn(column)] = width


class RowDelegate(QStyledItemDelegate):
    """Paints cells from `TreeRow` objects: calling `data` once per role takes twice as long."""

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree)
        self.model = model

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        row, column = self.model.row(index), index.column()
        option.text = row.texts[column]
        option.features |= WITH_ICON if column == TreeColumn.NAME else WITHOUT_ICON
        if row.share is None:
            option.palette.setBrush(INK, option.palette.placeholderText())
        if column == TreeColumn.NAME:
            option.icon = icon(row.icon)
            if row.path == self.model.chosen:
                option.font.setBold(True)
        elif column == TreeColumn.PARAMETERS:
            option.displayAlignment = RIGHT


class ShareBar(RowDelegate):
    """Paints a share as a bar on the left and a text on the right of the cell."""

    def __init__(self, tree: QTreeView, model: TreeModel) -> None:
        super().__init__(tree, model)
        self._text_width = tree.fontMetrics().horizontalAdvance(sparsity(99_999, 100_000))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        row = self.model.row(index)
        pruned = index.column() == TreeColumn.SPARSITY
        share, text = row.share if pruned else row.zero_share, row.texts[index.column()]
        if share is None:
            return
        palette, roles = option.palette, QPalette.ColorRole
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        ink = palette.color(roles.HighlightedText if selected else roles.Text)
        mark = palette.color(roles.Highlight)
        fill = ink if selected else mark if pruned else QColor(colours(palette).in_file)
        gap = GAP_PX if option.rect.width() > self._text_width + 2 * GAP_PX else GAP_PX // 2
        cell = QRectF(option.rect).adjusted(gap, 0, -gap, 0)
        track = QRectF(0, 0, max(cell.width() - self._text_width - GAP_PX, 0), BAR_HEIGHT_PX)
        track.moveCenter(cell.center())
        track.moveLeft(cell.left())
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if share > 0 and track.width() >= MIN_BAR_PX:
            faint = QColor(ink)
            faint.setAlphaF(0.15)
            painter.setBrush(faint)
            painter.drawRoundedRect(track, BAR_HEIGHT_PX / 2, BAR_HEIGHT_PX / 2)
            painter.setBrush(fill)
            track.setWidth(max(track.width() * share, BAR_HEIGHT_PX / 2))
            painter.drawRoundedRect(track, BAR_HEIGHT_PX / 2, BAR_HEIGHT_PX / 2)
        painter.setPen(ink if share > 0 or selected else palette.placeholderText().color())
        painter.drawText(cell, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        hint = super().sizeHint(option, index)
        return QSize(self._text_width + 40 + 3 * GAP_PX, hint.height())
