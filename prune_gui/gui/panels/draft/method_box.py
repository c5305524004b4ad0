"""The box to choose a pruning method: the methods in groups, each with an icon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QIcon, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.panels.draft.form import summary
from prune_gui.gui.widgets.fonts import bold
from prune_gui.gui.widgets.icons import icon
from prune_gui.language import tr
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.fields import GROUPS
from prune_gui.resources import resource

if TYPE_CHECKING:
    from prune_gui.pruning.methods import Method


class MethodBox(QComboBox):
    """A combo box with the name of each method as data, below the titles of their groups."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Method"))
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
        """Choose the method of a name."""
        self.setCurrentIndex(self.findData(name))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
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
