"""The specification of an action of the window, and predicates for when it is enabled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from PySide6.QtGui import QKeySequence

from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.language import tr

if TYPE_CHECKING:
    from PySide6.QtCore import SignalInstance

    from prune_gui.gui.actions.pane_navigation import PaneNavigation
    from prune_gui.gui.commands import Commands
    from prune_gui.gui.export.exporter import Exporter
    from prune_gui.gui.panels.draft.panel import DraftPanel
    from prune_gui.gui.panels.modules.panel import TreePanel
    from prune_gui.gui.panels.stack.panel import StackPanel
    from prune_gui.gui.panels.status_bar import StatusBar
    from prune_gui.gui.views import ViewTabs
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session import Crash

Key = QKeySequence.StandardKey


class ActionTarget(Protocol):
    """What actions work on: the main window with its parts; see `MainWindow`."""

    workbench: Workbench
    commands: Commands
    tree: TreePanel
    draft: DraftPanel
    stack: StackPanel
    views: ViewTabs
    status: StatusBar
    exporter: Exporter
    panes: PaneNavigation
    last_crash: Crash | None

    @property
    def another_wanted(self) -> SignalInstance:
        """(path or None) Open another window, with this checkpoint if not None."""

    @property
    def quit_wanted(self) -> SignalInstance:
        """Close all windows."""

    def close(self) -> bool:
        """Close the window, unless the user declines."""

    def reset_layout(self) -> None:
        """Restore the initial layout of the docks."""

    def save_preset(self) -> None:
        """Save the stack as a preset."""

    def show_presets(self) -> None:
        """Open the dialog of the user's presets."""

    def show_evaluation(self) -> None:
        """Show the dock that evaluates."""

    def show_sweep(self) -> None:
        """Open the dialog that tries several amounts of a step."""

    def show_batch(self) -> None:
        """Open the dialog that applies the stack to several checkpoints."""

    def show_report(self) -> None:
        """Open the dialog that writes a report on the stack."""

    def show_settings(self) -> None:
        """Open the settings dialog."""

    def show_palette(self) -> None:
        """Open the command palette."""

    def show_shortcuts(self) -> None:
        """Show the list of keyboard shortcuts."""

    def show_guide(self) -> None:
        """Open the user guide."""

    def show_last_crash(self) -> None:
        """Show the crash report of the previous run."""


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """The specification of one action.

    Attributes:
        name: the key of the action in the layouts of `menus`.
        text: the menu text, to be translated; or a function that returns a translated text.
        tip: the tool tip, to be translated.
        run: performs the action.
        key: the keyboard shortcut.
        icon: the name of the icon.
        when: returns whether the action is enabled.
        checked: returns whether the action is checked; None if it is not checkable.
        in_stack: whether the shortcut works only while the stack has the focus.
        button: the text on buttons, to be translated; None for the menu text.
    """

    name: str
    text: str | Callable[[ActionTarget], str]
    tip: str
    run: Callable[[ActionTarget], object]
    key: Key | str | None = None
    icon: str | None = None
    when: Callable[[ActionTarget], bool] = lambda _: True
    checked: Callable[[ActionTarget], bool] | None = None
    in_stack: bool = False
    button: str | None = None


def is_open(window: ActionTarget) -> bool:
    """Return whether a checkpoint is open."""
    return window.workbench.session is not None


def has_step(window: ActionTarget) -> bool:
    """Return whether the stack has a current step."""
    return window.stack.current is not None


def has_past_steps(window: ActionTarget) -> bool:
    """Return whether this program made the checkpoint, by steps that are known."""
    session = window.workbench.session
    return session is not None and bool(session.past_steps)


def starts_from_zeros(window: ActionTarget) -> bool:
    """Return whether the recipe counts zeros in the file as pruned."""
    session = window.workbench.session
    return session is not None and session.recipe.start == "zeros"


def has_own_table(window: ActionTarget) -> bool:
    """Return whether the recipe has a table of the architecture."""
    session = window.workbench.session
    return session is not None and session.recipe.table is not None


def has_picture(window: ActionTarget) -> bool:
    """Return whether the front view has a picture."""
    view = window.views.current
    return is_open(window) and view is not None and view.picture() is not None


def has_table(window: ActionTarget) -> bool:
    """Return whether the front view has a picture that can be exported as a table."""
    return has_picture(window) and window.views.front.has_table


def undo_label(window: ActionTarget) -> str | None:
    """Return the label of the change that undo reverts; None if there is none."""
    session = window.workbench.session
    return session.history.undo_label if session else None


def redo_label(window: ActionTarget) -> str | None:
    """Return the label of the change that redo repeats; None if there is none."""
    session = window.workbench.session
    return session.history.redo_label if session else None


def undo_text(window: ActionTarget) -> str:
    """Return the menu text of undo with the label of the change."""
    label = undo_label(window)
    return tr("&Undo: {what}", what=escape_mnemonics(label)) if label else tr("&Undo")


def redo_text(window: ActionTarget) -> str:
    """Return the menu text of redo with the label of the change."""
    label = redo_label(window)
    return tr("&Redo: {what}", what=escape_mnemonics(label)) if label else tr("&Redo")
