"""The layout of menus, toolbar and buttons, and the actions made from the table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence

from prune_gui.gui.actions.action_spec import ActionSpec, ActionTarget
from prune_gui.gui.actions.table import TABLE
from prune_gui.gui.runtime.locale import without_mnemonics
from prune_gui.gui.widgets.icons import icon
from prune_gui.language import deferred, tr

SEPARATOR: Final = ""
RECENT: Final = "recent"
STATES: Final = "states"
DOCKS: Final = "docks"
PRESETS: Final = "presets"
"""Entries of the menus that the window replaces: a separator, submenus, the docks."""

MENUS: Final = {
    deferred("&File"): (
        "new_window",
        "open",
        "open_folder",
        "open_location",
        RECENT,
        STATES,
        "reload",
        "fetch_all",
        SEPARATOR,
        "open_recipe",
        "use_masks",
        "use_elsewhere",
        "save_recipe",
        "save_recipe_as",
        SEPARATOR,
        "save_checkpoint",
        "report",
        SEPARATOR,
        "close_window",
        "quit",
    ),
    deferred("&Edit"): (
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
    deferred("&View"): (
        "copy_picture",
        "save_picture",
        "white_pictures",
        "copy_table",
        "save_table",
        SEPARATOR,
        "group_by_module",
        "group_by_space",
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
    deferred("&Prune"): (
        "preview",
        "add_step",
        SEPARATOR,
        "edit_step",
        "edit_amount",
        "take_shares",
        "duplicate",
        "move_up",
        "move_down",
        "switch_step",
        "remove",
        "clear_stack",
        SEPARATOR,
        "protect",
        "start_from_zeros",
        "own_recipe",
        SEPARATOR,
        "use_table",
        "use_built_in_table",
        SEPARATOR,
        PRESETS,
        "save_preset",
        "manage_presets",
        SEPARATOR,
        "evaluate",
        "sweep",
        "batch",
        SEPARATOR,
        "load_methods",
        SEPARATOR,
        "resolve",
        "cancel",
    ),
    deferred("&Help"): ("guide", "palette", "shortcuts", SEPARATOR, "demo", "last_crash", "about"),
}
EXCLUSIVE: Final = (
    ("theme_system", "theme_light", "theme_dark"),
    ("group_by_module", "group_by_space"),
)
"""Actions of which exactly one is checked."""
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
TREE_MENU: Final = ("group_by_module", "group_by_space", "copy_modules", "save_modules")
STACK_BUTTONS: Final = ("edit_step", "duplicate", "move_up", "move_down", "remove")
STACK_MENU: Final = (*STACK_BUTTONS, "edit_amount", "take_shares", "switch_step", "clear_stack")
WELCOME: Final = ("open", "demo")


class Actions:
    """The `QAction` objects of a window, by name."""

    def __init__(self, target: ActionTarget, parent: QObject) -> None:
        self._target = target
        self._made = {spec.name: _make(spec, parent) for spec in TABLE}
        for spec in TABLE:
            self._made[spec.name].triggered.connect(partial(self._run, spec))

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def __getitem__(self, name: str) -> QAction:
        return self._made[name]

    def several(self, names: Iterable[str]) -> list[QAction]:
        """Return the actions of some names, in their order."""
        return [self._made[name] for name in names]

    def refresh(self) -> None:
        """Update the texts, the enabled states and the check marks."""
        for spec in TABLE:
            action = self._made[spec.name]
            action.setEnabled(spec.when(self._target))
            if callable(spec.text):
                _set_text(action, spec, spec.text(self._target))
            if spec.checked is not None:
                action.setChecked(spec.checked(self._target))

    def redraw_icons(self) -> None:
        """Draw the icons in the colours of the current palette."""
        for spec in TABLE:
            if spec.icon is not None:
                self._made[spec.name].setIcon(icon(spec.icon))

    def _run(self, spec: ActionSpec) -> None:
        spec.run(self._target)
        self.refresh()


def _make(spec: ActionSpec, parent: QObject) -> QAction:
    action = QAction(parent)
    action.setObjectName(spec.name)
    if isinstance(spec.text, str):
        _set_text(action, spec, tr(spec.text))
    action.setCheckable(spec.checked is not None)
    if spec.icon is not None:
        action.setIcon(icon(spec.icon))
    if isinstance(spec.key, str):
        action.setShortcut(QKeySequence(spec.key))
    elif spec.key is not None:
        action.setShortcuts(spec.key)  # all standard keys: Ctrl+Y and Ctrl+Shift+Z
    if spec.in_stack:
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    tip = tr(spec.tip)
    action.setToolTip(f"{tip}  ({keys})" if keys else tip)
    return action


def _set_text(action: QAction, spec: ActionSpec, text: str) -> None:
    action.setText(text)
    action.setIconText(tr(spec.button) if spec.button else without_mnemonics(text))
