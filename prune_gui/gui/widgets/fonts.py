"""The sizes and weights of texts: one scale for the whole window, relative to a widget's font."""

from __future__ import annotations

from typing import Final

from PySide6.QtGui import QFont

SMALL: Final = 0.85
"""Scale of texts in and beside pictures."""
TITLE: Final = 1.8
"""Scale of the title of a page."""


def scaled(font: QFont, scale: float) -> QFont:
    """Return a font of another size; `scale` is `SMALL` or `TITLE`."""
    other = QFont(font)
    other.setPointSizeF(font.pointSizeF() * scale)
    return other


def bold(font: QFont) -> QFont:
    """Return the bold variant of a font, for headings and the chosen item."""
    other = QFont(font)
    other.setBold(True)
    return other
