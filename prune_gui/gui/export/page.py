"""A page with title, picture and legend, rendered as PNG or SVG."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QPoint, QPointF, QRect, QSize
from PySide6.QtGui import QColor, QImage, QPainter, QRegion, QTextDocument
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from prune_gui.errors import one_line
from prune_gui.raster.colours import Colours

MARGIN: Final = 16
GAP_PX: Final = 8
DOTS_PER_INCH: Final = 96
MAX_TITLE_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Page:
    """A picture with the texts around it.

    Attributes:
        picture: the widget of the picture, in its final size.
        title: the subject of the picture; plain text.
        subtitle: what the picture shows of the subject; plain text.
        legend: rich text; "" for none.
        colours: colours of background and text. The widget has its own.
    """

    picture: QWidget
    title: str
    subtitle: str
    legend: str
    colours: Colours

    @property
    def size(self) -> QSize:
        """The size of the page in pixels, at a scale of 1."""
        head, foot = self._heights
        picture = self.picture.size()
        return QSize(picture.width() + 2 * MARGIN, picture.height() + 2 * MARGIN + head + foot)

    @property
    def _head(self) -> QTextDocument:
        title, subtitle = (
            escape(one_line(t, MAX_TITLE_CHARS)) for t in (self.title, self.subtitle)
        )
        return self._text(f"<b>{title}</b><br>{subtitle}")

    @property
    def _foot(self) -> QTextDocument:
        return self._text(self.legend)

    @property
    def _heights(self) -> tuple[int, int]:
        """The heights of title and legend in pixels, including their gaps to the picture."""
        foot = round(self._foot.size().height()) + GAP_PX if self.legend else 0
        return round(self._head.size().height()) + GAP_PX, foot

    def _text(self, html: str) -> QTextDocument:
        document = QTextDocument()
        document.setDefaultFont(self.picture.font())
        document.setDocumentMargin(0)
        document.setHtml(f'<div style="color: {self.colours.foreground}">{html}</div>')
        document.setTextWidth(self.picture.width())
        return document

    def paint(self, painter: QPainter) -> None:
        """Draw the page."""
        painter.fillRect(QRect(QPoint(), self.size), QColor(self.colours.background))
        painter.translate(MARGIN, MARGIN)
        self._head.drawContents(painter)
        head, _ = self._heights
        painter.translate(0, head)
        # A plot overrides `render`, and would draw less.
        QWidget.render(self.picture, painter, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
        painter.translate(QPointF(0, self.picture.height() + GAP_PX))
        if self.legend:
            self._foot.drawContents(painter)


def image_of(page: Page, scale: int = 1) -> QImage:
    """Return a page as an image with `scale` times `scale` pixels per pixel of the screen."""
    image = QImage(page.size * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.setText("Title", one_line(page.title, MAX_TITLE_CHARS))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    page.paint(painter)
    painter.end()
    image.setDevicePixelRatio(1.0)
    return image


def png_of(page: Page, scale: int = 1) -> bytes:
    """Return a page as the content of a PNG file; see `image_of`."""
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    image_of(page, scale).save(buffer, "PNG")  # type: ignore[call-overload]  # it accepts only bytes
    return bytes(content.data())


def svg_of(page: Page) -> bytes:
    """Return a page as the content of an SVG file. Lines and text stay vector graphics."""
    content = QByteArray()
    buffer = QBuffer(content)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setResolution(DOTS_PER_INCH)
    generator.setSize(page.size)
    generator.setViewBox(QRect(QPoint(), page.size))
    generator.setTitle(one_line(page.title, MAX_TITLE_CHARS))
    generator.setDescription(one_line(page.subtitle, MAX_TITLE_CHARS))
    painter = QPainter(generator)
    page.paint(painter)
    painter.end()
    return bytes(content.data())
