"""The shipped icons, drawn in the colours of the palette."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from prune_gui.resources import resource

SIZES: Final = (16, 20, 24, 32, 48, 64)
"""In pixels of the screen; Qt takes the smallest that is large enough."""


def icon(name: str) -> QIcon:
    """Return a line icon in the colour of text. Ask again when the palette changes."""
    return _coloured(name, QApplication.palette().cacheKey())


@lru_cache(maxsize=256)
def _coloured(name: str, _palette: int) -> QIcon:
    """Look the colours up once per palette: the tree asks for an icon in every row it paints."""
    palette, group, role = QApplication.palette(), QPalette.ColorGroup, QPalette.ColorRole
    return _drawn(
        name,
        palette.color(group.Active, role.WindowText).name(),
        palette.color(group.Disabled, role.WindowText).name(),
        palette.color(group.Active, role.HighlightedText).name(),
    )


def app_icon() -> QIcon:
    """Return the icon of the program."""
    return _drawn("app", "", "", "")


@lru_cache(maxsize=256)
def _drawn(name: str, colour: str, disabled: str, selected: str) -> QIcon:
    source = resource("icons", f"{name}.svg").read_text(encoding="utf-8")
    made = QIcon()
    for mode, shade in (
        (QIcon.Mode.Normal, colour),
        (QIcon.Mode.Disabled, disabled),
        (QIcon.Mode.Selected, selected),
    ):
        drawing = QSvgRenderer(QByteArray(source.replace("currentColor", shade).encode()))
        for size in SIZES:
            pixmap = QPixmap(size, size)
            pixmap.fill(Qt.GlobalColor.transparent)
            painter = QPainter(pixmap)
            drawing.render(painter)
            painter.end()
            made.addPixmap(pixmap, mode)
    return made
