"""What may be fetched and written at a URL, before any package for it is imported."""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import Final
from urllib.parse import urlsplit

from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.location import Location
from prune_gui.number_formats import short_bytes

WRITABLE_SCHEMES: Final = ("s3", "gs", "az")


def check_installed() -> None:
    """Check that the package for remote files is installed."""
    if importlib.util.find_spec("obstore") is None:
        raise CheckpointError(
            "URLs need the package {package}. Install prune-gui[{extra}] to use them.",
            package="obstore",
            extra="remote",
        )


def check_writable(url: str) -> None:
    """Raise CheckpointError if no files can be written to servers of the kind of a URL."""
    if urlsplit(url).scheme not in WRITABLE_SCHEMES:
        raise CheckpointError(
            "{url} cannot be written. Save into an object store (s3, gs or az), or into a "
            "local folder.",
            url=url,
        )
    check_installed()


def exists(location: Location) -> bool:
    """Return whether there is a file at a location; CheckpointError if it cannot be reached."""
    if location.url is None:
        return os.path.lexists(location)
    from prune_gui.checkpoint.remote.uploads import upload_id  # optional

    return upload_id(location.url) is not None


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
    """Counts what a program with a window may fetch before it asks the user. Thread-safe."""

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
