"""A treemap: areas show the sizes of modules and parameters, and colours show their sparsity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QToolTip, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.layers.treemap import TreemapCell, TreemapData
from prune_gui.language import tr
from prune_gui.number_formats import percent, sparsity_share
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.checkpoint import ModuleNode

SCALE_HEIGHT_PX: Final = 30.0
SCALE_WIDTH_PX: Final = 160.0
MARGIN_PX: Final = 8.0
PADDING_PX: Final = 4.0
MAX_OUTLINED_DEPTH: Final = 3
"""Modules down to this depth are outlined; the line is thinner for deeper modules."""
MIN_ELIDED_CHARS: Final = 5
LIGHT_TEXT_BELOW: Final = 0.45


class TreemapPicture(QWidget):
    """Draws a treemap above a scale of its colours.

    Signals:
        pointed, clicked: (node) a parameter or module; None if the cursor is over none.
        resized: the size for a treemap has changed.
    """

    pointed = Signal(object)
    clicked = Signal(object)
    resized = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Treemap of the parameters, coloured by sparsity"))
        self.setMouseTracking(True)
        self._map: TreemapData | None = None
        self._colours: Colours | None = None
        self._chosen: str | None = None
        self._cell_rects: list[tuple[QRectF, TreemapCell, float]] = []

    @property
    def available_size(self) -> tuple[float, float]:
        area = self._map_rect()
        return area.width(), area.height()

    def show_map(self, treemap_data: TreemapData, colours: Colours) -> None:
        self._map, self._colours = treemap_data, colours
        self._cell_rects = [
            (QRectF(*cell.rect), cell, share)
            for cell, share in zip(treemap_data.cells, treemap_data.shares, strict=True)
        ]
        self.update()

    def choose(self, name: str | None) -> None:
        self._chosen = name
        self.update()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(120, 80)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self._map is None or self._colours is None:
            return
        colours, area = self._colours, self._map_rect()
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.background))
        painter.translate(area.topLeft())
        # The treemap is scaled until one of the new size is computed.
        across, down = area.width() / self._map.size[0], area.height() / self._map.size[1]
        for (rect, _, share), name in zip(self._cell_rects, self._map.names, strict=True):
            target = _scaled(rect, across, down)
            fill = QColor(colours.share(share))
            painter.setPen(QPen(QColor(colours.background), 0.5))
            painter.setBrush(fill)
            painter.drawRect(target)
            self._write(painter, target, name, sparsity_share(share), fill)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for cell in self._map.modules:
            if 0 < cell.node.depth <= MAX_OUTLINED_DEPTH:
                width = MAX_OUTLINED_DEPTH + 1.0 - cell.node.depth
                painter.setPen(QPen(QColor(colours.background), width))
                painter.drawRect(_scaled(QRectF(*cell.rect), across, down))
        for rect, cell, _ in self._cell_rects:
            if any(tensor.name == self._chosen for tensor in cell.node.tensors):
                painter.setPen(QPen(QColor(colours.foreground), 3.0))
                painter.drawRect(_scaled(rect, across, down).adjusted(1, 1, -1, -1))
        painter.resetTransform()
        self._draw_scale(painter, colours)
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
        area = QRectF(self.rect()).adjusted(MARGIN_PX, MARGIN_PX, -MARGIN_PX, -SCALE_HEIGHT_PX)
        return QRectF(area.topLeft(), area.size().expandedTo(QSize(8, 8)))

    def _node_at(self, at: QPointF) -> ModuleNode | None:
        found = self._found_at(at)
        return None if found is None else found[0].node

    def _found_at(self, at: QPointF) -> tuple[TreemapCell, float] | None:
        if self._map is None:
            return None
        area = self._map_rect()
        inside = QPointF(
            (at.x() - area.x()) * self._map.size[0] / area.width(),
            (at.y() - area.y()) * self._map.size[1] / area.height(),
        )
        found = ((cell, share) for rect, cell, share in self._cell_rects if rect.contains(inside))
        return next(found, None)

    def _write(
        self, painter: QPainter, target: QRectF, name: str, share: str, fill: QColor
    ) -> None:
        """Write a name above a share, or as much of them as fits; upwards in a narrow cell."""
        metrics = QFontMetricsF(self.font())
        area = target.adjusted(PADDING_PX, PADDING_PX / 2, -PADDING_PX, -PADDING_PX / 2)
        if min(area.width(), area.height()) < metrics.height():
            return
        widest = max(map(metrics.horizontalAdvance, (name, share)))
        is_upright = widest > area.width() < area.height()
        space, across = area.width(), area.height()
        if is_upright:
            space, across = across, space
        text = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, space)
        if text != name and space < MIN_ELIDED_CHARS * metrics.averageCharWidth():
            return
        painter.setPen(QColor("#ffffff" if fill.lightnessF() < LIGHT_TEXT_BELOW else "#101418"))
        painter.save()
        painter.translate(area.bottomLeft() if is_upright else area.topLeft())
        painter.rotate(-90 if is_upright else 0)
        painter.drawText(QPointF(0, metrics.ascent()), text)
        beside = metrics.horizontalAdvance(f"{text}  ")
        if across >= 2 * metrics.height() and metrics.horizontalAdvance(share) <= space:
            painter.drawText(QPointF(0, metrics.ascent() + metrics.height()), share)
        elif beside + metrics.horizontalAdvance(share) <= space:
            painter.drawText(QPointF(beside, metrics.ascent()), share)
        painter.restore()

    def _draw_scale(self, painter: QPainter, colours: Colours) -> None:
        metrics = QFontMetricsF(self.font())
        middle = self.height() - SCALE_HEIGHT_PX / 2
        painter.setPen(QColor(colours.foreground))
        at = MARGIN_PX
        for text, gap in ((tr("sparsity"), 10.0), (percent(0.0), 6.0)):
            painter.drawText(QPointF(at, middle + metrics.ascent() / 2 - 1), text)
            at += metrics.horizontalAdvance(text) + gap
        bar = QRectF(at, middle - 5, SCALE_WIDTH_PX, 10)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for target, shade in enumerate(colours.scale):
            gradient.setColorAt(target / (len(colours.scale) - 1), QColor(shade))
        painter.fillRect(bar, gradient)
        end = QPointF(at + SCALE_WIDTH_PX + 6.0, middle + metrics.ascent() / 2 - 1)
        painter.drawText(end, percent(1.0))


def _scaled(rect: QRectF, across: float, down: float) -> QRectF:
    return QRectF(rect.x() * across, rect.y() * down, rect.width() * across, rect.height() * down)
