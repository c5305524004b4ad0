"""The draft of a window: a step that is previewed before it is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from prune_gui.worker.jobs import Draft

if TYPE_CHECKING:
    from prune_gui.recipe import Step
    from prune_gui.session import Session


class DraftController(QObject):
    """Sets, previews and commits the draft.

    Attributes:
        current: the draft, which every view shows as if it were added; None without one.
        shows_original: whether the views show the file unchanged, without the recipe and the draft.

    Signals:
        changed: `current` changed, so that the recipe must be resolved with it.
        original_toggled: `shows_original` changed.
    """

    changed = Signal()
    original_toggled = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.current: Draft | None = None
        self.shows_original = False

    def set(self, step: Step | None, replaces: int | None = None) -> None:
        """Show `step` as if it were added, or as if it replaced the step at index `replaces`."""
        draft = Draft(step, replaces) if step else None
        if draft != self.current:
            self.current = draft
            self.changed.emit()

    def commit(self, session: Session, draft: Draft) -> None:
        """Make a draft a step of the recipe; to be called by `Workbench.edit`."""
        self.current = None
        if draft.replaces is None:
            session.add(draft.step)
        else:
            session.replace(draft.replaces, draft.step)

    def show_original(self, *, on: bool) -> None:
        """Show the file unchanged, or the recipe and the draft again."""
        if on != self.shows_original:
            self.shows_original = on
            self.original_toggled.emit()
