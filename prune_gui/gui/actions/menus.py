"""The layout of menus, toolbar and buttons, the actions made from the table, and changing menus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QMenu
from shiboken6 import isValid

from prune_gui.gui.actions.action_spec import ActionSpec
from prune_gui.gui.actions.document_actions import DOCUMENT_ACTIONS
from prune_gui.gui.actions.pruning_actions import PRUNING_ACTIONS
from prune_gui.gui.runtime.locale import escape_mnemonics, without_mnemonics
from prune_gui.gui.widgets.theme import set_icon
from prune_gui.language import deferred, tr
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.gui.panel_window import PanelWindow

RECENT: Final = "recent"
STATES: Final = "states"
DOCKS: Final = "docks"
PRESETS: Final = "presets"
"""Entries of the menus that the window replaces: submenus, and the docks."""
MENUS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    deferred("&File"): (
        (
            "new_window",
            "open",
            "open_folder",
            "open_location",
            "open_run",
            RECENT,
            STATES,
            "reload",
            "fetch_all",
        ),
        ("open_recipe", "use_masks", "use_elsewhere", "save_recipe", "save_recipe_as"),
        ("save_checkpoint", "report", "export_figure"),
        ("choose_reference", "forget_reference"),
        ("close_window", "quit"),
    ),
    deferred("&Edit"): (
        ("undo", "redo"),
        ("copy_recipe", "copy_command", "copy_script"),
        ("filter",),
        ("settings",),
    ),
    deferred("&View"): (
        ("copy_picture", "copy_table", "save_table"),
        ("group_by_module", "group_by_space", "copy_modules", "save_modules"),
        (DOCKS,),
        ("next_parameter", "previous_parameter"),
        ("next_pane", "previous_pane"),
        ("theme_system", "theme_light", "theme_dark"),
        ("reset",),
    ),
    deferred("&Prune"): (
        ("preview", "add_step"),
        (
            "edit_step",
            "edit_amount",
            "take_shares",
            "duplicate",
            "move_up",
            "move_down",
            "switch_step",
            "remove",
            "clear_stack",
        ),
        ("protect", "start_from_zeros", "own_recipe"),
        ("use_table", "trace_network", "use_built_in_table"),
        (PRESETS, "save_preset", "manage_presets"),
        ("evaluate", "sweep", "batch", "reconstruct"),
        ("load_methods",),
        ("resolve", "cancel"),
    ),
    deferred("&Help"): (("guide", "palette", "shortcuts"), ("demo", "last_crash", "about")),
}
"""For each menu, the names of the actions between two separators."""
ACTIONS: Final = DOCUMENT_ACTIONS | PRUNING_ACTIONS
EXCLUSIVE: Final = (
    ("theme_system", "theme_light", "theme_dark"),
    ("group_by_module", "group_by_space"),
)
"""Actions of which exactly one is checked."""
TOOLBAR: Final = (
    ("open", "save_recipe", "save_checkpoint"),
    ("undo", "redo"),
    ("preview", "add_step"),
)
VIEW_MENU: Final = ("copy_picture", "export_figure", "copy_table", "save_table")
TREE_MENU: Final = ("group_by_module", "group_by_space", "copy_modules", "save_modules")
STACK_BUTTONS: Final = ("edit_step", "duplicate", "move_up", "move_down", "remove")
STACK_MENU: Final = (*STACK_BUTTONS, "edit_amount", "take_shares", "switch_step", "clear_stack")
WELCOME: Final = ("open", "demo")


MAX_LISTED_STATES: Final = 40
"""Limit of the state dicts in the menu. The command line accepts the name of any."""


class Actions:
    """The `QAction` objects of a window, by name."""

    def __init__(self, window: PanelWindow) -> None:
        self._window = window
        self._made = {name: _make(name, spec, window) for name, spec in ACTIONS.items()}
        for name, spec in ACTIONS.items():
            self._made[name].triggered.connect(partial(self._run, spec))

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def __getitem__(self, name: str) -> QAction:
        return self._made[name]

    def several(self, names: Iterable[str]) -> list[QAction]:
        return [self._made[name] for name in names]

    def refresh(self) -> None:
        for name, spec in ACTIONS.items():
            action = self._made[name]
            action.setEnabled(spec.when(self._window))
            if callable(spec.text):
                _set_text(action, spec, spec.text(self._window))
            if spec.checked is not None:
                action.setChecked(spec.checked(self._window))

    def _run(self, spec: ActionSpec) -> None:
        spec.run(self._window)
        self.refresh()


def _make(name: str, spec: ActionSpec, parent: QObject) -> QAction:
    action = QAction(parent)
    action.setObjectName(name)
    if isinstance(spec.text, str):
        _set_text(action, spec, tr(spec.text))
    action.setCheckable(spec.checked is not None)
    if spec.icon is not None:
        set_icon(action, spec.icon)
    if isinstance(spec.key, str):
        action.setShortcut(QKeySequence(spec.key))
    elif spec.key is not None:
        # all standard keys, as Ctrl+Y and Ctrl+Shift+Z, unless they are those of another action
        own = {QKeySequence(one.key) for one in ACTIONS.values() if isinstance(one.key, str)}
        action.setShortcuts([one for one in QKeySequence.keyBindings(spec.key) if one not in own])
    if spec.in_stack:
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    tip = tr(spec.tip)
    action.setToolTip(f"{tip}  ({keys})" if keys else tip)
    return action


def _set_text(action: QAction, spec: ActionSpec, text: str) -> None:
    action.setText(text)
    action.setIconText(tr(spec.button) if spec.button else without_mnemonics(text))


class FilledMenu(QMenu):
    """A menu that a function fills whenever it opens."""

    def __init__(
        self, title: str, fill: Callable[[QMenu, PanelWindow], None], window: PanelWindow
    ) -> None:
        super().__init__(title, window)
        self._add_entries = partial(fill, self, window)
        self.setToolTipsVisible(True)
        self.aboutToShow.connect(self.fill)

    def fill(self) -> list[QAction]:
        """List what there is now; return the enabled actions."""
        self.clear()
        self._add_entries()
        return [action for action in self.actions() if action.isEnabled() and action.text()]


def fill_recent(menu: QMenu, window: PanelWindow) -> None:
    """List the recent files; those that are gone become grey."""
    settings, actions = window.commands.settings, dict[str, QAction]()
    for number, path in enumerate(settings.recent, start=1):
        text = escape_mnemonics(str(Location.at(Path(path))))
        numbered = f"&{number}  {text}" if number < 10 else text
        action = menu.addAction(numbered, partial(open_recent, window, Path(path)))
        action.setToolTip(tr("With Ctrl: in a new window"))
        actions[path] = action

    def disable(gone: frozenset[str]) -> None:
        for action in filter(isValid, map(actions.__getitem__, gone)):
            action.setEnabled(False)

    window.workbench.bridge.run_job("recent", lambda _: settings.gone(), disable)


def open_recent(window: PanelWindow, path: Path) -> None:
    """Open a file; with Ctrl, in another window."""
    if QGuiApplication.keyboardModifiers() & Qt.KeyboardModifier.ControlModifier:
        window.another_wanted.emit(path)
    else:
        window.commands.open_path(path)


def fill_states(menu: QMenu, window: PanelWindow) -> None:
    """List the state dicts of the open file; the open one is checked."""
    checkpoint = window.workbench.opened.checkpoint
    for name in checkpoint.candidates[:MAX_LISTED_STATES]:
        opens = partial(window.commands.open_path, checkpoint.path, state=name)
        action = menu.addAction(escape_mnemonics(name, 80), opens)
        action.setCheckable(True)
        action.setChecked(name == checkpoint.state_dict)
