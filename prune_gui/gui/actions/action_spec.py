"""The specification of an action of the window, and predicates for when it is enabled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QKeySequence

from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.panel_window import PanelWindow

Key = QKeySequence.StandardKey


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """The specification of one action."""

    text: str | Callable[[PanelWindow], str]  # to be translated, or a function that does it
    tip: str
    run: Callable[[PanelWindow], object]
    key: Key | str | None = None
    icon: str | None = None
    when: Callable[[PanelWindow], bool] = lambda _: True  # returns whether the action is enabled
    checked: Callable[[PanelWindow], bool] | None = None  # None: the action is not checkable
    in_stack: bool = False  # whether the shortcut works only while the stack has the focus
    button: str | None = None  # the text on buttons, to be translated; None for the menu text


def is_open(window: PanelWindow) -> bool:
    """Return whether a checkpoint is open."""
    return window.session is not None


def has_step(window: PanelWindow) -> bool:
    """Return whether the stack has a current step."""
    return window.stack.current is not None


when_open: Final = partial(ActionSpec, when=is_open)
of_step: Final = partial(ActionSpec, when=has_step, in_stack=True)


def starts_from_zeros(window: PanelWindow) -> bool:
    """Return whether the recipe counts zeros in the file as pruned."""
    return window.session is not None and window.session.recipe.start == "zeros"


def has_picture(window: PanelWindow) -> bool:
    """Return whether the front view has a picture."""
    view = window.views.current
    return is_open(window) and view is not None and view.picture() is not None


def has_table(window: PanelWindow) -> bool:
    """Return whether the front view has a picture that can be exported as a table."""
    return has_picture(window) and window.views.front.has_table


def undo_label(window: PanelWindow) -> str | None:
    """Return the label of the change that undo reverts; None if there is none."""
    return window.session.history.undo_label if window.session else None


def redo_label(window: PanelWindow) -> str | None:
    """Return the label of the change that redo repeats; None if there is none."""
    return window.session.history.redo_label if window.session else None


def undo_text(window: PanelWindow) -> str:
    """Return the menu text of undo with the label of the change."""
    label = undo_label(window)
    return tr("&Undo: {what}", what=escape_mnemonics(label)) if label else tr("&Undo")


def redo_text(window: PanelWindow) -> str:
    """Return the menu text of redo with the label of the change."""
    label = redo_label(window)
    return tr("&Redo: {what}", what=escape_mnemonics(label)) if label else tr("&Redo")
