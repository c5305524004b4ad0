"""The box that chooses a method: a list of what the methods do, with the masks that they make."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QIcon, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QTreeView

from prune_gui.errors import one_line
from prune_gui.gui.widgets.theme import bold, icon
from prune_gui.language import tr
from prune_gui.pruning.methods import METHODS, Method, summary_of
from prune_gui.pruning.methods.fields import GROUPS
from prune_gui.resources import resource

MASK_PX: Final = QSize(24, 24)  # size of the picture of a mask
ICON_PX: Final = QSize(18, 18)  # of that of the chosen method
POPUP_PX: Final = 680  # width of the list


def summary(method: type[Method]) -> str:
    """Return the translated summary of a method, in one sentence."""
    return one_line(tr(summary_of(method)))


class MethodBox(QComboBox):
    """A combo box with the name of each method as data, below the titles of their groups.

    Its list shows the mask that each method makes, and one line on the method.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Method"))
        self._methods = QStandardItemModel(0, 2, self)
        self._list = QTreeView(rootIsDecorated=False, headerHidden=True)
        self._list.setIconSize(MASK_PX)
        self.setIconSize(ICON_PX)
        self._list.setMinimumWidth(POPUP_PX)
        self.setModel(self._methods)
        self.setView(self._list)
        self.list_methods()

    def list_methods(self) -> None:
        """List the current methods; the chosen one stays chosen if it still exists."""
        chosen = self.currentData()
        self.clear()
        methods = list(METHODS.values())
        for group, title in GROUPS.items():
            members = [method for method in methods if method.method_group == group]
            if members:
                heading = QStandardItem(tr(title))
                heading.setEnabled(False)
                heading.setFont(bold(self.font()))
                self._methods.appendRow([heading])
            for method in members:
                name = QStandardItem(method_icon(method), one_line(tr(method.title)))
                name.setData(method.name, Qt.ItemDataRole.UserRole)
                line = QStandardItem(summary(method))
                line.setForeground(self.palette().placeholderText())
                self._methods.appendRow([name, line])
        self.setMaxVisibleItems(self.count())
        self._list.resizeColumnToContents(0)
        self.choose(chosen if chosen in METHODS else methods[0].name)

    def choose(self, name: str) -> None:
        self.setCurrentIndex(self.findData(name))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            self.list_methods()
        super().changeEvent(event)


def method_icon(method: type[Method]) -> QIcon:
    """Return the icon of a method; that of plug-ins if there is none of its own."""
    name = f"method-{method.name}"
    own = method.method_group != "plugins" and resource("icons", f"{name}.svg").is_file()
    return icon(name if own else "method-plugin")
