"""Drawing in points (1/72 inch), with texts that have a size in points at any resolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QTextDocument

from prune_gui.errors import one_line
from prune_gui.number_formats import percent
from prune_gui.raster.colours import Colours

LEADING: Final = 1.3  # height of a line, relative to the size of its text
ENLARGEMENT: Final = 4
"""Pixels per cell and side in vector files, because some programs blur enlarged pictures."""
MIN_SNAPPED: Final = 3
"""Device pixels per cell from which all cells get the same number of them."""
ELIDED: Final = Qt.TextElideMode.ElideMiddle
Left: Final = Qt.AlignmentFlag.AlignLeft
Right: Final = Qt.AlignmentFlag.AlignRight
Centre: Final = Qt.AlignmentFlag.AlignHCenter


class Canvas:
    """A painter with the colours of a theme. Small texts are 1 pt smaller than others."""

    def __init__(self, painter: QPainter, colours: Colours, text_pt: int, family: str) -> None:
        self.painter = painter
        self.colours = colours
        self.text_pt = text_pt
        self.family = family
        self.line = LEADING * (text_pt - 1)  # height of a line of small text

    def font(self, *, small: bool = True, bold: bool = False) -> QFont:
        """Return a font whose pixels are points, as those of the painter."""
        font = QFont(self.family)
        font.setPixelSize(self.text_pt - small)
        font.setBold(bold)
        font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
        return font

    def width(self, text: str, *, bold: bool = False) -> float:
        return QFontMetricsF(self.font(bold=bold)).horizontalAdvance(text)

    def fitted(self, names: Sequence[str], width: float) -> list[str]:
        """Return names without the part that does not fit; different names differ, if possible."""
        metrics = QFontMetricsF(self.font())
        for mode in (ELIDED, Qt.TextElideMode.ElideLeft, Qt.TextElideMode.ElideRight):
            found = [metrics.elidedText(one_line(name), mode, width) for name in names]
            if len(set(found)) == len(set(names)):
                break
        return found

    def text(
        self, box: QRectF, text: str, align: Qt.AlignmentFlag = Left, *, bold: bool = False
    ) -> None:
        """Write one line of small text, vertically centred; what does not fit is elided."""
        font = self.font(bold=bold)
        fitting = QFontMetricsF(font).elidedText(one_line(text), ELIDED, box.width() + 0.1)
        self.painter.setFont(font)
        self.painter.setPen(QColor(self.colours.foreground))
        flags = align | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextDontClip
        self.painter.drawText(box, int(flags), fitting)

    def upright(self, box: QRectF, text: str) -> None:
        """Write one line from bottom to top."""
        self.painter.save()
        self.painter.translate(box.center())
        self.painter.rotate(-90)
        self.text(
            QRectF(-box.height() / 2, -box.width() / 2, box.height(), box.width()), text, Centre
        )
        self.painter.restore()

    def rich(self, html: str, width: float, *, small: bool = True) -> QTextDocument:
        """Return rich text that wraps at a width, but not before "%"."""
        document = QTextDocument()
        document.setDefaultFont(self.font(small=small))
        document.setDocumentMargin(0)
        html = html.replace(" %", "&nbsp;%")
        document.setHtml(f'<div style="color: {self.colours.foreground}">{html}</div>')
        document.setTextWidth(width)
        return document

    def write(self, document: QTextDocument, at: QPointF) -> None:
        self.painter.translate(at)
        document.drawContents(self.painter)
        self.painter.translate(-at)

    def fill(self, box: QRectF, colour: str) -> None:
        self.painter.fillRect(box, QColor(colour))

    def percentages(self, box: QRectF) -> None:
        """Write those at the ends and in the middle of a scale below it."""
        below = QRectF(box.left(), box.bottom(), box.width(), self.line)
        for share, align in ((0.0, Left), (0.5, Centre), (1.0, Right)):
            self.text(below, percent(share), align)

    def pixels(self, box: QRectF, pixels: NDArray[np.uint8]) -> QRectF:
        """Draw uint8 (down, across, 4) without blurring, and return the rectangle it fills.

        Cells of at least `MIN_SNAPPED` device pixels all get the same whole number of them.
        """
        down, across = pixels.shape[:2]
        data = np.ascontiguousarray(pixels).data
        image = QImage(data, across, down, 4 * across, QImage.Format.Format_RGBA8888)
        if not isinstance(self.painter.device(), QImage):
            self.painter.drawImage(box, image.scaled(QSize(across, down) * ENLARGEMENT))
            return box
        to_device = self.painter.combinedTransform()
        on_device = to_device.mapRect(box)
        wide, high = int(on_device.width() / across), int(on_device.height() / down)
        if min(wide, high) >= MIN_SNAPPED:
            corner = on_device.topLeft().toPoint()
            snapped = QRectF(corner.x(), corner.y(), across * wide, down * high)
            box = to_device.inverted()[0].mapRect(snapped)
        smooth = QPainter.RenderHint.SmoothPixmapTransform
        self.painter.setRenderHint(smooth, min(wide, high) < 1)
        self.painter.drawImage(box, image)
        self.painter.setRenderHint(smooth, False)
        return box
