"""Opening remote checkpoints, and fetching more of them than the limit if the user agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt, Slot
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QLineEdit, QWidget

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

    def ask(
        self, error: FetchLimitError | None = None, then: Callable[[], None] | None = None
    ) -> None:
        """Ask whether to fetch what a job needs, or all, when it is known how much is missing."""
        session, needed = self._workbench.session, error.nbytes if error else None
        if session is None or not self.is_open:
            return

        def read_again() -> None:
            if self._workbench.session is session:
                self._workbench.files.reload()

        def ask(missing: int) -> None:
            self._fetch(session, needed, missing, then or read_again)

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


class LocationDialog(QDialog):
    """Asks for a URL."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Open a location"))
        self.setMinimumWidth(MIN_WIDTH_PX)
        self.url = QLineEdit(placeholderText=EXAMPLES[0], clearButtonEnabled=True)
        self.url.textChanged.connect(self._check)
        label = QLabel(tr("&URL"))
        label.setBuddy(self.url)
        self.problem = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        hints = layouts.remark(tr(HINT)), layouts.remark("\n".join(EXAMPLES))
        standard = QDialogButtonBox.StandardButton
        buttons = layouts.dialog_buttons(self, standard.Open | standard.Cancel)
        self.open_button = buttons.button(standard.Open)
        self.open_button.setText(tr("&Open"))
        buttons.button(standard.Cancel).setText(tr("Cancel"))
        layouts.column(label, self.url, self.problem, *hints, layouts.STRETCH, buttons, of=self)
        self._check()

    def _check(self) -> None:
        text = self.url.text().strip()
        self.path: Path | None = None  # stands for the URL; None if that is not valid
        problem = ""
        if text and not is_url(text):
            problem = tr("A URL begins as in the examples.")
        elif text:
            try:
                self.path = Location.of(text).path
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
    """Ask how many bytes to fetch: those `needed` for what the user wants to see, or all."""
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
