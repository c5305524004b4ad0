"""A treemap: modules and parameters as large as they have entries, coloured by sparsity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QWidget

from prune_gui.errors import one_line
from prune_gui.gui.formatting import percent
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.audit.treemap import Cell
    from prune_gui.checkpoint import ModuleNode, TensorInfo
    from prune_gui.recipe import Resolution

SCALE_HEIGHT: Final = 30.0
SCALE_WIDTH: Final = 160.0
MARGIN: Final = 8.0
PADDING: Final = 4.0
DEPTHS: Final = 3
"""Modules down to this depth have a line around them; thinner ones the deeper they lie."""
DARK_ENOUGH: Final = 0.45
"""The lightness below which a text has to be light."""


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """A treemap and its colours. The rectangles are for a widget of some size.

    Attributes:
        size: of that rectangle, in pixels.
        modules: those that are open, each before those in it.
        cells: the others, which fill them.
        shares: of each cell, which share is pruned.
    """

    size: tuple[float, float]
    modules: tuple[Cell, ...]
    cells: tuple[Cell, ...]
    shares: Sequence[float]


def make_map(
    infos: Sequence[TensorInfo],
    resolution: Resolution,
    size: tuple[float, float],
    before: Map | None = None,
) -> Map:
    """Return the treemap of parameters, and what is pruned of each cell.

    Args:
        infos: the parameters.
        resolution: what is pruned of them.
        size: of the whole, in pixels.
        before: of the same parameters; if its size is the same, so are its cells.
    """
    from prune_gui.audit.treemap import Rect, treemap

    if before is not None and before.size == size:
        modules, cells = before.modules, before.cells
    else:
        every = treemap(infos, Rect(0.0, 0.0, *size))
        modules = tuple(cell for cell in every if cell.is_open)
        cells = tuple(cell for cell in every if not cell.is_open)
    return Map(size, modules, cells, [_share(cell, resolution) for cell in cells])


def _share(cell: Cell, resolution: Resolution) -> float:
    counts = [resolution.counts[tensor.name] for tensor in cell.node.tensors]
    return sum(pruned for pruned, _ in counts) / sum(total for _, total in counts)


class TreemapPicture(QWidget):
    """Draws a treemap over a scale of its colours.

    Signals:
        pointed: (node) the cursor is over this parameter or module; None if it is over none.
        clicked: (node) the user wants to see more of it.
        resized: the treemap no longer fits.
    """

    pointed = Signal(object)
    clicked = Signal(object)
    resized = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Treemap of the parameters, coloured by sparsity"))
        self.setMouseTracking(True)
        self._map: Map | None = None
        self._colours: Colours | None = None
        self._chosen: str | None = None
        self._closed: list[tuple[QRectF, Cell, float]] = []

    @property
    def room(self) -> tuple[float, float]:
        """The width and the height that there are for a treemap."""
        room = self._room()
        return room.width(), room.height()

    def show_map(self, made: Map, colours: Colours) -> None:
        """Show a treemap."""
        self._map, self._colours = made, colours
        self._closed = [
            (QRectF(*_corners(cell)), cell, share)
            for cell, share in zip(made.cells, made.shares, strict=True)
        ]
        self.update()

    def choose(self, name: str | None) -> None:
        """Mark the cell of a parameter."""
        self._chosen = name
        self.update()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the least size at which there is something to see."""
        return QSize(120, 80)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the cells, the modules around them, and the scale."""
        if self._map is None or self._colours is None:
            return
        colours, room = self._colours, self._room()
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.background))
        painter.translate(room.topLeft())
        # Until one that fits has been made, a treemap is stretched.
        across, down = room.width() / self._map.size[0], room.height() / self._map.size[1]
        for rect, cell, share in self._closed:
            place = _stretched(rect, across, down)
            fill = QColor(colours.share(share))
            painter.setPen(QPen(QColor(colours.background), 0.5))
            painter.setBrush(fill)
            painter.drawRect(place)
            self._write(painter, place, cell, fill)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for cell in self._map.modules:
            if 0 < cell.node.depth <= DEPTHS:
                width = DEPTHS + 1.0 - cell.node.depth
                painter.setPen(QPen(QColor(colours.background), width))
                painter.drawRect(_stretched(QRectF(*_corners(cell)), across, down))
        for rect, cell, _ in self._closed:
            if any(tensor.name == self._chosen for tensor in cell.node.tensors):
                painter.setPen(QPen(QColor(colours.foreground), 3.0))
                painter.drawRect(_stretched(rect, across, down).adjusted(1, 1, -1, -1))
        painter.resetTransform()
        self._draw_scale(painter, colours)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell what the cursor is over."""
        self.pointed.emit(self._node_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell what is clicked."""
        node = self._node_at(event.position())
        if node is not None and event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(node)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell that the cursor left."""
        super().leaveEvent(event)
        self.pointed.emit(None)

    def resizeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Ask for a treemap that fits."""
        self.resized.emit()

    def _room(self) -> QRectF:
        room = QRectF(self.rect()).adjusted(MARGIN, MARGIN, -MARGIN, -SCALE_HEIGHT)
        return QRectF(room.topLeft(), room.size().expandedTo(QSize(8, 8)))

    def _node_at(self, at: QPointF) -> ModuleNode | None:
        if self._map is None:
            return None
        room = self._room()
        inside = QPointF(
            (at.x() - room.x()) * self._map.size[0] / room.width(),
            (at.y() - room.y()) * self._map.size[1] / room.height(),
        )
        for rect, cell, _ in self._closed:
            if rect.contains(inside):
                return cell.node
        return None

    def _write(self, painter: QPainter, place: QRectF, cell: Cell, fill: QColor) -> None:
        """Write as much of the end of a name as fits, or of which module it is: never "weight"."""
        metrics = QFontMetricsF(self.font())
        room = place.adjusted(PADDING, PADDING / 2, -PADDING, -PADDING / 2)
        if room.height() < metrics.height():
            return
        for text in map(one_line, _names(cell.node)):
            if metrics.horizontalAdvance(text) <= room.width():
                light = fill.lightnessF() < DARK_ENOUGH
                painter.setPen(QColor("#ffffff" if light else "#101418"))
                painter.drawText(room, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, text)
                return

    def _draw_scale(self, painter: QPainter, colours: Colours) -> None:
        """Draw which colour is which sparsity."""
        metrics = QFontMetricsF(self.font())
        middle = self.height() - SCALE_HEIGHT / 2
        painter.setPen(QColor(colours.foreground))
        at = MARGIN
        for text, gap in ((tr("sparsity"), 10.0), (percent(0.0), 6.0)):
            painter.drawText(QPointF(at, middle + metrics.ascent() / 2 - 1), text)
            at += metrics.horizontalAdvance(text) + gap
        bar = QRectF(at, middle - 5, SCALE_WIDTH, 10)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for place, shade in enumerate(colours.scale):
            gradient.setColorAt(place / (len(colours.scale) - 1), QColor(shade))
        painter.fillRect(bar, gradient)
        end = QPointF(at + SCALE_WIDTH + 6.0, middle + metrics.ascent() / 2 - 1)
        painter.drawText(end, percent(1.0))


def _names(node: ModuleNode) -> Iterator[str]:
    """Yield shorter and shorter names: what tells a module from others like it stays longest."""
    parts = node.path.split(".")
    for first in range(max(1, len(parts) - 1)):
        yield ".".join(parts[first:])
    numbers = [place for place, part in enumerate(parts) if part.isdecimal()]
    if node.tensor is not None or not numbers:
        yield from parts[-2:-1]
        return
    for last in range(len(parts) - 1, numbers[-1], -1):
        yield ".".join(parts[numbers[-1] : last])


def _corners(cell: Cell) -> tuple[float, float, float, float]:
    return cell.rect.x, cell.rect.y, cell.rect.width, cell.rect.height


def _stretched(rect: QRectF, across: float, down: float) -> QRectF:
    return QRectF(rect.x() * across, rect.y() * down, rect.width() * across, rect.height() * down)
