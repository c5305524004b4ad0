"""The files that integrate the program into a desktop: menu entry, metainfo, file types, icons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from prune_gui.resources import resource

NAME: Final = "prune-gui"
ICON_SIZES_PX: Final = (16, 22, 24, 32, 48, 64, 128, 256, 512)
METAINFO: Final = "org.prunegui.PruneGUI.metainfo.xml"
_RESERVED: Final = frozenset(" \t\n\"'\\><~|&;$*?#()`")
"""Characters for which the specification of desktop entries demands quotes."""
_ESCAPED: Final = ("\\", '"', "`", "$")
"""Characters that are escaped within quotes; the backslash first."""


def desktop_files(command: Sequence[str]) -> dict[PurePosixPath, bytes]:
    """Return the content of each file, by its path below a data folder such as `/usr/share`."""
    icons = PurePosixPath("icons/hicolor")
    files = {
        PurePosixPath(f"applications/{NAME}.desktop"): _desktop_entry(command),
        PurePosixPath(f"metainfo/{METAINFO}"): resource("desktop", METAINFO).read_bytes(),
        PurePosixPath(f"mime/packages/{NAME}.xml"): _mime_types(),
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


def _mime_types() -> bytes:
    return resource("desktop", f"{NAME}-mime.xml").read_bytes()


def _desktop_entry(command: Sequence[str]) -> bytes:
    """Return the desktop entry with `command` in place of `prune-gui`."""
    quoted = " ".join(map(_quoted, command))
    entry = resource("desktop", f"{NAME}.desktop").read_text(encoding="utf-8")
    lines = []
    for line in entry.splitlines():
        if line.startswith(f"Exec={NAME}"):
            lines.append(f"Exec={quoted}{line.removeprefix(f'Exec={NAME}')}")
        else:
            lines.append(line)
        if line == "[Desktop Entry]":  # the entry is hidden when the program is removed
            lines.append(f"TryExec={_string(command[0])}")
    return ("\n".join(lines) + "\n").encode()


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
