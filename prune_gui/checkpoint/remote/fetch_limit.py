"""A limit for what a program with a window fetches before it asks the user."""

from __future__ import annotations

import threading

from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.number_formats import short_bytes


class FetchLimitError(CheckpointError):
    """Something is not fetched, because the user has to agree first."""

    def __init__(self, name: str, nbytes: int) -> None:
        super().__init__(
            tr(
                "{name}: {size} would be fetched, more than the limit allows. Choose File > Fetch "
                "whole checkpoint, or raise the limit in the settings.",
                name=name,
                size=short_bytes(nbytes),
            )
        )
        self.nbytes = nbytes


class FetchLimit:
    """Counts what may be fetched. There is no limit until one is set. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int | None = None

    def set(self, nbytes: int | None) -> None:
        """Allow this much from now on; None for no limit."""
        with self._lock:
            self._left = nbytes

    def allow(self, nbytes: int) -> None:
        """Allow this much in any case: what is allowed already counts."""
        with self._lock:
            if self._left is not None:
                self._left = max(self._left, nbytes)

    def check(self, name: str, nbytes: int) -> None:
        """Check that this much may be fetched of the file `name`."""
        left = self._left
        if left is not None and nbytes > left:
            raise FetchLimitError(name, nbytes)

    def take(self, name: str, nbytes: int) -> None:
        """Count this much as fetched."""
        with self._lock:
            self.check(name, nbytes)
            if self._left is not None:
                self._left -= nbytes


fetch_limit = FetchLimit()
"""The limit of this process."""
