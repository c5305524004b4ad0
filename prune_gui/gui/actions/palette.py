"""The command palette and the list of keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

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


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A line of the palette.

    Attributes:
        text: what the user finds it by, such as "View: Mask".
        run: does it.
        keys: its shortcut, in the notation of this system; "" without one.
        tip: its tool tip.
    """

    text: str
    run: Callable[[], object]
    keys: str = ""
    tip: str = ""

    @classmethod
    def of(cls, menu: str, action: QAction) -> Self:
        """Return the entry of an action of a menu."""
        text = tr("{menu}: {command}", menu=menu, command=without_mnemonics(action.text()))
        return cls(text, action.trigger, keys(action), action.toolTip())


class Palette(QFrame):
    """A line edit above the entries whose texts contain all typed words; Enter runs one."""

    def __init__(
        self,
        entries: Iterable[PaletteEntry],
        parent: QWidget,
        search: Callable[[Sequence[str]], Iterable[PaletteEntry]] = lambda words: (),
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._entries = tuple(entries)
        self._search = search
        self._shown: list[PaletteEntry] = []
        self.setAccessibleName(tr("Command palette"))
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self._line = QLineEdit()
        self._line.setPlaceholderText(tr("Type a command, a parameter or a recent file"))
        self._line.setAccessibleName(tr("Filter commands by name"))
        self._line.installEventFilter(self)
        self.setFocusProxy(self._line)
        self._list = _table()
        self._list.setAccessibleName(tr("Command palette"))
        self._list.setRootIsDecorated(False)
        self._list.setHeaderHidden(True)
        self._list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self._list.itemActivated.connect(self._run)
        self._list.itemClicked.connect(self._run)
        layout = QVBoxLayout(self)
        layout.addWidget(self._line)
        layout.addWidget(self._list)
        self._line.textChanged.connect(self._filter)
        self._filter("")
        self.resize(SIZE)
        left = (parent.width() - SIZE.width()) // 2
        self.move(parent.mapToGlobal(QPoint(left, TOP_OFFSET_PX)))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Handle the keys that move in the list or run an entry while the line has the focus."""
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
        words = text.lower().split()
        self._shown = [e for e in self._entries if all(word in e.text.lower() for word in words)]
        self._shown += self._search(words) if words else ()
        self._list.clear()
        for entry in self._shown:
            item = QTreeWidgetItem([entry.text, entry.keys])
            item.setToolTip(0, entry.tip)
            self._list.addTopLevelItem(item)
        self._list.setCurrentItem(self._list.topLevelItem(0))  # type: ignore[arg-type]  # None: no item

    def _run(self, item: QTreeWidgetItem | None) -> None:
        if item is not None:
            entry = self._shown[self._list.indexOfTopLevelItem(item)]
            self.close()
            entry.run()


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
