"""Recovery of unsaved recipes after a crash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget

from prune_gui.errors import RecipeError, one_line
from prune_gui.gui.dialogs.questions import Standard, ask
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.location import Location
from prune_gui.session import kept_recipes
from prune_gui.session.changes import Changes
from prune_gui.session.kept_recipes import Journal, Unsaved, left_behind
from prune_gui.session.state_file import remove

SETTLE_DELAY_MS = 200
"""Delay after a change of the recipe before it is written; more changes restart the delay."""
MAX_NAME_CHARS = 120
"""Limit of a shown checkpoint name."""


class Recovery(QObject):
    """Keeps an unsaved recipe in a journal on disk, and offers the journals of crashed processes.

    Named states are written to disk permanently; they belong to their checkpoint.
    """

    def __init__(self, workbench: Workbench, preferences: Preferences, parent: QWidget) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._preferences = preferences
        self._window = parent
        self.journal = Journal()
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_DELAY_MS)
        self._settle_timer.timeout.connect(self._keep)
        workbench.changed.connect(self._on_changed)
        preferences.changed.connect(self._follow_setting)

    def stop(self) -> None:
        """Delete the journal: the window is closed, and the user has been asked."""
        self._settle_timer.stop()
        self.journal.forget()

    def offer(self, another: Callable[[], Recovery]) -> list[Path]:
        """Ask about each recovered recipe, the latest first, until the user chooses Later."""
        restored: list[Path] = []
        for path, unsaved in left_behind():
            match _ask(self._window, unsaved):
                case "discard":
                    remove(path)
                case "restore":
                    if (another() if restored else self)._restore(path, unsaved):
                        restored.append(unsaved.checkpoint)
                case _:
                    break
        return restored

    def _restore(self, path: Path, unsaved: Unsaved) -> bool:
        """Open the checkpoint, restore the recipe, then replace the old journal by a new one."""
        workbench = self._workbench
        try:
            recipe = unsaved.parsed()
        except RecipeError as error:
            workbench.fail(deferred("Restoring the recipe"), error)
            return False

        def opened(changes: Changes) -> None:
            if not changes.file:
                return
            workbench.changed.disconnect(opened)
            session = workbench.session
            if session is not None and session.checkpoint.path.absolute() == unsaved.checkpoint:
                recipe_path, draft = unsaved.recipe_path, unsaved.draft
                workbench.edit(lambda session: session.bring_back(recipe, recipe_path, draft))
                self.journal.keep(session)
                remove(path)

        # Connected last, so that every panel shows the file before the recipe.
        workbench.changed.connect(opened)
        workbench.files.open(unsaved.checkpoint, state=unsaved.state or None)
        return True

    def _follow_setting(self, name: str) -> None:
        if name == "keep_unsaved":
            self._settle_timer.start()

    def _on_changed(self, changes: Changes) -> None:
        if changes.recipe or changes.draft or changes.saved:
            self._settle_timer.start()
            if self._workbench.session is not None:
                kept_recipes.keep_states(self._workbench.session)

    def _keep(self) -> None:
        if not self._preferences.now.keep_unsaved:
            self.journal.forget()
        elif self._workbench.session is not None:
            self.journal.keep(self._workbench.session)


def _ask(parent: QWidget, unsaved: Unsaved) -> str:
    """Return "restore", "discard" or "later"."""
    message = deferred(
        "Prune GUI was not closed normally. The steps for {name} from {when:%H:%M} on {when:%d "
        "%B %Y} can be restored."
    )
    if is_draft := unsaved.is_draft_alone:
        message = deferred(
            "Prune GUI was not closed normally. The draft for {name} from {when:%H:%M} on {when:%d "
            "%B %Y} can be restored."
        )
    text = tr(
        message,
        name=one_line(unsaved.checkpoint.name, MAX_NAME_CHARS),
        when=datetime.fromtimestamp(unsaved.written),
    )
    path = one_line(str(Location.at(unsaved.checkpoint)))
    details = tr("{path}\n\nLater: ask again at the next start.", path=path)
    buttons = {
        "restore": (Standard.Open, tr("&Restore")),
        "discard": (Standard.Discard, tr("&Discard")),
        "later": (Standard.Ignore, tr("&Later")),
    }
    title = tr("Restore the unsaved draft?") if is_draft else tr("Restore unsaved steps?")
    return ask(parent, title, text, buttons, default="restore", escape="later", details=details)
