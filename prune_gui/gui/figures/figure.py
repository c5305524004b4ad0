"""A figure: panels with a title, at a size on paper; and the ready layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import prod
from string import ascii_lowercase
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF
from PySide6.QtGui import QFontInfo, QGuiApplication, QPainter, QTextDocument

from prune_gui.errors import one_line
from prune_gui.gui.figures.data import FigureData
from prune_gui.gui.figures.drawing import Canvas
from prune_gui.gui.figures.panels import COLUMN_EMS, BarsPanel, GridPanel, MaskPanel, Panel
from prune_gui.gui.views.legend_text import legend
from prune_gui.language import deferred, tr
from prune_gui.number_formats import short_count, sparsity
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


@dataclass(frozen=True, eq=False)
class Figure:
    """What is drawn, and how: panels with their legends. Several panels get letters and titles."""

    panels: Sequence[Panel]
    title: str
    settings: FigureSettings

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
        boxes = self._boxes(self._canvas(QPainter()))
        bottom = max((foot for _, _, foot in boxes), default=0.0) + MARGIN
        return QSizeF(self._width, self._height or bottom)

    def pixel_size(self, dpi: float) -> QSize:
        return (self.size * dpi / POINTS_PER_INCH).toSize()

    def draw(self, painter: QPainter) -> None:
        """Draw with a painter whose unit is a point."""
        hints = QPainter.RenderHint
        painter.setRenderHints(hints.Antialiasing | hints.LosslessImageRendering)
        canvas = self._canvas(painter)
        canvas.fill(QRectF(QPointF(), self.size), self.colours.background)
        canvas.write(self._title(canvas), QPointF(MARGIN, MARGIN))
        for number, (panel, box, _) in enumerate(self._boxes(canvas)):
            if len(self.panels) > 1:
                line = QRectF(box.left(), box.top(), box.width(), canvas.line)
                line.moveBottom(box.top() - TITLE_GAP)
                canvas.text(line, f"{ascii_lowercase[number]}  {panel.title}", bold=True)
            painter.save()
            panel.draw(canvas, box)
            painter.restore()
            foot = QPointF(0, TITLE_GAP) + box.bottomLeft()
            canvas.write(self._legend(canvas, panel, box.width()), foot)

    @property
    def _width(self) -> float:
        return max(MIN_WIDTH, POINTS_PER_INCH * self.settings.width / self.settings.per_inch)

    @property
    def _height(self) -> float:
        return POINTS_PER_INCH * self.settings.height / self.settings.per_inch

    def _canvas(self, painter: QPainter) -> Canvas:
        return Canvas(painter, self.colours, self.settings.text_pt, self.family)

    def _title(self, canvas: Canvas) -> QTextDocument:
        html = f"<b>{escape(one_line(self.title))}</b>" if self.title else ""
        return canvas.rich(html, self._width - 2 * MARGIN, small=False)

    def _legend(self, canvas: Canvas, panel: Panel, width: float) -> QTextDocument:
        return canvas.rich(panel.legend if self.settings.legend else "", width)

    def _boxes(self, canvas: Canvas) -> list[tuple[Panel, QRectF, float]]:
        """Return where each panel is, and where its legend ends.

        The next panel is in the column that ends first. If the height is set, the panels of each
        column are stretched to it.
        """
        full = self._width - 2 * MARGIN
        count = max(1, min(int(full // (COLUMN_EMS * canvas.text_pt)), len(self.panels)))
        width = (full + 2 * GAP) / count - 2 * GAP
        top = MARGIN + (self._title(canvas).size().height() + TITLE_GAP if self.title else 0)
        lead = canvas.line + TITLE_GAP if len(self.panels) > 1 else 0
        columns: list[list[Panel]] = [[] for _ in range(count)]
        texts, heights = [-GAP] * count, [0.0] * count  # of each column
        legends = {}
        for panel in self.panels:
            ends = [sum(pair) for pair in zip(texts, heights, strict=True)]
            first = ends.index(min(ends))
            legend = self._legend(canvas, panel, width)
            legends[panel] = 0 if legend.isEmpty() else legend.size().height() + TITLE_GAP
            columns[first].append(panel)
            texts[first] += GAP + lead + legends[panel]
            heights[first] += panel.height(canvas, width)
        boxes = {}
        for number, column in enumerate(columns):
            stretch, left, y = 1.0, MARGIN + number * (width + 2 * GAP), top
            if self._height:
                room = self._height - MARGIN - top - texts[number]
                stretch = max(MIN_STRETCH, room / heights[number])
            for panel in column:
                height = stretch * panel.height(canvas, width)
                box = QRectF(left, y + lead, width, height)
                y = box.bottom() + legends[panel] + GAP
                boxes[panel] = panel, box, y - GAP
        return [boxes[panel] for panel in self.panels]


def panels_of(data: FigureData, axes: tuple[str, str], colours: Colours) -> dict[str, Panel]:
    """Return the panel of each layout for which there is something to show."""
    model, chosen = data.subject, data.chosen
    text = legend(model, colours, zeros=model.zeros)
    bars, summed = (data.listed(by_block=by_block) for by_block in (False, True))
    panels: dict[str, Panel] = {
        "blocks": GridPanel(tr("Sparsity by block and role"), "", data.arrangement, data.bars),
        "layers": BarsPanel(tr("Sparsity of each layer"), text, bars, summed, model.draft),
    }
    if chosen is not None and data.masks is not None:
        is_dense = prod(data.masks[0].size) > data.masks[0].levels.size
        text = legend(chosen, colours, zeros=chosen.zeros, is_dense=is_dense)
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
