"""What an action of the window is, and when it can be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QKeySequence

from prune_gui.gui.runtime.locale import literal
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.window import MainWindow

Key = QKeySequence.StandardKey


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One thing the user can do.

    Attributes:
        name: in the layouts of `actions`.
        text: in menus, to be translated; a function that translates it where it depends.
        tip: a sentence about it, to be translated.
        run: does it.
        key: on the keyboard.
        icon: by its name.
        when: whether it can be done now.
        checked: whether it is on now; None if it is nothing to be on or off.
        in_stack: whether the key counts only while the stack has the focus.
        button: on buttons, to be translated; None if that is the text in menus.
    """

    name: str
    text: str | Callable[[MainWindow], str]
    tip: str
    run: Callable[[MainWindow], object]
    key: Key | str | None = None
    icon: str | None = None
    when: Callable[[MainWindow], bool] = lambda _: True
    checked: Callable[[MainWindow], bool] | None = None
    in_stack: bool = False
    button: str | None = None


def is_open(window: MainWindow) -> bool:
    """Tell whether a checkpoint is open."""
    return window.workbench.session is not None


def has_step(window: MainWindow) -> bool:
    """Tell whether there is a current step in the stack."""
    return window.stack.current is not None


def is_made_here(window: MainWindow) -> bool:
    """Tell whether this program made the checkpoint, by a recipe that is known."""
    session = window.workbench.session
    return session is not None and session.made is not None and session.made.recipe is not None


def has_picture(window: MainWindow) -> bool:
    """Tell whether the view in front has a picture."""
    view = window.views.current
    return is_open(window) and view is not None and view.picture() is not None


def has_table(window: MainWindow) -> bool:
    """Tell whether that picture is one of a table too."""
    return has_picture(window) and window.views.front.has_table


def undo_label(window: MainWindow) -> str | None:
    """Return what undo would undo; None if there is nothing."""
    session = window.workbench.session
    return session.history.undo_label if session else None


def redo_label(window: MainWindow) -> str | None:
    """Return what redo would do again; None if there is nothing."""
    session = window.workbench.session
    return session.history.redo_label if session else None


def undo_text(window: MainWindow) -> str:
    """Return the text of undo, named after what it undoes."""
    what = undo_label(window)
    return tr("&Undo: {what}", what=literal(what)) if what else tr("&Undo")


def redo_text(window: MainWindow) -> str:
    """Return the text of redo, named after what it does again."""
    what = redo_label(window)
    return tr("&Redo: {what}", what=literal(what)) if what else tr("&Redo")
