"""The notice that a pruned checkpoint was saved, with what can be done with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QToolBar, QToolButton

from prune_gui.gui.panels.notices import Notice
from prune_gui.gui.widgets.theme import icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.session.changes import Changes

MORE: Final = "qt_toolbar_ext_button"
"""Qt's name of the button with the menu."""


class SavedNotice(Notice):
    """Names the saved checkpoint; buttons that do not fit into a narrow window are in a menu."""

    open_wanted = Signal(object)  # (path) this and the others: the user clicked the button
    compare_wanted = Signal(object)  # (path)
    folder_wanted = Signal(object)  # (path)
    code_wanted = Signal(object)  # (path)

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench, "", "")
        self.button.hide()
        self._path = Path()
        self._bar = QToolBar()
        self._lines.addWidget(self._bar)
        for text, wanted in (
            (tr("Open"), self.open_wanted),
            (tr("Compare with the original"), self.compare_wanted),
            (tr("Show in folder"), self.folder_wanted),
            (tr("Copy code to load"), self.code_wanted),
        ):
            action = self._bar.addAction(text)
            action.triggered.connect(lambda _=False, wanted=wanted: wanted.emit(self._path))
        for button in self._bar.findChildren(QToolButton):
            button.setAutoRaise(button.objectName() == MORE)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_saved(self, path: Path, text: str) -> None:
        """Offer what can be done with the checkpoint at a path."""
        self._path, self._is_closed = path, False
        for button in self._bar.findChildren(QToolButton, MORE):
            button.setIcon(icon("down"))  # Qt's is black in any theme
        self.say(text)

    def _wanted_text(self) -> str:
        return self._text

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._text = ""
        super()._on_changed(changes)
