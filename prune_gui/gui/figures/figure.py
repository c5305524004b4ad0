"""A figure: panels with a title, at a size on paper; and the ready layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from string import ascii_lowercase
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF
from PySide6.QtGui import QFontInfo, QGuiApplication, QPainter, QTextDocument

from prune_gui.errors import one_line
from prune_gui.gui.figures.data import FigureData
from prune_gui.gui.figures.drawing import Canvas
from prune_gui.gui.figures.panels import WIDE, BarsPanel, GridPanel, MaskPanel, Panel
from prune_gui.gui.views.legend_text import legend
from prune_gui.language import deferred, tr
from prune_gui.number_formats import short_count, sparsity
from prune_gui.raster.colours import DARK, LIGHT, Colours
from prune_gui.session.settings import FigureSettings

MARGIN: Final = 5.0  # points around a figure
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


@dataclass(frozen=True, eq=False)
class Figure:
    """What is drawn, and how: panels with their legends. Several panels get letters and titles."""

    panels: Sequence[Panel]
    title: str
    settings: FigureSettings

    @property
    def has_widgets(self) -> bool:
        """Whether only the thread of the window can draw it."""
        return any(panel.is_widget for panel in self.panels)

    @property
    def family(self) -> str:
        """The font of all texts."""
        return QFontInfo(QGuiApplication.font()).family()

    @property
    def colours(self) -> Colours:
        return DARK if self.settings.dark else LIGHT

    @property
    def size(self) -> QSizeF:
        """The size in points. The height follows from the content unless it is set."""
        height = self._points(self.settings.height)
        return QSizeF(self._points(self.settings.width), height or self._height(1.0))

    def pixel_size(self, dpi: float) -> QSize:
        return (self.size * dpi / POINTS_PER_INCH).toSize()

    def draw(self, painter: QPainter) -> None:
        """Draw with a painter whose unit is a point."""
        hints = QPainter.RenderHint
        painter.setRenderHints(hints.Antialiasing | hints.LosslessImageRendering)
        canvas, stretch = self._canvas(painter), 1.0
        canvas.fill(QRectF(QPointF(), self.size), self.colours.background)
        canvas.write(self._title(canvas), QPointF(MARGIN, MARGIN))
        if self.settings.height:  # heights are linear in the stretch of the panels
            low, high = self._height(0.0), self._height(1.0)
            stretch = max(MIN_STRETCH, (self.size.height() - low) / (high - low))
        for number, (panel, box) in enumerate(self._boxes(canvas, stretch)):
            if len(self.panels) > 1:
                top = box.top() - canvas.line - TITLE_GAP
                line = QRectF(box.left(), top, box.width(), canvas.line)
                canvas.text(line, f"{ascii_lowercase[number]}  {panel.title}", bold=True)
            painter.save()
            panel.draw(canvas, box)
            painter.restore()
            foot = QPointF(0, TITLE_GAP) + box.bottomLeft()
            canvas.write(self._legend(canvas, panel, box.width()), foot)

    def _points(self, length: float) -> float:
        return POINTS_PER_INCH * length / self.settings.per_inch

    def _canvas(self, painter: QPainter) -> Canvas:
        return Canvas(painter, self.colours, self.settings.text_pt, self.family)

    def _title(self, canvas: Canvas) -> QTextDocument:
        html = f"<b>{escape(one_line(self.title))}</b>" if self.title else ""
        return canvas.rich(html, self._points(self.settings.width) - 2 * MARGIN, small=False)

    def _legend(self, canvas: Canvas, panel: Panel, width: float) -> QTextDocument:
        return canvas.rich(panel.legend if self.settings.legend else "", width)

    def _boxes(self, canvas: Canvas, stretch: float) -> list[tuple[Panel, QRectF]]:
        """Return where each panel is: the next one in the column that ends first."""
        full = self._points(self.settings.width) - 2 * MARGIN
        columns = 2 if len(self.panels) > 1 and full >= WIDE else 1
        width = (full + 2 * GAP) / columns - 2 * GAP
        top = MARGIN + (self._title(canvas).size().height() + TITLE_GAP if self.title else 0)
        bottoms, boxes = [top - GAP] * columns, []
        for panel in self.panels:
            column = bottoms.index(min(bottoms))
            top = bottoms[column] + GAP + (canvas.line + TITLE_GAP if len(self.panels) > 1 else 0)
            left = MARGIN + column * (width + 2 * GAP)
            boxes.append((panel, QRectF(left, top, width, stretch * panel.height(canvas, width))))
            bottoms[column] = self._foot(canvas, panel, boxes[-1][1])
        return boxes

    def _foot(self, canvas: Canvas, panel: Panel, box: QRectF) -> float:
        """Return where the legend of a panel ends."""
        legend = self._legend(canvas, panel, box.width())
        return box.bottom() + (0 if legend.isEmpty() else legend.size().height() + TITLE_GAP)

    def _height(self, stretch: float) -> float:
        """Return the height in points with the panels stretched by a factor."""
        canvas = self._canvas(QPainter())
        feet = [self._foot(canvas, *placed) for placed in self._boxes(canvas, stretch)]
        return max(feet, default=0.0) + MARGIN


def panels_of(data: FigureData, axes: tuple[str, str], colours: Colours) -> dict[str, Panel]:
    """Return the panel of each layout for which there is something to show."""
    model, chosen = data.subject, data.chosen
    text = legend(model, colours, zeros=model.zeros)
    panels: dict[str, Panel] = {
        "blocks": GridPanel(tr("Sparsity by block and role"), "", data.arrangement, data.bars),
        "layers": BarsPanel(tr("Sparsity of each layer"), text, data.listed, model.draft),
    }
    if chosen is not None and data.masks is not None:
        text = legend(chosen, colours, zeros=chosen.zeros)
        panels[MASK] = MaskPanel(one_line(chosen.name), text, data.masks, axes)
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
