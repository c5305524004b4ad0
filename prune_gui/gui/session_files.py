"""The life cycle of the session of a window: opening, counting zeros, saving, closing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache
from PySide6.QtCore import QObject, Signal

from prune_gui.gui.bridge import Bridge
from prune_gui.worker.jobs import export_job, open_job, zeros_job

if TYPE_CHECKING:
    from prune_gui.recipe import OutputOptions
    from prune_gui.session import Session
    from prune_gui.statistics.file_zeros import FileZeros


ANNOUNCE_INTERVAL_S: Final = 0.5
"""Minimum time between two announcements, since panels and pictures are updated after each."""
MAX_FILES: Final = 8
"""Limit of the files whose zeros are remembered."""


class SessionFiles(QObject):
    """Opens checkpoints, and writes the pruned checkpoint, on the engine's threads."""

    opened = Signal(bool)  # (continued) `session` was replaced; whether the recipe is continued
    saved = Signal(object)  # (path) the pruned checkpoint was written

    def __init__(self, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self.session: Session | None = None  # the open session; None until a checkpoint is open
        self._last_opening: tuple[int, Path] | None = None

    @property
    def path(self) -> Path | None:
        """The checkpoint that is being opened, or else the open one; None if there is none."""
        if self._last_opening is not None and self.is_opening:
            return self._last_opening[1]
        return self.session.checkpoint.path if self.session is not None else None

    @property
    def is_opening(self) -> bool:
        return self._last_opening is not None and self._bridge.waits_for(self._last_opening[0])

    def open(
        self,
        path: Path,
        recipe_path: Path | None = None,
        state: str | None = None,
        may_replace: Callable[[], bool] = lambda: True,
    ) -> int:
        """Open a checkpoint; return the job's ticket. The current one stays open until it is.

        `may_replace` is asked after the file was found good, before it takes the place.
        """

        def opened(session: Session) -> None:
            if may_replace():
                self._replace(session, continued=False)
            else:
                session.checkpoint.close()

        ticket = self._bridge.run(open_job(path, recipe_path, state), opened)
        self._last_opening = ticket, path
        return ticket

    def reload(self) -> None:
        """Open the checkpoint file again, and keep the recipe and its history."""
        before = self.session
        assert before is not None

        def reloaded(session: Session) -> None:
            if self.session is before:
                self.switch_to(session)
            else:  # another checkpoint was opened meanwhile
                session.checkpoint.close()

        checkpoint = before.checkpoint
        path = checkpoint.pipeline or checkpoint.path
        self._bridge.run(open_job(path, state=checkpoint.state_dict or None), reloaded)

    def switch_to(self, session: Session) -> None:
        """Switch to another session; keep the recipe, its history and the chosen parameter."""
        if self.session is not None:
            session.take_over(self.session)
        self._replace(session, continued=True)

    def save(
        self,
        out: Path,
        options: OutputOptions,
        *,
        failed: Callable[[BaseException], None] | None = None,
    ) -> int:
        session = self.session
        assert session is not None
        recipe = session.recipe

        def saved(path: Path) -> None:
            session.mark_saved(recipe)
            self.saved.emit(path)

        return self._bridge.run(export_job(session, out, options), saved, failed)

    def close(self) -> None:
        """Close the checkpoint. The engine must have ended."""
        if self.session is not None:
            self.session.checkpoint.close()
            self.session = None

    def _replace(self, session: Session, *, continued: bool) -> None:
        if self.session is not None:
            self._bridge.close_unused(self.session.checkpoint)
        self.session = session
        self.opened.emit(continued)


class ZeroCounter(QObject):
    """Keeps `Session.file_zeros` up to date, in jobs that run when the engine is idle."""

    counted = Signal()  # the session has more zeros than at the last signal

    def __init__(self, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._session: Session | None = None
        self._ticket: int | None = None
        self._announced = 0.0
        self._remembered: LRUCache[object, FileZeros] = LRUCache(MAX_FILES)

    def count(self, session: Session) -> None:
        """Count the zeros of a session, and stop counting those of the session before.

        Those of a remote checkpoint are counted only after all of it was fetched.
        """
        self.stop()
        self._session = session
        known = self._remembered.get(_key(session))  # of the unchanged file
        if known is not None:
            session.file_zeros = known
            self.counted.emit()
        else:
            self._announced = time.monotonic()
            self._continue(session)

    def stop(self) -> None:
        if self._ticket is not None:
            self._bridge.cancel(self._ticket)
        self._session = self._ticket = None

    def _continue(self, session: Session) -> None:
        def then(zeros: FileZeros | None) -> None:
            if self._session is not session or zeros is None:
                return
            session.file_zeros, now = zeros, time.monotonic()
            if zeros.is_complete:
                self._ticket = None
                self._remembered[_key(session)] = zeros
            else:
                self._continue(session)
            if zeros.is_complete or now >= self._announced + ANNOUNCE_INTERVAL_S:
                self._announced = now
                self.counted.emit()

        # If the file changed, the engine logs the error, and the notice to reload appears.
        self._ticket = self._bridge.run(zeros_job(session), then, lambda _: None)


def _key(session: Session) -> object:
    return session.stamps, session.checkpoint.state_dict
