"""Bringing back what a program that ended without a word had not saved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QMessageBox, QWidget

from prune_gui.errors import RecipeError, one_line
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.workbench import Workbench
from prune_gui.language import later, tr
from prune_gui.session import named_states
from prune_gui.session.journal import Journal, Unsaved, left_behind
from prune_gui.session.state_file import remove

SETTLE = 200
"""Milliseconds in which changes of the recipe count as one."""
LONGEST = 120
"""Characters of the name of a checkpoint."""


class Recovery(QObject):
    """Keeps the recipe of a workbench on disk while it is unsaved, and offers what others left.

    Named states are kept for good: they belong to their checkpoint.

    Args:
        workbench: whose recipe it is.
        preferences: say whether to keep it.
        parent: the window.

    Attributes:
        journal: where it is kept.
    """

    def __init__(self, workbench: Workbench, preferences: Preferences, parent: QWidget) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._preferences = preferences
        self._window = parent
        self.journal = Journal()
        self._settled = QTimer(self, singleShot=True, interval=SETTLE)
        self._settled.timeout.connect(self._keep)
        for changed in (workbench.edited, workbench.opened):
            changed.connect(self._settled.start)
            changed.connect(self._keep_states)
        preferences.changed.connect(self._follow_setting)

    def stop(self) -> None:
        """Keep nothing any more: the window is closed, and the user has been asked."""
        self._settled.stop()
        self.journal.forget()

    def offer(self, another: Callable[[], Recovery]) -> list[Path]:
        """Ask about each recipe that was left, the latest first, until the user says later.

        Args:
            another: returns that of another window; the first recipe comes back in this one.

        Returns:
            The checkpoints whose recipes are coming back, the first of them in this window.
        """
        button = QMessageBox.StandardButton
        back: list[Path] = []
        for path, unsaved in left_behind():
            match _ask(self._window, unsaved):
                case button.Discard:
                    remove(path)
                case button.Open:
                    if (another() if back else self)._restore(path, unsaved):
                        back.append(unsaved.checkpoint)
                case _:
                    break
        return back

    def _restore(self, path: Path, unsaved: Unsaved) -> bool:
        """Open the checkpoint again and take the recipe; the file goes once it is kept anew."""
        workbench = self._workbench
        try:
            recipe = unsaved.parsed()
        except RecipeError as error:
            workbench.fail(later("Bringing back the recipe"), error)
            return False

        def opened() -> None:
            session = workbench.session
            if session is not None and session.checkpoint.path.absolute() == unsaved.checkpoint:
                workbench.edit(lambda session: session.bring_back(recipe, unsaved.recipe_path))
                self.journal.keep(session)
                remove(path)

        workbench.opened.connect(opened, Qt.ConnectionType.SingleShotConnection)
        workbench.open(unsaved.checkpoint, state=unsaved.state or None)
        return True

    def _follow_setting(self, name: str) -> None:
        if name == "keep_unsaved":
            self._settled.start()

    def _keep_states(self) -> None:
        if self._workbench.session is not None:
            named_states.keep(self._workbench.session)

    def _keep(self) -> None:
        if not self._preferences.now.keep_unsaved:
            self.journal.forget()
        elif self._workbench.session is not None:
            self.journal.keep(self._workbench.session)


def _ask(parent: QWidget, unsaved: Unsaved) -> QMessageBox.StandardButton:
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Question, tr("Bring back unsaved steps?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(
        tr(
            "Prune GUI ended without being closed. The steps for {name} as they were at "
            "{when:%H:%M} on {when:%d %B %Y} are kept.",
            name=one_line(unsaved.checkpoint.name, LONGEST),
            when=datetime.fromtimestamp(unsaved.written),
        )
    )
    box.setInformativeText(
        tr(
            "{path}\n\nLater: they are offered at the next start.",
            path=one_line(str(unsaved.checkpoint)),
        )
    )
    box.setStandardButtons(button.Open | button.Discard | button.Ignore)
    box.button(button.Open).setText(tr("&Bring back"))
    box.button(button.Ignore).setText(tr("&Later"))
    box.setDefaultButton(button.Open)
    box.setEscapeButton(button.Ignore)
    return button(box.exec())
