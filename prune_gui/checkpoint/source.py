"""The file behind a checkpoint, which has to stay what it was when it was opened."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.digest import PIECE_BYTES
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

FINGERPRINT_PREFIX: Final = "sha256:"


class Source:
    """A file that stays open, so that it can be read on when another one takes its place.

    Whoever uses pages that are mapped from it checks before each stretch of them that it is as it
    was, because the system ends a process that touches pages which another program has cut off in
    place. In the moment between the check and the use that can still happen.

    Attributes:
        path: where it was found.
        file: open for reading.
        size: in bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("rb")
        self._state = self._stat()
        self.size = self._state[0]

    def check(self) -> None:
        """Check that nobody has changed the file since it was opened.

        Raises:
            CheckpointError: it is closed, or somebody has.
        """
        if self.file.closed:
            raise CheckpointError(tr("{file} is closed. Open it again.", file=self.path.name))
        if self._stat() != self._state:
            raise CheckpointError(
                tr(
                    "{file} was changed by another program since it was opened. Open it again.",
                    file=self.path.name,
                )
            )

    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the bytes of the file that was opened.

        Raises:
            CheckpointError: the file cannot be read, or was changed.
            Cancelled: the monitor says so.
        """
        digest = hashlib.sha256()
        monitor.expect(self.size)
        try:
            self.check()
            self.file.seek(0)
            while piece := self.file.read(PIECE_BYTES):
                digest.update(piece)
                monitor.advance(len(piece))
            self.check()
        except OSError as error:
            reason = error.strerror or error
            raise CheckpointError(
                tr("{path} cannot be read: {reason}.", path=self.path, reason=reason)
            ) from error
        return f"{FINGERPRINT_PREFIX}{digest.hexdigest()}"

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _stat(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns
