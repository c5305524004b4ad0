"""Where the actions are: menus, toolbar, keys and buttons are made from one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence

from prune_gui.gui.actions.action_spec import ActionSpec
from prune_gui.gui.actions.table import TABLE
from prune_gui.gui.runtime.locale import plain
from prune_gui.gui.widgets.icons import icon
from prune_gui.language import later, tr

if TYPE_CHECKING:
    from prune_gui.gui.window import MainWindow

SEPARATOR: Final = ""
RECENT: Final = "recent"
STATES: Final = "states"
DOCKS: Final = "docks"
PRESETS: Final = "presets"
"""Places in the menus that the window fills."""

MENUS: Final = {
    later("&File"): (
        "new_window",
        "open",
        "open_folder",
        RECENT,
        STATES,
        "reload",
        SEPARATOR,
        "open_recipe",
        "own_recipe",
        "use_elsewhere",
        "save_recipe",
        "save_recipe_as",
        SEPARATOR,
        "save_checkpoint",
        SEPARATOR,
        "close_window",
        "quit",
    ),
    later("&Edit"): (
        "undo",
        "redo",
        SEPARATOR,
        "copy_recipe",
        "copy_command",
        "copy_script",
        SEPARATOR,
        "filter",
        SEPARATOR,
        "settings",
    ),
    later("&View"): (
        "copy_picture",
        "save_picture",
        "white_pictures",
        "copy_table",
        "save_table",
        SEPARATOR,
        "copy_modules",
        "save_modules",
        SEPARATOR,
        DOCKS,
        SEPARATOR,
        "next_parameter",
        "previous_parameter",
        SEPARATOR,
        "next_pane",
        "previous_pane",
        SEPARATOR,
        "theme_system",
        "theme_light",
        "theme_dark",
        SEPARATOR,
        "reset",
    ),
    later("&Prune"): (
        "preview",
        "add_step",
        SEPARATOR,
        "edit_step",
        "duplicate",
        "move_up",
        "move_down",
        "switch_step",
        "remove",
        "clear_stack",
        SEPARATOR,
        "protect",
        SEPARATOR,
        PRESETS,
        "save_preset",
        "manage_presets",
        SEPARATOR,
        "sweep",
        "batch",
        SEPARATOR,
        "load_methods",
        SEPARATOR,
        "resolve",
        "cancel",
    ),
    later("&Help"): ("guide", "palette", "shortcuts", SEPARATOR, "demo", "last_crash", "about"),
}
TOOLBAR: Final = (
    "open",
    "save_recipe",
    "save_checkpoint",
    SEPARATOR,
    "undo",
    "redo",
    SEPARATOR,
    "preview",
    "add_step",
)
VIEW_MENU: Final = ("copy_picture", "save_picture", "copy_table", "save_table", "white_pictures")
TREE_MENU: Final = ("copy_modules", "save_modules")
STACK_BUTTONS: Final = ("edit_step", "duplicate", "move_up", "move_down", "remove")
STACK_MENU: Final = (*STACK_BUTTONS, "switch_step", "clear_stack")
WELCOME: Final = ("open", "demo")


class Actions:
    """The actions of a window, kept as they should be now."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._made = {act.name: _make(act, window) for act in TABLE}

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def __getitem__(self, name: str) -> QAction:
        return self._made[name]

    def several(self, names: Iterable[str]) -> list[QAction]:
        """Return actions by their names."""
        return [self._made[name] for name in names]

    def refresh(self) -> None:
        """Bring texts and states up to date."""
        for act in TABLE:
            action = self._made[act.name]
            action.setEnabled(act.when(self._window))
            if callable(act.text):
                _name(action, act, act.text(self._window))
            if act.checked is not None:
                action.setChecked(act.checked(self._window))

    def redraw_icons(self) -> None:
        """Draw the icons in the colours of the palette as it is now."""
        for act in TABLE:
            if act.icon is not None:
                self._made[act.name].setIcon(icon(act.icon))


def _make(act: ActionSpec, window: MainWindow) -> QAction:
    action = QAction(window)
    action.setObjectName(act.name)
    if isinstance(act.text, str):
        _name(action, act, tr(act.text))
    action.setCheckable(act.checked is not None)
    if act.icon is not None:
        action.setIcon(icon(act.icon))
    if isinstance(act.key, str):
        action.setShortcut(QKeySequence(act.key))
    elif act.key is not None:
        action.setShortcuts(act.key)  # all that are usual: Ctrl+Y beside Ctrl+Shift+Z
    if act.in_stack:
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    tip = tr(act.tip)
    action.setToolTip(f"{tip}  ({keys})" if keys else tip)

    def run() -> None:
        act.run(window)
        window.acts.refresh()

    action.triggered.connect(run)
    return action


def _name(action: QAction, act: ActionSpec, text: str) -> None:
    action.setText(text)
    action.setIconText(tr(act.button) if act.button else plain(text))
