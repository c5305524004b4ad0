"""Items of a map's canvas: texts in elements, and the hatching of areas that are not drawn yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QStaticText
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

_BLACK, _WHITE = QColor("#000000"), QColor("#ffffff")
TEXT_MARGIN_PX = 2
"""Minimum space between a text and the border of its element."""


@dataclass(frozen=True, slots=True, eq=False)
class CellTexts:
    """Texts in the elements of a rectangle.

    Attributes:
        rows: rows of the picture.
        columns: columns of the picture.
        texts: str (rows, columns); "" where there is no element.
        bright: bool (rows, columns); True where the picture is so bright that the text is black.
    """

    rows: range
    columns: range
    texts: NDArray[np.str_]
    bright: NDArray[np.bool_]


class Hatching(pg.GraphicsObject):  # type: ignore[misc]
    """A rectangle with hatching whose line spacing is the same at any zoom."""

    def __init__(self) -> None:
        super().__init__()
        self.brush = QBrush()
        self._extent = QRectF()
        self.hide()

    def set_extent(self, rect: QRectF) -> None:
        """Set the rectangle, in columns and rows."""
        self.prepareGeometryChange()
        self._extent = rect

    def boundingRect(self) -> QRectF:  # noqa: N802
        """Return the rectangle, in columns and rows."""
        return self._extent

    def paint(
        self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None
    ) -> None:
        """Fill the rectangle."""
        transform = painter.worldTransform()
        painter.resetTransform()
        painter.fillRect(transform.mapRect(self._extent), self.brush)


class ElementTexts(pg.GraphicsObject):  # type: ignore[misc]
    """Texts in elements, black or white for contrast with the picture."""

    def __init__(self) -> None:
        super().__init__()
        self._cell_texts: CellTexts | None = None
        self._static_texts: dict[str, QStaticText] = {}

    def set_texts(self, cell_texts: CellTexts | None) -> None:
        """Set the texts; None removes them."""
        self.prepareGeometryChange()
        self._cell_texts = cell_texts
        unique = np.unique(cell_texts.texts).tolist() if cell_texts is not None else []
        self._static_texts = {
            text: self._static_texts.get(text) or _static_text(text) for text in unique
        }
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """Return the rectangle, in columns and rows."""
        if self._cell_texts is None:
            return QRectF()
        return rectangle(self._cell_texts.rows, self._cell_texts.columns)

    def paint(
        self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None
    ) -> None:
        """Draw each text in the centre of the visible part of its element, if it fits there."""
        if self._cell_texts is None:
            return
        transform = painter.worldTransform()
        visible = transform.mapRect(QRectF(self.viewRect()))
        painter.resetTransform()
        for (i, j), text in np.ndenumerate(self._cell_texts.texts):
            row, column = self._cell_texts.rows[i], self._cell_texts.columns[j]
            cell = transform.mapRect(QRectF(column - 0.5, row - 0.5, 1, 1)) & visible
            painter.setPen(_BLACK if self._cell_texts.bright[i, j] else _WHITE)
            static_text = self._static_texts[text]
            size = static_text.size()
            if cell.width() < size.width() + 2 * TEXT_MARGIN_PX or cell.height() < size.height():
                continue  # cut off by the border of the view
            corner = cell.center() - QPointF(size.width() / 2, size.height() / 2)
            painter.drawStaticText(corner, static_text)


def _static_text(text: str) -> QStaticText:
    """Return a text with a cached layout, so that repeated painting is fast."""
    static_text = QStaticText(text)
    static_text.setTextFormat(Qt.TextFormat.PlainText)
    return static_text


def rectangle(rows: range, columns: range) -> QRectF:
    """Return the rectangle that elements cover: each extends half a unit around its index."""
    return QRectF(columns.start - 0.5, rows.start - 0.5, len(columns), len(rows))
