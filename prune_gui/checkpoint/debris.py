"""Telling what a killed run left behind from what another run is writing right now."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".prune-gui-tmp"

log = logging.getLogger(__name__)


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Mark an existing file or folder as being written, for as long as this process lives.

    The mark is a lock of the operating system, which goes with the process however it ends. On
    Windows none is needed: a file that is open there cannot be removed.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove temporary files and folders that no living process has claimed."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        with suppress(OSError):  # what cannot be removed does no harm
            if _is_abandoned(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                log.info("Removed %s, which a run that was killed had left", path)


def _is_abandoned(path: Path) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
