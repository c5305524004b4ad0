"""A treemap: areas show the sizes of modules and parameters, and colours show their sparsity."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QTransform,
)
from PySide6.QtWidgets import QToolTip, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.layers.treemap import TreemapCell, TreemapData
from prune_gui.language import tr
from prune_gui.number_formats import percent, sparsity_share
from prune_gui.raster.colours import Colours, readable_on

if TYPE_CHECKING:
    from prune_gui.checkpoint import ModuleNode

MARGIN_PX: Final = 8.0
PADDING_PX: Final = 4.0
MAX_OUTLINED_DEPTH: Final = 3
"""Modules down to this depth are outlined; the line is thinner for deeper modules."""
MIN_ELIDED_CHARS: Final = 5


class TreemapPicture(QWidget):
    """Draws a treemap."""

    pointed = Signal(object)  # (node) a parameter or module; None if the cursor is over none
    clicked = Signal(object)  # (node)
    resized = Signal()  # the size for a treemap has changed

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Treemap of the parameters, coloured by sparsity"))
        self.setMouseTracking(True)
        self.shown: TreemapData | None = None
        self._colours: Colours | None = None
        self._chosen: str | None = None

    @property
    def available_size(self) -> tuple[float, float]:
        area = self._map_rect()
        return area.width(), area.height()

    def show_map(self, treemap_data: TreemapData, colours: Colours) -> None:
        self.shown, self._colours = treemap_data, colours
        self.update()

    def choose(self, name: str | None) -> None:
        self._chosen = name
        self.update()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(120, 80)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self.shown is None or self._colours is None:
            return
        data, colours = self.shown, self._colours
        place = self._placement(data)
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.background))
        painter.setPen(QPen(QColor(colours.background), 0.5))
        targets = [place.mapRect(QRectF(*cell.rect)) for cell in data.cells]
        by_fill = defaultdict[str, list[QRectF]](list)
        for target, share in zip(targets, data.shares, strict=True):
            by_fill[colours.share(round(share, 2))].append(target)
        for fill, alike in by_fill.items():
            painter.setBrush(QColor(fill))
            painter.drawRects(alike)
        line, chosen = QFontMetricsF(self.font()).height(), []
        for cell, target, name, share in zip(
            data.cells, targets, data.names, data.shares, strict=True
        ):
            if min(target.width(), target.height()) > line:
                self._write(painter, target, name, share, colours.share(share))
            if f"{self._chosen}.".startswith(f"{cell.node.path}."):
                chosen.append(target)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for cell in data.modules:
            if 0 < cell.node.depth <= MAX_OUTLINED_DEPTH:
                width = MAX_OUTLINED_DEPTH + 1.0 - cell.node.depth
                painter.setPen(QPen(QColor(colours.background), width))
                painter.drawRect(place.mapRect(QRectF(*cell.rect)))
        painter.setPen(QPen(QColor(colours.foreground), 3.0))
        for target in chosen:
            painter.drawRect(target.adjusted(1, 1, -1, -1))
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.pointed.emit(self._node_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        node = self._node_at(event.position())
        if node is not None and event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(node)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.pointed.emit(None)

    def resizeEvent(self, event: QEvent) -> None:  # noqa: N802
        self.resized.emit()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            found, text = self._found_at(QPointF(event.pos())), ""  # "" hides the tool tip
            if found is not None:
                share = percent(round(found[1], 3))
                text = one_line(tr("{name}: {share} pruned", name=found[0].node.path, share=share))
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)

    def _map_rect(self) -> QRectF:
        area = QRectF(self.rect()).adjusted(MARGIN_PX, MARGIN_PX, -MARGIN_PX, -MARGIN_PX)
        return QRectF(area.topLeft(), area.size().expandedTo(QSize(8, 8)))

    def _placement(self, data: TreemapData) -> QTransform:
        """Return where a treemap is; it is scaled until one of the new size is computed."""
        area, (width, height) = self._map_rect(), data.size
        place = QTransform.fromTranslate(area.x(), area.y())
        return place.scale(area.width() / width, area.height() / height)

    def _node_at(self, at: QPointF) -> ModuleNode | None:
        found = self._found_at(at)
        return None if found is None else found[0].node

    def _found_at(self, at: QPointF) -> tuple[TreemapCell, float] | None:
        if self.shown is None:
            return None
        inside = self._placement(self.shown).inverted()[0].map(at)
        cells = zip(self.shown.cells, self.shown.shares, strict=True)
        return next((one for one in cells if one[0].rect.contains(inside.x(), inside.y())), None)

    def _write(
        self, painter: QPainter, target: QRectF, name: str, sparsity: float, fill: str
    ) -> None:
        """Write a name above a sparsity, or as much as fits; upwards in a narrow cell."""
        metrics = QFontMetricsF(self.font())
        area = target.adjusted(PADDING_PX, PADDING_PX / 2, -PADDING_PX, -PADDING_PX / 2)
        if min(area.width(), area.height()) < metrics.height():
            return
        share = sparsity_share(sparsity)
        widest = max(map(metrics.horizontalAdvance, (name, share)))
        is_upright = widest > area.width() < area.height()
        space, across = area.width(), area.height()
        if is_upright:
            space, across = across, space
        text = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, space)
        block, dot, _ = name.partition(".")
        is_short = space < MIN_ELIDED_CHARS * metrics.averageCharWidth()
        if text != name and (is_short or not text.startswith(block + dot if dot else "")):
            return
        painter.save()
        painter.setPen(QColor(readable_on(fill)))
        painter.translate(area.bottomLeft() if is_upright else area.topLeft())
        painter.rotate(-90 if is_upright else 0)
        painter.drawText(QPointF(0, metrics.ascent()), text)
        beside = metrics.horizontalAdvance(f"{text}  ")
        if across >= 2 * metrics.height() and metrics.horizontalAdvance(share) <= space:
            painter.drawText(QPointF(0, metrics.ascent() + metrics.height()), share)
        elif beside + metrics.horizontalAdvance(share) <= space:
            painter.drawText(QPointF(beside, metrics.ascent()), share)
        painter.restore()
