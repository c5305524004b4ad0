"""The picture of a view or a dialog as a panel of a figure."""

from __future__ import annotations

from html import escape
from typing import Final, Protocol

from PySide6.QtCore import QPoint, QRectF, QSize, QSizeF, SignalInstance
from PySide6.QtGui import QFontInfo, QPalette, QRegion
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.figures.panels import Canvas, Panel
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.theme import colours
from prune_gui.raster.colours import DARK

MIN_ASPECT: Final = 0.3
MAX_ASPECT: Final = 1.6
"""Limits of the height of a picture, relative to its width."""


class PictureSource(Protocol):
    """A widget whose picture can be exported: a view, or a dialog with a picture."""

    ticket: int | None  # of the last job that computed the picture; None if there was none
    pictured: SignalInstance  # emitted when there is a new picture

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is none."""

    def caption(self) -> tuple[str, str]:
        """Return the name of the subject, and a description of the picture."""

    def legend(self) -> str:
        """Return the legend as rich text, in the colours of the picture."""

    def accessibleName(self) -> str:  # noqa: N802 - as Qt has it
        """Return the name of the kind of picture."""

    def window(self) -> QWidget: ...

    def palette(self) -> QPalette: ...

    def setPalette(self, palette: QPalette, /) -> None:  # noqa: N802 - as Qt has it
        """Set the palette; the picture follows it at once, or with a job."""


class PicturePanel(Panel):
    """Draws the picture of a source as if it had the size of the figure.

    The aspect is the height relative to the width. Without it, it is that on the screen, and the
    legend begins with the description of the picture.
    """

    def __init__(self, source: PictureSource, aspect: float | None = None) -> None:
        picture = source.picture()
        assert picture is not None
        self.picture: QWidget = picture
        self._source = source
        self._aspect = aspect or picture.height() / max(1, picture.width())
        self.title = source.accessibleName()
        what = escape(one_line(source.caption()[1])) if aspect is None else ""
        self.legend = "<br>".join(filter(None, (what, source.legend())))

    def height(self, canvas: Canvas, width: float) -> float:
        scale, before = self._scale(canvas), self.picture.size()
        min_height = scale * self.picture.minimumSizeHint().height()
        height = max(min_height, width * min(max(self._aspect, MIN_ASPECT), MAX_ASPECT))
        if isinstance(self.picture, QAbstractScrollArea):
            size = self._resized((QSizeF(width, height) / scale).toSize())
            height = width * size.height() / size.width()
            self.picture.resize(before)
        return height

    def _scale(self, canvas: Canvas) -> float:
        """Return the points per pixel of the screen, with which texts get their size."""
        return canvas.text_pt / QFontInfo(self.picture.font()).pixelSize()

    def draw(self, canvas: Canvas, area: QRectF) -> None:
        source, picture, before = self._source, self.picture, self.picture.size()
        scale = self._scale(canvas)
        if isinstance(source, View):
            source.show_selection(on=False)
        size = self._resized((area.size() / scale).toSize())
        scale = min(area.width() / size.width(), area.height() / size.height())
        canvas.painter.translate(area.topLeft())
        canvas.painter.scale(scale, scale)
        # A plot overrides `render`, and would draw less.
        flags = QWidget.RenderFlag.DrawChildren
        QWidget.render(picture, canvas.painter, QPoint(), QRegion(), flags)
        picture.resize(before)
        if isinstance(source, View):
            source.show_selection(on=True)

    def _resized(self, size: QSize) -> QSize:
        """Resize the picture, more if it would scroll; return the size."""
        self.picture.resize(size)
        if isinstance(self.picture, QAbstractScrollArea):
            across, down = self.picture.horizontalScrollBar(), self.picture.verticalScrollBar()
            size = size + QSize(across.maximum(), down.maximum())
            self.picture.resize(size)
        return size


def is_dark(source: PictureSource) -> bool:
    """Return whether a source shows its picture in the dark colours."""
    return colours(source.palette()) is DARK
