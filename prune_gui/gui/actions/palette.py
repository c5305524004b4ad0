"""The command palette with its entries, and the list of keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui.actions.menus import MENUS
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.gui.views.registry import VIEWS
from prune_gui.gui.widgets import layouts
from prune_gui.language import deferred, tr
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.gui.actions.menus import Actions
    from prune_gui.gui.views import ViewTabs
    from prune_gui.gui.workbench import Workbench


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
    (deferred("Show the file as opened, without the stack and the draft"), deferred("Hold B")),
)
"""Keys of the views, which are not actions of the window."""
MAX_PARAMETERS: Final = 50
"""Limit of the parameters that are shown."""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A line of the palette."""

    text: str  # what the user finds it by, such as "View: Mask"
    run: Callable[[], object]
    keys: str = ""  # its shortcut, in the notation of this system; "" without one
    tip: str = ""

    @classmethod
    def of(cls, menu: str, action: QAction) -> Self:
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
        self._line = layouts.described(QLineEdit(), tr("Filter commands by name"))
        self._line.setPlaceholderText(tr("Type a command, a parameter or a recent file"))
        self._line.installEventFilter(self)
        self.setFocusProxy(self._line)
        self._list = layouts.described(_table(), tr("Command palette"))
        self._list.setRootIsDecorated(False)
        self._list.setHeaderHidden(True)
        self._list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self._list.itemActivated.connect(self._run)
        self._list.itemClicked.connect(self._run)
        layouts.column(self._line, self._list, of=self)
        self._line.textChanged.connect(self._filter)
        self._filter("")
        self.resize(SIZE)
        left = (parent.width() - SIZE.width()) // 2
        self.move(parent.mapToGlobal(QPoint(left, TOP_OFFSET_PX)))

    def add(self, entries: Iterable[PaletteEntry]) -> None:
        """Add entries that took time to find."""
        current = self._list.currentIndex().row()
        self._entries = (*self._entries, *entries)
        self._filter(self._line.text())
        self._list.setCurrentItem(self._list.topLevelItem(max(current, 0)))  # type: ignore[arg-type]  # None: no item

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
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
        tree = layouts.described(_table(), tr("Keyboard shortcuts"))
        branches: dict[str, QTreeWidgetItem] = {}
        rows = [(menu, action.text(), keys(action)) for menu, action in listed(actions)]
        rows += [(tr("In pictures"), tr(text), tr(key)) for text, key in IN_PICTURES]
        for menu, text, key in rows:
            if key and menu not in branches:
                branches[menu] = QTreeWidgetItem(tree, [menu])
            if key:
                QTreeWidgetItem(branches[menu], [without_mnemonics(text), key])
        tree.expandAll()
        buttons = layouts.dialog_buttons(self, QDialogButtonBox.StandardButton.Close)
        layouts.column(tree, buttons, of=self)
        self.resize(SIZE.width(), 640)


def listed(actions: Actions) -> Iterator[tuple[str, QAction]]:
    """Yield the name of the menu and the action, for each action in the order of the menus."""
    for menu, sections in MENUS.items():
        for name in chain(*sections):
            if name in actions:
                yield without_mnemonics(tr(menu)), actions[name]


def keys(action: QAction) -> str:
    """Return the shortcut of an action in the notation of this system; "" if it has none."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


def _table() -> QTreeWidget:
    table = QTreeWidget()
    table.setUniformRowHeights(True)
    table.setHeaderLabels([tr("Command"), tr("Keys")])
    table.setAlternatingRowColors(True)
    table.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    table.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
    table.header().setStretchLastSection(False)
    return table


def of_actions(
    actions: Actions, presets: Iterable[QAction], docks: Iterable[QAction]
) -> Iterator[PaletteEntry]:
    """Yield the enabled actions of the menus, the presets and the switches of the docks."""
    preset, view = tr("Preset"), without_mnemonics(tr("&View"))
    more = [*((preset, action) for action in presets), *((view, action) for action in docks)]
    for menu, action in (*listed(actions), *more):
        if action.isEnabled():
            yield PaletteEntry.of(menu, action)


def of_views(workbench: Workbench, views: ViewTabs) -> Iterator[PaletteEntry]:
    """Yield the views, unless no checkpoint is open."""
    menu = without_mnemonics(tr("&View"))
    for spec in VIEWS if workbench.session is not None else ():
        text = tr("{menu}: {command}", menu=menu, command=without_mnemonics(tr(spec.title)))
        yield PaletteEntry(text, partial(views.bring_forward, spec.key))


def of_files(recent: Iterable[str], open_path: Callable[[Path], None]) -> Iterator[PaletteEntry]:
    """Yield the recent files; `open_path` opens one."""
    for path in recent:
        text = tr("Recent: {path}", path=one_line(str(Location.at(Path(path)))))
        yield PaletteEntry(text, partial(open_path, Path(path)))


def of_parameters(workbench: Workbench, words: Sequence[str]) -> list[PaletteEntry]:
    """Return the first `MAX_PARAMETERS` parameters whose names contain all words."""
    names = workbench.session.checkpoint.tensors if workbench.session is not None else ()
    matches = (name for name in names if all(word in name.lower() for word in words))
    return [
        PaletteEntry(tr("Parameter: {name}", name=one_line(name)), partial(workbench.choose, name))
        for name in islice(matches, MAX_PARAMETERS)
    ]
