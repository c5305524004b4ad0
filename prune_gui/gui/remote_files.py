"""Opening remote checkpoints, and fetching more of them than the limit if the user agrees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt, Slot
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QLineEdit,
    QWidget,
)

from prune_gui.checkpoint.remote.access import FetchLimitError, fetch_limit
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.dialogs.questions import CANCEL, Role, ask
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets import layouts
from prune_gui.language import deferred, tr
from prune_gui.location import Location, is_url
from prune_gui.number_formats import short_bytes
from prune_gui.worker.jobs import fetch_job, missing_job

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.session import Session


MB: Final = 10**6


MIN_WIDTH_PX: Final = 560
EXAMPLES: Final = (
    "https://host/folder/model.safetensors",
    "s3://bucket/folder",
    "gs://bucket/folder",
    "az://container/folder",
    "hf://owner/name",
)
HINT: Final = deferred(
    "The URL of a file, of an index of shards, or of a folder with one of these. Credentials are "
    "taken from the environment and the files of the provider. Only what you look at is fetched."
)


class RemoteFiles(QObject):
    """Sets the limit of what is fetched, and asks before more is fetched."""

    def __init__(self, window: QWidget, workbench: Workbench, preferences: Preferences) -> None:
        super().__init__(window)
        self._window = window
        self._workbench = workbench
        self._preferences = preferences
        self._asks = False
        self._follow_setting("fetch_limit")
        preferences.changed.connect(self._follow_setting)

    @property
    def is_open(self) -> bool:
        session = self._workbench.session
        return session is not None and session.checkpoint.url is not None

    @Slot(str)
    def _follow_setting(self, name: str) -> None:
        if name == "fetch_limit":
            fetch_limit.set(self._preferences.now.fetch_limit * MB)

    def fetch_all(self) -> None:
        self._ask(None, None)

    def ask(self, error: FetchLimitError, then: Callable[[], None] | None = None) -> None:
        """Ask whether to fetch what a job needs."""
        self._ask(error.nbytes, then)

    def _ask(self, needed: int | None, then: Callable[[], None] | None) -> None:
        """Ask about some bytes, None for all, when it is known how many are missing."""
        session = self._workbench.session
        if session is None or not self.is_open:
            return

        def ask(missing: int) -> None:
            self._fetch(session, needed, missing, then or partial(self._read_again, session))

        self._workbench.bridge.run(missing_job(session), ask)

    def _fetch(
        self, session: Session, needed: int | None, missing: int, then: Callable[[], None]
    ) -> None:

        url = session.checkpoint.url
        if self._asks or url is None or not missing or self._workbench.session is not session:
            return
        self._asks = True  # several jobs may reach the limit
        try:
            agreed = agree_to_fetch(self._window, url, needed or missing, missing)
        finally:
            self._asks = False
        fetch_limit.allow(agreed)
        if not agreed or self._workbench.session is not session:
            return
        if agreed == missing:
            self._workbench.bridge.run(fetch_job(session), lambda _: then())
        else:
            then()

    def _read_again(self, session: Session) -> None:
        if self._workbench.session is session:
            self._workbench.files.reload()


class LocationDialog(QDialog):
    """Asks for a URL."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Open a location"))
        self.setMinimumWidth(MIN_WIDTH_PX)
        self.url = QLineEdit()
        self.url.setPlaceholderText(EXAMPLES[0])
        self.url.setClearButtonEnabled(True)
        self.url.textChanged.connect(self._check)
        label = QLabel(tr("&URL"))
        label.setBuddy(self.url)
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.setTextFormat(Qt.TextFormat.PlainText)
        hint = QLabel(tr(HINT))
        examples = QLabel("\n".join(EXAMPLES))
        for note in (hint, examples):
            note.setWordWrap(True)
            note.setForegroundRole(note.palette().ColorRole.PlaceholderText)
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.Open | standard.Cancel)
        self.open_button = buttons.button(standard.Open)
        self.open_button.setText(tr("&Open"))
        buttons.button(standard.Cancel).setText(tr("Cancel"))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layouts.column(
            label, self.url, self.problem, hint, examples, layouts.STRETCH, buttons, of=self
        )
        self._check()

    @property
    def path(self) -> Path | None:
        """The path that stands for the URL; None if it is not valid."""
        text = self.url.text().strip()
        try:
            return Location.of(text).path if is_url(text) else None
        except PruneGuiError:
            return None

    def _check(self) -> None:
        text = self.url.text().strip()
        problem = ""
        if text and not is_url(text):
            problem = tr("A URL begins as in the examples.")
        elif text:
            try:
                Location.of(text)
            except PruneGuiError as error:
                problem = str(error)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.open_button.setEnabled(self.path is not None)


def ask_location(parent: QWidget) -> Path | None:
    """Ask for the URL of a checkpoint; return the path that stands for it."""
    dialog = LocationDialog(parent)
    accepted = dialog.exec()
    path = dialog.path
    dialog.deleteLater()
    return path if accepted else None


def agree_to_fetch(parent: QWidget, url: str, needed: int, missing: int) -> int:
    """Ask how much of a remote checkpoint to fetch.

    Args:
        needed: bytes to fetch for what the user wants to see.
        missing: bytes of the checkpoint that were not fetched yet.
    """
    buttons = {"part": (Role.AcceptRole, tr("&Fetch {size}", size=short_bytes(needed)))}
    if missing > needed:
        text = tr("Fetch the &whole checkpoint ({size})", size=short_bytes(missing))
        buttons["whole"] = Role.AcceptRole, text
    answer = ask(
        parent,
        tr("Fetch this much?"),
        tr("{size} of {url} would be fetched.", size=short_bytes(needed), url=one_line(url)),
        {**buttons, "cancel": CANCEL},
        default="part",
        details=tr("What is fetched is kept on this computer, up to the limit of the cache."),
    )
    return {"part": needed, "whole": missing}.get(answer, 0)
