"""The box that chooses a method: a list of what the methods do, with the masks that they make."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPalette, QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui.widgets.table_widgets import Index
from prune_gui.gui.widgets.theme import GAP_PX, WIDE_PX, bold, icon
from prune_gui.language import tr
from prune_gui.pruning.methods import METHODS, Method, summary_of
from prune_gui.pruning.methods.fields import GROUPS
from prune_gui.resources import resource

MASK_PX: Final = 24  # side of the picture of a mask
POPUP_PX: Final = 720
MAX_VISIBLE: Final = 40


def summary(method: type[Method]) -> str:
    """Return the translated summary of a method, in one sentence."""
    return one_line(tr(summary_of(method)))


class MethodDelegate(QStyledItemDelegate):
    """Paints the mask that a method makes, its name, and one line on it."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        hint = super().sizeHint(option, index)
        is_method = index.data(Qt.ItemDataRole.UserRole) is not None
        return QSize(hint.width(), MASK_PX + 2) if is_method else hint

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        super().initStyleOption(option, index)
        option.decorationSize = QSize(MASK_PX, MASK_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        line, metrics = index.data(Qt.ItemDataRole.ToolTipRole) or "", option.fontMetrics
        names = (one_line(tr(method.title)) for method in METHODS.values())
        left = MASK_PX + WIDE_PX + max(map(metrics.horizontalAdvance, names)) + GAP_PX
        area = option.rect.adjusted(left, 0, -GAP_PX, 0)
        role = QPalette.ColorRole.PlaceholderText
        if option.state & QStyle.StateFlag.State_Selected:
            role = QPalette.ColorRole.HighlightedText
        painter.setPen(option.palette.color(role))
        text = metrics.elidedText(line, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, text)


class MethodBox(QComboBox):
    """A combo box with the name of each method as data, below the titles of their groups.

    Its list shows the mask that each method makes, and one line on the method.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Method"))
        self.setItemDelegate(MethodDelegate(self))
        self.setMaxVisibleItems(MAX_VISIBLE)
        self.view().setMinimumWidth(POPUP_PX)
        self.list_methods()

    def list_methods(self) -> None:
        """List the current methods; the chosen one stays chosen if it still exists."""
        chosen = self.currentData()
        self.clear()
        methods = list(METHODS.values())
        for group, title in GROUPS.items():
            members = [method for method in methods if method.method_group == group]
            if members:
                self._add_title(tr(title))
            for method in members:
                self.addItem(method_icon(method), one_line(tr(method.title)), method.name)
                self.setItemData(self.count() - 1, summary(method), Qt.ItemDataRole.ToolTipRole)
        self.choose(chosen if chosen in METHODS else methods[0].name)

    def choose(self, name: str) -> None:
        self.setCurrentIndex(self.findData(name))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            for index in range(self.count()):
                if (name := self.itemData(index)) is not None:
                    self.setItemIcon(index, method_icon(METHODS[name]))
        super().changeEvent(event)

    def _add_title(self, title: str) -> None:
        """Add the title of a group, which cannot be chosen."""
        self.addItem(title)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        item = model.item(self.count() - 1)
        item.setEnabled(False)
        item.setFont(bold(item.font()))


def method_icon(method: type[Method]) -> QIcon:
    """Return the icon of a method; that of plug-ins if there is none of its own."""
    name = f"method-{method.name}"
    own = method.method_group != "plugins" and resource("icons", f"{name}.svg").is_file()
    return icon(name if own else "method-plugin")
