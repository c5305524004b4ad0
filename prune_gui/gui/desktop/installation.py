"""Installing the desktop integration for one user, and removing it."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import PruneGuiError
from prune_gui.gui.desktop.files import NAME, desktop_files

UPDATE_TIMEOUT_S: Final = 60
UPDATES: Final = (("update-desktop-database", "applications"), ("update-mime-database", "mime"))
"""Programs that renew the caches of a folder below the data folder."""

log = logging.getLogger(__name__)


def install() -> Path:
    """Write the files of the desktop integration, and return the data folder.

    Files of an earlier installation are replaced.

    Raises:
        PruneGuiError: this system has no such desktops, or a file cannot be written.
    """
    folder = _data_folder()
    for path, content in desktop_files(_command()).items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PruneGuiError(f"{target.parent} cannot be created: {error.strerror}.") from error
        replace_bytes(target, content)
    _update_caches(folder)
    return folder


def uninstall() -> bool:
    """Remove the files of the desktop integration, and return whether there were any.

    Raises:
        PruneGuiError: this system has no such desktops, or a file cannot be removed.
    """
    folder = _data_folder()
    existing = [path for path in desktop_files(_command()) if os.path.lexists(folder / path)]
    for path in existing:
        try:
            (folder / path).unlink()
        except OSError as error:
            raise PruneGuiError(f"{folder / path} cannot be removed: {error.strerror}.") from error
    if existing:
        _update_caches(folder)
    return bool(existing)


def _data_folder() -> Path:
    if sys.platform in ("win32", "darwin"):
        raise PruneGuiError("Desktop entries are for Linux. This system has none.")
    data_home = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data_home):  # noqa: PTH117
        return Path(data_home)
    return Path.home() / ".local" / "share"


def _command() -> list[str]:
    """Return the command that starts this installation of the program, with absolute paths."""
    if getattr(sys, "frozen", False):
        return [sys.executable]
    script = Path(sysconfig.get_path("scripts"), NAME)
    if script.is_file():
        return [os.fspath(script)]
    return [sys.executable, "-P", "-m", "prune_gui"]


def _update_caches(folder: Path) -> None:
    """Make the desktop notice the change, with those programs that are installed."""
    for program, subfolder in UPDATES:
        found = shutil.which(program)
        if found is not None and (folder / subfolder).is_dir():
            try:
                subprocess.run(
                    [found, folder / subfolder], capture_output=True, check=True,
                    timeout=UPDATE_TIMEOUT_S,
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                log.warning("%s failed: %s", program, error)
    with suppress(OSError):
        os.utime(folder / "icons" / "hicolor")  # caches of icons compare this time
