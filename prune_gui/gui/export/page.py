"""A picture with a title over it and a legend under it, as an image or as a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QPoint, QPointF, QRect, QSize
from PySide6.QtGui import QColor, QImage, QPainter, QRegion, QTextDocument
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from prune_gui.errors import one_line
from prune_gui.gui.widgets.theme import Colours

MARGIN: Final = 16
GAP: Final = 8
DOTS_PER_INCH: Final = 96
LONGEST_TITLE: Final = 300


@dataclass(frozen=True, slots=True)
class Page:
    """A picture and what is written around it.

    Attributes:
        picture: the widget that shows it, as large as it is to be.
        title: what it is of; plain text.
        subtitle: what it shows of it; plain text.
        legend: rich text; "" for none.
        colours: of the background and of the text. The widget has its own.
    """

    picture: QWidget
    title: str
    subtitle: str
    legend: str
    colours: Colours

    @property
    def size(self) -> QSize:
        """How large it is, in pixels at the scale of 1."""
        head, foot = self._heights
        inside = self.picture.size()
        return QSize(inside.width() + 2 * MARGIN, inside.height() + 2 * MARGIN + head + foot)

    @property
    def _head(self) -> QTextDocument:
        title, subtitle = (escape(one_line(t, LONGEST_TITLE)) for t in (self.title, self.subtitle))
        return self._text(f"<b>{title}</b><br>{subtitle}")

    @property
    def _foot(self) -> QTextDocument:
        return self._text(self.legend)

    @property
    def _heights(self) -> tuple[int, int]:
        """How much room is above the picture, and how much below."""
        foot = round(self._foot.size().height()) + GAP if self.legend else 0
        return round(self._head.size().height()) + GAP, foot

    def _text(self, html: str) -> QTextDocument:
        document = QTextDocument()
        document.setDefaultFont(self.picture.font())
        document.setDocumentMargin(0)
        document.setHtml(f'<div style="color: {self.colours.foreground}">{html}</div>')
        document.setTextWidth(self.picture.width())
        return document

    def paint(self, painter: QPainter) -> None:
        """Draw it."""
        painter.fillRect(QRect(QPoint(), self.size), QColor(self.colours.background))
        painter.translate(MARGIN, MARGIN)
        self._head.drawContents(painter)
        head, _ = self._heights
        painter.translate(0, head)
        # A plot has a `render` of its own, which draws less.
        QWidget.render(self.picture, painter, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
        painter.translate(QPointF(0, self.picture.height() + GAP))
        if self.legend:
            self._foot.drawContents(painter)


def image_of(page: Page, scale: int = 1) -> QImage:
    """Return a page as an image, with so many pixels for each of the screen along a side."""
    image = QImage(page.size * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.setText("Title", one_line(page.title, LONGEST_TITLE))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    page.paint(painter)
    painter.end()
    image.setDevicePixelRatio(1.0)
    return image


def png_of(page: Page, scale: int = 1) -> bytes:
    """Return `image_of` as the content of a PNG file."""
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    image_of(page, scale).save(buffer, "PNG")  # type: ignore[call-overload]  # it takes only bytes
    return bytes(content.data())


def svg_of(page: Page) -> bytes:
    """Return a page as the content of an SVG file: lines and text stay such, pixels stay sharp."""
    content = QByteArray()
    buffer = QBuffer(content)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setResolution(DOTS_PER_INCH)
    generator.setSize(page.size)
    generator.setViewBox(QRect(QPoint(), page.size))
    generator.setTitle(one_line(page.title, LONGEST_TITLE))
    generator.setDescription(one_line(page.subtitle, LONGEST_TITLE))
    painter = QPainter(generator)
    page.paint(painter)
    painter.end()
    return bytes(content.data())
