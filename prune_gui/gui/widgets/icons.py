"""The icons of the program, drawn in the colours of the palette."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from prune_gui.resources import resource

SIZES_PX: Final = (16, 20, 24, 32, 48, 64)
"""Sizes of the pixmaps in physical pixels; Qt chooses the smallest that is large enough."""


def icon(name: str) -> QIcon:
    """Return a line icon in the text colour. Call it again when the palette changes."""
    return _coloured(name, QApplication.palette().cacheKey())


@lru_cache(maxsize=256)
def _coloured(name: str, _palette: int) -> QIcon:
    """Cache the icons per palette, because the tree needs an icon in every row that it paints."""
    palette, group, role = QApplication.palette(), QPalette.ColorGroup, QPalette.ColorRole
    return _draw(
        name,
        palette.color(group.Active, role.WindowText).name(),
        palette.color(group.Disabled, role.WindowText).name(),
        palette.color(group.Active, role.HighlightedText).name(),
    )


def app_icon() -> QIcon:
    """Return the application icon."""
    return _draw("app", "", "", "")


@lru_cache(maxsize=256)
def _draw(name: str, colour: str, disabled: str, selected: str) -> QIcon:
    source = resource("icons", f"{name}.svg").read_text(encoding="utf-8")
    result = QIcon()
    for mode, shade in (
        (QIcon.Mode.Normal, colour),
        (QIcon.Mode.Disabled, disabled),
        (QIcon.Mode.Selected, selected),
    ):
        renderer = QSvgRenderer(QByteArray(source.replace("currentColor", shade).encode()))
        for size in SIZES_PX:
            pixmap = QPixmap(size, size)
            pixmap.fill(Qt.GlobalColor.transparent)
            painter = QPainter(pixmap)
            renderer.render(painter)
            painter.end()
            result.addPixmap(pixmap, mode)
    return result
