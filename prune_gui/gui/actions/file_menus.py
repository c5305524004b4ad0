"""The menus of recent files and of the state dicts of the open file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from prune_gui.gui.commands import Commands
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.language import tr
from prune_gui.location import Location
from prune_gui.session import Session

MAX_LISTED_STATES: Final = 40
"""Limit of the state dicts in the menu. The command line accepts the name of any."""


class RecentMenu(QMenu):
    """Lists the recent files.

    Signals:
        another_wanted: (path) open this file in another window.
    """

    another_wanted = Signal(object)

    def __init__(self, commands: Commands, parent: QWidget) -> None:
        super().__init__(tr("Open rece&nt"), parent)
        self._commands = commands
        self.setToolTipsVisible(True)
        self.aboutToShow.connect(self._list)

    def open_path(self, path: Path) -> None:
        """Open a file; with Ctrl, in another window."""
        if QGuiApplication.keyboardModifiers() & Qt.KeyboardModifier.ControlModifier:
            self.another_wanted.emit(path)
        else:
            self._commands.open_path(path)

    def _list(self) -> None:
        self.clear()
        for number, path in enumerate(self._commands.settings.recent, start=1):
            text = escape_mnemonics(str(Location.at(Path(path))))
            action = self.addAction(f"&{number}  {text}" if number < 10 else text)
            action.setToolTip(tr("With Ctrl: in a new window"))
            action.triggered.connect(partial(self.open_path, Path(path)))


class StatesMenu(QMenu):
    """Lists the state dicts of the open file; the open one is checked."""

    def __init__(self, commands: Commands, parent: QWidget) -> None:
        super().__init__(tr("&State dict"), parent)
        self._commands = commands
        self._session: Session | None = None
        self.aboutToShow.connect(self._list)

    def follow(self, session: Session | None) -> None:
        """List the state dicts of a session; the menu is disabled if there is no choice."""
        self._session = session
        self.setEnabled(session is not None and len(session.checkpoint.candidates) > 1)

    def _list(self) -> None:
        assert self._session is not None
        checkpoint = self._session.checkpoint
        self.clear()
        for name in checkpoint.candidates[:MAX_LISTED_STATES]:
            action = self.addAction(escape_mnemonics(name, 80))
            action.setCheckable(True)
            action.setChecked(name == checkpoint.state_dict)
            action.triggered.connect(
                lambda _, name=name: self._commands.open_path(checkpoint.path, state=name)
            )
