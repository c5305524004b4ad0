"""The shipped icons, drawn in the colours of the palette when they are first painted."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from PySide6.QtCore import QByteArray, QRect, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from prune_gui.resources import resource


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
    shades = {QIcon.Mode.Disabled: disabled, QIcon.Mode.Selected: selected}
    return QIcon(_Drawing(source, colour, shades))


class _Drawing(QIconEngine):
    """Draws an SVG at whatever size is asked for, in another colour for some modes."""

    _clones: ClassVar[list[QIconEngine]] = []
    """All there are: they belong to Qt, but PySide6 deletes them once no name is left for them."""

    def __init__(self, source: str, colour: str, shades: dict[QIcon.Mode, str]) -> None:
        super().__init__()
        self._source = source
        self._colour = colour
        self._shades = shades
        self._pixmaps: dict[tuple[str, int, int], QPixmap] = {}

    def pixmap(self, size: QSize, mode: QIcon.Mode, _: QIcon.State) -> QPixmap:
        """Return the icon in pixels of the screen."""
        shade = self._shades.get(mode, self._colour)
        key = shade, size.width(), size.height()
        if key not in self._pixmaps:
            source = self._source.replace("currentColor", shade)
            self._pixmaps[key] = made = QPixmap(size)
            made.fill(Qt.GlobalColor.transparent)
            painter = QPainter(made)
            QSvgRenderer(QByteArray(source.encode())).render(painter)
            painter.end()
        return self._pixmaps[key]

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        """Paint the icon into a rectangle."""
        size = rect.size() * painter.device().devicePixelRatioF()
        painter.drawPixmap(rect, self.pixmap(size, mode, state))

    def clone(self) -> QIconEngine:
        """Return one that draws the same: somebody adds to a copy of the icon."""
        self._clones.append(clone := _Drawing(self._source, self._colour, self._shades))
        return clone
