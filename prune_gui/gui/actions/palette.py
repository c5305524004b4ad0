"""The command palette and the list of keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.actions.menus import MENUS
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.gui.actions.menus import Actions

SIZE: Final = QSize(560, 420)
TOP_OFFSET_PX: Final = 80
"""Distance between the top of the window and the palette."""
IN_PICTURES: Final = (
    (deferred("Fit the picture"), "F"),
    (deferred("One weight per pixel"), "1"),
    (deferred("Zoom in, zoom out"), "+  -"),
    (deferred("Move the picture"), deferred("Arrows")),
    (deferred("Pin the weight in the centre, or unpin it"), deferred("Space")),
    (deferred("Pin the adjacent weight"), deferred("Shift and arrows")),
    (deferred("Show the original, without the stack and the draft"), deferred("Hold B")),
)
"""Keys of the views, which are not actions of the window."""


class Palette(QFrame):
    """A line edit above the enabled actions whose names contain all typed words; Enter runs one.

    Args:
        menu_actions: the actions of the window.
        parent: the window.
        more: further actions, each with the menu name that is shown before it.
    """

    def __init__(
        self, actions: Actions, parent: QWidget, more: Iterable[tuple[str, QAction]] = ()
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAccessibleName(tr("Command palette"))
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self._line = QLineEdit()
        self._line.setPlaceholderText(tr("Type the name of a command"))
        self._line.setAccessibleName(tr("Filter commands by name"))
        self._line.installEventFilter(self)
        self.setFocusProxy(self._line)
        self._list = _table()
        self._list.setAccessibleName(tr("Command palette"))
        self._list.setRootIsDecorated(False)
        self._list.setHeaderHidden(True)
        self._list.itemActivated.connect(self._run)
        self._list.itemClicked.connect(self._run)
        self._actions: list[QAction] = []
        for menu, action in (*listed(actions), *more):
            if action.isEnabled():
                self._actions.append(action)
                text = tr("{menu}: {command}", menu=menu, command=without_mnemonics(action.text()))
                item = QTreeWidgetItem([text, keys(action)])
                item.setToolTip(0, action.toolTip())
                self._list.addTopLevelItem(item)
        layout = QVBoxLayout(self)
        layout.addWidget(self._line)
        layout.addWidget(self._list)
        self._line.textChanged.connect(self._filter)
        self._filter("")
        self.resize(SIZE)
        left = (parent.width() - SIZE.width()) // 2
        self.move(parent.mapToGlobal(QPoint(left, TOP_OFFSET_PX)))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Handle the keys that move in the list or run an action while the line has the focus."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            match event.key():
                case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                    self._run(self._list.currentItem())
                    return True
                case Qt.Key.Key_Up | Qt.Key.Key_Down | Qt.Key.Key_PageUp | Qt.Key.Key_PageDown:
                    self._list.keyPressEvent(event)
                    return True
        return super().eventFilter(watched, event)

    def _filter(self, text: str) -> None:
        words, first = text.lower().split(), None
        for row in range(self._list.topLevelItemCount()):
            item = self._list.topLevelItem(row)
            assert item is not None
            matches = all(word in item.text(0).lower() for word in words)
            item.setHidden(not matches)
            if matches and first is None:
                first = item
        self._list.setCurrentItem(first)  # type: ignore[arg-type]  # None: no item

    def _run(self, item: QTreeWidgetItem | None) -> None:
        if item is not None and not item.isHidden():
            action = self._actions[self._list.indexOfTopLevelItem(item)]
            self.close()
            action.trigger()


class Shortcuts(QDialog):
    """A dialog that lists all keyboard shortcuts, by menu."""

    def __init__(self, actions: Actions, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        tree = _table()
        tree.setAccessibleName(tr("Keyboard shortcuts"))
        branches: dict[str, QTreeWidgetItem] = {}
        rows = [
            (menu, without_mnemonics(action.text()), keys(action))
            for menu, action in listed(actions)
        ]
        rows += [(tr("In pictures"), tr(text), tr(key)) for text, key in IN_PICTURES]
        for menu, text, key in rows:
            if not key:
                continue
            if menu not in branches:
                branches[menu] = QTreeWidgetItem(tree, [menu])
            QTreeWidgetItem(branches[menu], [text, key])
        tree.expandAll()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(tree)
        layout.addWidget(buttons)
        self.resize(SIZE.width(), 640)


def listed(actions: Actions) -> Iterator[tuple[str, QAction]]:
    """Yield the name of the menu and the action, for each action in the order of the menus."""
    for menu, names in MENUS.items():
        for name in names:
            if name in actions:
                yield without_mnemonics(tr(menu)), actions[name]


def keys(action: QAction) -> str:
    """Return the shortcut of an action in the notation of this system; "" if it has none."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


def _table() -> QTreeWidget:
    table = QTreeWidget()
    table.setHeaderLabels([tr("Command"), tr("Keys")])
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setAlternatingRowColors(True)
    table.setUniformRowHeights(True)
    table.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    table.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
    table.header().setStretchLastSection(False)
    return table
