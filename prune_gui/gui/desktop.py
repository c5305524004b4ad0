"""The integration into desktops that follow freedesktop.org: menu entry, file types, icons."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import PruneGuiError
from prune_gui.resources import resource

NAME: Final = "prune-gui"
ICON_SIZES_PX: Final = (16, 22, 24, 32, 48, 64, 128, 256, 512)
METAINFO: Final = "org.prunegui.PruneGUI.metainfo.xml"
_RESERVED: Final = frozenset(" \t\n\"'\\><~|&;$*?#()`")
"""Characters for which the specification of desktop entries demands quotes."""
_ESCAPED: Final = ("\\", '"', "`", "$")
"""Characters that are escaped within quotes; the backslash first."""
UPDATE_TIMEOUT_S: Final = 60
UPDATES: Final = (("update-desktop-database", "applications"), ("update-mime-database", "mime"))
"""Programs that renew the caches of a folder below the data folder."""
log = logging.getLogger(__name__)


def desktop_files(command: Sequence[str]) -> dict[PurePosixPath, bytes]:
    """Return the content of each file, by its path below a data folder such as `/usr/share`."""
    icons = PurePosixPath("icons/hicolor")
    files = {
        PurePosixPath(f"applications/{NAME}.desktop"): _desktop_entry(command),
        PurePosixPath(f"metainfo/{METAINFO}"): resource("desktop", METAINFO).read_bytes(),
        PurePosixPath(f"mime/packages/{NAME}.xml"): resource(
            "desktop", f"{NAME}-mime.xml"
        ).read_bytes(),
        icons / f"scalable/apps/{NAME}.svg": _svg(),
    }
    for size in ICON_SIZES_PX:
        files[icons / f"{size}x{size}/apps/{NAME}.png"] = icon_png(size)
    return files


def icon_png(size: int) -> bytes:
    """Return the icon of the program as PNG, with transparency, in `size` x `size` pixels."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(_svg())).render(painter)
    painter.end()
    octets = QByteArray()
    buffer = QBuffer(octets)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload] # its stub has no format as a string
    buffer.close()
    return bytes(octets.data())


def _svg() -> bytes:
    return resource("icons", "app.svg").read_bytes()


def _desktop_entry(command: Sequence[str]) -> bytes:
    """Return the desktop entry with `command` in place of `prune-gui`."""
    quoted = " ".join(map(_quoted, command))
    entry = resource("desktop", f"{NAME}.desktop").read_text(encoding="utf-8")
    entry = f"\n{entry}".replace(f"\nExec={NAME}", f"\nExec={quoted}")
    group = "\n[Desktop Entry]\n"  # the entry is hidden when the program is removed
    return entry.replace(group, f"{group}TryExec={_string(command[0])}\n").lstrip().encode()


def _quoted(word: str) -> str:
    """Quote a word of a command: in quotes, then as a string of a desktop entry."""
    if _RESERVED & set(word):
        for character in _ESCAPED:
            word = word.replace(character, f"\\{character}")
        word = f'"{word}"'
    return _string(word.replace("%", "%%"))


def _string(text: str) -> str:
    for character, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return text


def install() -> Path:
    """Write or replace the files of the desktop integration, and return the data folder."""
    folder = _data_folder()
    for path, content in desktop_files(_command()).items():
        target = folder / path
        with PruneGuiError.on_os_error(
            "{folder} cannot be created: {reason}.", folder=target.parent
        ):
            target.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(target, content)
    _update_caches(folder)
    return folder


def uninstall() -> bool:
    """Remove the files of the desktop integration, and return whether there were any."""
    folder = _data_folder()
    existing = [path for path in desktop_files(_command()) if os.path.lexists(folder / path)]
    for path in existing:
        with PruneGuiError.on_os_error("{path} cannot be removed: {reason}.", path=folder / path):
            (folder / path).unlink()
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
    return [os.fspath(script)] if script.is_file() else [sys.executable, "-P", "-m", "prune_gui"]


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
