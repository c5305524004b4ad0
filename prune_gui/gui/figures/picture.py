"""The picture of a view or a dialog as a panel of a figure."""

from __future__ import annotations

from html import escape
from typing import Final, Protocol

from PySide6.QtCore import QPoint, QRectF, QSizeF, SignalInstance
from PySide6.QtGui import QFontInfo, QPainter, QPalette, QPicture, QRegion
from PySide6.QtWidgets import QLabel, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.figures.panels import Canvas, CellsPanel, Panel
from prune_gui.gui.views.maps.canvas import MapCanvas, fitted
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.widgets.theme import colours
from prune_gui.raster.colours import DARK

MIN_ASPECT: Final = 0.5
MAX_ASPECT: Final = 1.6
"""Limits of the height of a picture, relative to its width."""


class PictureSource(Protocol):
    """A widget whose picture can be exported: a view, or a dialog with a picture."""

    pictured: SignalInstance  # emitted when there is a new picture

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is none."""

    def is_drawn(self) -> bool:
        """Return whether the picture is whole, and in the colours of the palette."""

    def caption(self) -> tuple[str, str]:
        """Return the name of the subject, and a description of the picture."""

    def legend(self) -> str:
        """Return the legend as rich text, in the colours of the picture."""

    def show_selection(self, *, on: bool) -> None:
        """Show or hide the marks of what is chosen."""

    def accessibleName(self) -> str:  # noqa: N802 - as Qt has it
        """Return the name of the kind of picture."""

    def window(self) -> QWidget: ...

    def palette(self) -> QPalette: ...

    def setPalette(self, palette: QPalette, /) -> None:  # noqa: N802 - as Qt has it
        """Set the palette; the picture follows it at once, or with a job."""


def picture_panel(source: PictureSource, aspect: float | None = None) -> Panel:
    """Return the picture of a source as a panel.

    Without an aspect, the height relative to the width, it is that on the screen, and the legend
    begins with the description of the picture.
    """
    picture, title = source.picture(), source.accessibleName()
    assert picture is not None
    what = escape(one_line(source.caption()[1])) if aspect is None else ""
    legend = "<br>".join(filter(None, (what, source.legend())))
    if not isinstance(picture, BlockGrid):
        return WidgetPanel(source, picture, title, legend, aspect)
    assert picture.painter is not None
    cell_of = picture.painter.cell_of  # of the present data
    arrangement = picture.painter.arrangement
    return CellsPanel(title, legend, arrangement, lambda name: cell_of(name)._replace(outline=""))


class WidgetPanel(Panel):
    """Draws a widget as if it had the size of the figure, without marks of what is chosen."""

    is_of_widget = True

    def __init__(
        self,
        source: PictureSource,
        picture: QWidget,
        title: str,
        legend: str,
        aspect: float | None,
    ) -> None:
        self.title, self.legend = title, legend
        self._source, self._picture = source, picture
        self._frame = QSizeF()  # of the axes around a picture that keeps its proportions
        self._aspect = aspect or picture.height() / max(1, picture.width())
        if aspect is None and isinstance(picture, MapCanvas) and picture.has_square_cells:
            assert picture.layout_shown is not None
            content = picture.sight & fitted(picture.layout_shown)
            self._frame = QSizeF(picture.size()) - picture.view.size()
            self._aspect = content.height() / content.width()
        self._text_px = QFontInfo(picture.font()).pixelSize()
        self._min_height = picture.minimumSizeHint().height()

    def height(self, canvas: Canvas, width: float) -> float:
        frame = self._frame * self._scale(canvas)
        height = frame.height() + self._aspect * (width - frame.width())
        height = min(max(height, MIN_ASPECT * width), MAX_ASPECT * width)
        return max(self._scale(canvas) * self._min_height, height)

    def _scale(self, canvas: Canvas) -> float:
        """Return the points per pixel of the screen, with which texts get their size."""
        return canvas.text_pt / self._text_px

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        picture, before, scale = self._picture, self._picture.size(), self._scale(canvas)
        self._source.show_selection(on=False)
        plots = [each for each in (picture, *picture.findChildren(Plot)) if isinstance(each, Plot)]
        for plot in plots:
            plot.draw_on_paper(on=True)
        picture.resize((area.size() / scale).toSize())
        scale = min(area.width() / picture.width(), area.height() / picture.height())
        drawn = QPicture()  # drawn at once, SVG files would have the clips of plots elsewhere
        with QPainter(drawn) as painter:
            # A plot overrides `render`, and would draw less.
            QWidget.render(picture, painter, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
        scale *= drawn.logicalDpiX() / canvas.painter.device().logicalDpiX()  # Qt scales by it, too
        canvas.painter.translate(area.topLeft())
        canvas.painter.scale(scale, scale)
        canvas.painter.drawPicture(QPoint(), drawn)
        for plot in plots:
            plot.draw_on_paper(on=False)
        picture.resize(before)
        self._source.show_selection(on=True)


class Cover(QLabel):
    """Shows a widget as it is now, while below it is drawn in the colours of a figure."""

    def __init__(self, covered: QWidget) -> None:
        super().__init__(covered)
        self.setPixmap(covered.grab())
        self.setGeometry(covered.rect())
        self.show()


def is_dark(source: PictureSource) -> bool:
    """Return whether a source shows its picture in the dark colours."""
    return colours(source.palette()) is DARK
