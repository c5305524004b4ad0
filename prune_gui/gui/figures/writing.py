"""Figures as images, and as the content of files."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QMimeData, QRectF
from PySide6.QtGui import QImage, QPageSize, QPaintDevice, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator

from prune_gui.errors import one_line
from prune_gui.gui.figures.figure import POINTS_PER_INCH, Figure

INCHES_PER_METRE: Final = 1000 / 25.4
PDF_DPI: Final = 1200  # of the coordinates in PDF files
SVG_DPI: Final = 2540  # 0.01 mm per unit of the size of SVG files
MAX_TITLE_CHARS: Final = 300
FALLBACK_FONTS: Final = ", Helvetica, Arial, sans-serif"


def image_of(figure: Figure, dpi: float) -> QImage:
    """Return a figure as an image."""
    image = QImage(figure.pixel_size(dpi), QImage.Format.Format_RGB32)
    image.setDotsPerMeterX(round(INCHES_PER_METRE * dpi))
    image.setDotsPerMeterY(round(INCHES_PER_METRE * dpi))
    image.setText("Title", one_line(figure.title, MAX_TITLE_CHARS))
    image.fill(figure.colours.background)
    _draw(figure, image, dpi)
    return image


def content_of(drawn: QImage | bytes) -> bytes:
    """Return an image as the content of a PNG file; the content of other files is ready."""
    if isinstance(drawn, bytes):
        return drawn
    content, buffer = _buffer()
    drawn.save(buffer, "PNG")  # type: ignore[call-overload]  # it accepts only bytes
    return bytes(content.data())


def drawn(figure: Figure) -> QImage | bytes:
    """Return what `content_of` needs for a file of the format of a figure."""
    match figure.settings.format:
        case "png":
            return image_of(figure, figure.settings.dpi)
        case "svg":
            return svg_of(figure)
        case "pdf":
            return pdf_of(figure)


def svg_of(figure: Figure) -> bytes:
    """Return a figure as an SVG file. Texts stay texts; other fonts replace a missing one."""
    content, buffer = _buffer()
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setResolution(SVG_DPI)
    generator.setSize(figure.pixel_size(SVG_DPI))
    generator.setViewBox(QRectF(0, 0, figure.size.width(), figure.size.height()))
    generator.setTitle(one_line(figure.title, MAX_TITLE_CHARS))
    _draw(figure, generator, POINTS_PER_INCH)
    family = f'font-family="{figure.family}'
    return bytes(content.data()).replace(family.encode(), (family + FALLBACK_FONTS).encode())


def pdf_of(figure: Figure) -> bytes:
    """Return a figure as a PDF file with its fonts."""
    content, buffer = _buffer()
    writer = QPdfWriter(buffer)
    writer.setResolution(PDF_DPI)
    writer.setPageSize(QPageSize(figure.size / POINTS_PER_INCH, QPageSize.Unit.Inch))
    writer.setPageMargins(QMarginsF())
    writer.setTitle(one_line(figure.title, MAX_TITLE_CHARS))
    _draw(figure, writer, PDF_DPI)
    return bytes(content.data())


def clipboard_data(figure: Figure) -> QMimeData:
    """Return a figure for the clipboard, as an image and as SVG."""
    mime = QMimeData()
    mime.setImageData(image_of(figure, figure.settings.dpi))
    mime.setData("image/svg+xml", svg_of(figure))
    return mime


def _buffer() -> tuple[QByteArray, QBuffer]:
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    return content, buffer


def _draw(figure: Figure, device: QPaintDevice, dpi: float) -> None:
    painter = QPainter(device)
    painter.scale(dpi / POINTS_PER_INCH, dpi / POINTS_PER_INCH)
    figure.draw(painter)
    painter.end()
