"""Telling what a killed run left behind from what another run is writing right now."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".prune-gui-tmp"
OWNER: Final = re.compile(rf"\.([0-9]{{1,9}})-[0-9a-f]+{re.escape(TEMPORARY_SUFFIX)}")
"""The end of the name of a temporary file or folder, with the number of the process it is of."""

log = logging.getLogger(__name__)


def temporary_beside(target: Path) -> Path:
    """Return a new name in the folder of `target`, from where a rename reaches it."""
    end = f"{os.getpid()}-{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    return target.parent / f".{target.name[:48]}.{end}"


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Mark an existing file or folder as being written, for as long as this process lives.

    The mark is a lock of the operating system, which goes with the process however it ends. On
    Windows it would keep the file from being renamed; there the process in its name is the mark.
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
        import psutil

        owner = OWNER.search(path.name)
        return owner is None or not psutil.pid_exists(int(owner[1]))
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
