"""Opening remote checkpoints, and fetching more of them than the limit if the user agrees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Slot

from prune_gui.checkpoint.remote.fetch_limit import FetchLimitError, fetch_limit
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.worker.jobs import fetch_job, missing_job

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from prune_gui.gui.workbench import Workbench
    from prune_gui.session import Session

MB: Final = 10**6


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
        """Whether the open checkpoint is remote."""
        session = self._workbench.session
        return session is not None and session.checkpoint.url is not None

    @Slot(str)
    def _follow_setting(self, name: str) -> None:
        if name == "fetch_limit":
            fetch_limit.set(self._preferences.now.fetch_limit * MB)

    def fetch_all(self) -> None:
        """Fetch all of the open checkpoint, if the user agrees."""
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
        from prune_gui.gui.dialogs.location import agree_to_fetch  # rarely shown

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
