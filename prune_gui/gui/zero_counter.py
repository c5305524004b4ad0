"""Counting the zeros of the open file in the background."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Signal

from prune_gui.gui.bridge import Bridge
from prune_gui.worker.jobs import zeros_job

if TYPE_CHECKING:
    from prune_gui.session import Session
    from prune_gui.statistics.file_zeros import FileZeros

ANNOUNCE_INTERVAL_S: Final = 0.5
"""Minimum time between two announcements, since panels and pictures are updated after each."""
MAX_FILES: Final = 8
"""Limit of the files whose zeros are remembered."""


class ZeroCounter(QObject):
    """Keeps `Session.file_zeros` up to date, in jobs that run when the engine is idle.

    Zeros of a file that was opened before and is unchanged are not counted again.

    Signals:
        counted: the session has more zeros than at the last signal.
    """

    counted = Signal()

    def __init__(self, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._session: Session | None = None
        self._ticket: int | None = None
        self._announced = 0.0
        self._remembered: dict[object, FileZeros] = {}

    def count(self, session: Session) -> None:
        """Count the zeros of a session, and stop counting those of the session before.

        Those of a remote checkpoint are counted only after all of it was fetched.
        """
        self.stop()
        self._session = session
        known = self._remembered.get(_key(session))
        if known is not None:
            session.file_zeros = known
            self.counted.emit()
        else:
            self._announced = time.monotonic()
            self._continue(session)

    def stop(self) -> None:
        """Stop counting."""
        if self._ticket is not None:
            self._bridge.cancel(self._ticket)
        self._session = self._ticket = None

    def _continue(self, session: Session) -> None:
        def then(zeros: FileZeros | None) -> None:
            if self._session is session and zeros is not None:
                self._take(session, zeros)

        # If the file changed, the engine logs the error, and the notice to reload appears.
        self._ticket = self._bridge.run(zeros_job(session), then, lambda _: None)

    def _take(self, session: Session, zeros: FileZeros) -> None:
        session.file_zeros = zeros
        now = time.monotonic()
        if zeros.is_complete:
            self._ticket = None
            if len(self._remembered) == MAX_FILES:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[_key(session)] = zeros
        else:
            self._continue(session)
        if zeros.is_complete or now >= self._announced + ANNOUNCE_INTERVAL_S:
            self._announced = now
            self.counted.emit()


def _key(session: Session) -> object:
    return session.stamps, session.checkpoint.state_dict
