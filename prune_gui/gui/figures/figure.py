"""A figure: panels with a title, at a size on paper; and the ready layouts."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from string import ascii_lowercase
from typing import Final, Literal

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QIODevice,
    QMarginsF,
    QMimeData,
    QPointF,
    QRectF,
    QSize,
    QSizeF,
)
from PySide6.QtGui import (
    QFontInfo,
    QGuiApplication,
    QImage,
    QPageSize,
    QPaintDevice,
    QPainter,
    QPdfWriter,
    QTextDocument,
)
from PySide6.QtSvg import QSvgGenerator

from prune_gui.errors import one_line
from prune_gui.gui.figures.data import FigureData
from prune_gui.gui.figures.panels import (
    COLUMN_EMS,
    BarsPanel,
    Canvas,
    CellsPanel,
    MaskPanel,
    Panel,
)
from prune_gui.gui.views.legend_text import legend
from prune_gui.gui.views.overview.grid_painter import Cell
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.number_formats import short_count, sparsity, sparsity_share
from prune_gui.raster.colours import DARK, LIGHT, Colours
from prune_gui.session.settings import FigureSettings

MARGIN: Final = 5.0  # points around a figure
MIN_WIDTH: Final = 90.0
GAP: Final = 10.0  # points between panels
TITLE_GAP: Final = 3.0
MIN_STRETCH: Final = 0.1
POINTS_PER_INCH: Final = 72
CURVES_ASPECT: Final = 0.62
PICTURE: Final = "picture"
CURVES: Final = "curves"
MASK: Final = "mask"
PAGE: Final = "page"
LAYOUTS: Final[Mapping[str, str]] = {
    PICTURE: deferred("Current picture"),
    "blocks": deferred("Blocks and roles by sparsity"),
    "layers": deferred("Layers, stacked by step"),
    CURVES: deferred("Metric by sparsity"),
    MASK: deferred("Mask before and after"),
    PAGE: deferred("All on one page"),
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a panel is, and the legend that begins below it and ends at `bottom`."""

    panel: Panel
    box: QRectF
    legend: QTextDocument
    bottom: float


@dataclass(frozen=True, eq=False)
class Figure:
    """What is drawn, and how: panels with their legends. Several panels get letters and titles.

    It is made on the GUI thread, which also has the rich texts: to arrange one, Qt makes a
    connection, and another thread that waits for the lock of connections, while it holds the lock
    of Python, would stop a GUI thread that holds the one and needs the other.
    """

    panels: Sequence[Panel]
    title: str
    settings: FigureSettings

    def __post_init__(self) -> None:
        """Arrange the texts, and have the GUI thread delete them."""
        for text in (self._heading, *(place.legend for place in self._places)):
            weakref.finalize(self, text.deleteLater).atexit = False

    @property
    def family(self) -> str:
        return QFontInfo(QGuiApplication.font()).family()

    @property
    def colours(self) -> Colours:
        return DARK if self.settings.dark else LIGHT

    @property
    def size(self) -> QSizeF:
        """The size in points. The height follows from the content unless it is set."""
        bottom = max((place.bottom for place in self._places), default=0.0) + MARGIN
        return QSizeF(self._width, self._height or bottom)

    def pixel_size(self, dpi: float) -> QSize:
        return (self.size * dpi / POINTS_PER_INCH).toSize()

    def draw(self, painter: QPainter, monitor: Monitor | None = None) -> None:
        """Draw all but rich texts and pictures of widgets; the unit of the painter is a point."""
        hints = QPainter.RenderHint
        painter.setRenderHints(hints.Antialiasing | hints.LosslessImageRendering)
        canvas = self._canvas(painter, monitor)
        canvas.fill(QRectF(QPointF(), self.size), self.colours.background)
        for number, place in enumerate(self._places):
            panel, box = place.panel, place.box
            if len(self.panels) > 1:
                line = QRectF(box.left(), box.top(), box.width(), canvas.line)
                line.moveBottom(box.top() - TITLE_GAP)
                canvas.text(line, f"{ascii_lowercase[number]}  {panel.title}", bold=True)
            if not panel.is_of_widget:
                self._draw_panel(canvas, panel, box)

    def draw_texts(self, painter: QPainter) -> None:
        """Draw the rich texts, on the GUI thread after `draw`."""
        canvas = self._canvas(painter)
        canvas.write(self._heading, QPointF(MARGIN, MARGIN))
        for place in self._places:
            canvas.write(place.legend, QPointF(0, TITLE_GAP) + place.box.bottomLeft())

    def draw_pictures(self, painter: QPainter) -> None:
        """Draw the pictures of widgets, on the GUI thread after `draw`."""
        canvas = self._canvas(painter)
        for place in self._places:
            if place.panel.is_of_widget:
                self._draw_panel(canvas, place.panel, place.box)

    def _draw_panel(self, canvas: Canvas, panel: Panel, box: QRectF) -> None:
        canvas.painter.save()
        panel.draw(canvas, box)
        canvas.painter.restore()

    @property
    def _width(self) -> float:
        return max(MIN_WIDTH, POINTS_PER_INCH * self.settings.width / self.settings.per_inch)

    @property
    def _height(self) -> float:
        return POINTS_PER_INCH * self.settings.height / self.settings.per_inch

    def _canvas(self, painter: QPainter, monitor: Monitor | None = None) -> Canvas:
        settings = self.settings
        pixels_per_pt = settings.dpi / POINTS_PER_INCH
        paper = self.colours, settings.text_pt, self.family, pixels_per_pt
        return Canvas(painter, *paper, monitor or Monitor())

    @cached_property
    def _heading(self) -> QTextDocument:
        html = f"<b>{escape(one_line(self.title))}</b>" if self.title else ""
        return self._canvas(QPainter()).rich(html, self._width - 2 * MARGIN, small=False)

    def _legend(self, canvas: Canvas, panel: Panel, width: float) -> QTextDocument:
        text = panel.legend_for(canvas, width) if self.settings.legend else ""
        return canvas.rich(text, width)

    @cached_property
    def _places(self) -> list[_Place]:
        """Where each panel is.

        The next panel is in the column that ends first. If the height is set, the panels of each
        column are stretched to it.
        """
        canvas, full = self._canvas(QPainter()), self._width - 2 * MARGIN
        count = max(1, min(int(full // (COLUMN_EMS * canvas.text_pt)), len(self.panels)))
        width = (full + 2 * GAP) / count - 2 * GAP
        top = MARGIN + (self._heading.size().height() + TITLE_GAP if self.title else 0)
        lead = canvas.line + TITLE_GAP if len(self.panels) > 1 else 0
        columns: list[list[Panel]] = [[] for _ in range(count)]
        ends = [0.0] * count
        legends = {panel: self._legend(canvas, panel, width) for panel in self.panels}
        heights, texts, places = {}, {}, {}
        for panel in self.panels:
            text, column = legends[panel], ends.index(min(ends))
            heights[panel] = panel.height(canvas, width)
            texts[panel] = 0 if text.isEmpty() else text.size().height() + TITLE_GAP
            columns[column].append(panel)
            ends[column] += lead + heights[panel] + texts[panel] + GAP
        for number, panels in enumerate(columns):
            stretch, left, y = 1.0, MARGIN + number * (width + 2 * GAP), top
            if self._height:
                content = sum(heights[panel] for panel in panels)
                room = self._height - MARGIN - top - (ends[number] - GAP - content)
                rigid = sum(heights[panel] for panel in panels if panel.is_rigid)
                if room > content > rigid:
                    stretch = (room - rigid) / (content - rigid)
                else:
                    stretch = max(MIN_STRETCH, room / content)
            for panel in panels:
                factor = min(stretch, 1.0) if panel.is_rigid else stretch
                box = QRectF(left, y + lead, width, factor * heights[panel])
                y = box.bottom() + texts[panel] + GAP
                places[panel] = _Place(panel, box, legends[panel], y - GAP)
        return [places[panel] for panel in self.panels]


def panels_of(data: FigureData, colours: Colours) -> dict[str, Panel]:
    """Return the panel of each layout for which there is something to show."""
    model, chosen = data.subject, data.chosen
    text = legend(model, colours, zeros=model.zeros)

    def cell_of(name: str) -> Cell:
        share = data.bars[name].sparsity
        return Cell(sparsity_share(share), colours.share(share), is_faint=not share)

    title = tr("Sparsity by block and role")
    panels: dict[str, Panel] = {
        "blocks": CellsPanel(title, "", data.arrangement, cell_of, tr("sparsity")),
        "layers": BarsPanel(tr("Sparsity of each layer"), text, data),
    }
    if chosen is not None:
        panels[MASK] = MaskPanel(one_line(chosen.name), "", data)
    return panels


def default_title(data: FigureData) -> str:
    """Return the title of a figure unless the user writes one."""
    pruned, total = data.subject.resolution.total
    return tr(
        "{name}: {share} of {total} weights pruned",
        name=data.subject.name,
        share=sparsity(pruned, total),
        total=short_count(total),
    )


INCHES_PER_METRE: Final = 1000 / 25.4
PDF_DPI: Final = 144  # of PDF files: a pen of one pixel, as plots have, is half a point wide
SVG_DPI: Final = 2540  # 0.01 mm per unit of the size of SVG files
MAX_TITLE_CHARS: Final = 300
Form = Literal["png", "svg", "pdf"]
FALLBACK_FONTS: Final = ", Helvetica, Arial, sans-serif"


class Sheet:
    """A figure that becomes a file: made on any thread, and finished on the GUI thread.

    Args:
        dpi: resolution of the image in a PNG file; other files have lines and texts.
    """

    def __init__(
        self, figure: Figure, form: Form, dpi: float = 0.0, monitor: Monitor | None = None
    ) -> None:
        self._figure = figure
        self._content = QByteArray()
        self._buffer = QBuffer(self._content)
        self._buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        self._device: QPaintDevice
        match form:
            case "png":
                self._device, unit = _image(figure, dpi), dpi
            case "svg":
                self._device, unit = _svg(figure, self._buffer), POINTS_PER_INCH
            case "pdf":
                self._device, unit = _pdf(figure, self._buffer), PDF_DPI
        self._painter = QPainter(self._device)
        self._painter.scale(unit / POINTS_PER_INCH, unit / POINTS_PER_INCH)
        figure.draw(self._painter, monitor)

    def __del__(self) -> None:
        if self._painter.isActive():  # nobody took the figure
            self._painter.end()  # before its device is deleted

    def finish(self) -> Sheet:
        """Draw the rest: rich texts, and pictures of widgets.

        The fonts of widgets have sizes for the resolution of the screen.
        """
        self._figure.draw_texts(self._painter)
        if isinstance(self._device, QSvgGenerator):
            self._device.setResolution(round(QGuiApplication.primaryScreen().logicalDotsPerInch()))
        self._figure.draw_pictures(self._painter)
        self._painter.end()
        return self

    @property
    def image(self) -> QImage:
        """The image of a PNG file."""
        assert isinstance(self._device, QImage)
        return self._device

    def content(self) -> bytes:
        """Return the content of the file, on any thread. SVG files name fonts to fall back to."""
        if isinstance(self._device, QImage):
            self._device.save(self._buffer, "PNG")  # type: ignore[call-overload]  # it accepts only bytes
        content = bytes(self._content.data())
        if isinstance(self._device, QSvgGenerator):
            family = f'font-family="{self._figure.family}'
            content = content.replace(family.encode(), (family + FALLBACK_FONTS).encode())
        return content


def _image(figure: Figure, dpi: float) -> QImage:
    image = QImage(figure.pixel_size(dpi), QImage.Format.Format_RGB32)
    image.setDotsPerMeterX(round(INCHES_PER_METRE * dpi))
    image.setDotsPerMeterY(round(INCHES_PER_METRE * dpi))
    image.setText("Title", one_line(figure.title, MAX_TITLE_CHARS))
    image.fill(figure.colours.background)
    return image


def _svg(figure: Figure, buffer: QBuffer) -> QSvgGenerator:
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setResolution(SVG_DPI)
    generator.setSize(figure.pixel_size(SVG_DPI))
    generator.setViewBox(QRectF(0, 0, figure.size.width(), figure.size.height()))
    generator.setTitle(one_line(figure.title, MAX_TITLE_CHARS))
    return generator


def _pdf(figure: Figure, buffer: QBuffer) -> QPdfWriter:
    writer = QPdfWriter(buffer)
    writer.setResolution(PDF_DPI)
    writer.setPageSize(QPageSize(figure.size / POINTS_PER_INCH, QPageSize.Unit.Inch))
    writer.setPageMargins(QMarginsF())
    writer.setTitle(one_line(figure.title, MAX_TITLE_CHARS))
    return writer


def sheets_to_copy(figure: Figure, monitor: Monitor) -> tuple[Sheet, Sheet]:
    """Return what `clipboard_data` needs: a figure as an image and as SVG."""
    image = Sheet(figure, "png", figure.settings.dpi, monitor)
    return image, Sheet(figure, "svg", monitor=monitor)


def clipboard_data(image: Sheet, svg: Sheet) -> QMimeData:
    """Return a figure for the clipboard, on the GUI thread."""
    mime = QMimeData()
    mime.setImageData(image.finish().image)
    mime.setData("image/svg+xml", svg.finish().content())
    return mime
