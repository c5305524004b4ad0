"""A scrolling grid of cells by block and role, drawn with the painter of `grid_painter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QToolTip

from prune_gui.errors import one_line
from prune_gui.gui.views.overview.grid_painter import MARGIN_PX, CellOf, GridPainter, Head
from prune_gui.gui.views.overview.layout import GAP_PX, Arrangement
from prune_gui.gui.widgets.theme import SMALL, scaled
from prune_gui.language import trn

if TYPE_CHECKING:
    from prune_gui.raster.colours import Colours


CTRL: Final = Qt.KeyboardModifier.ControlModifier
SHIFT: Final = Qt.KeyboardModifier.ShiftModifier
PAGE_ROWS: Final = 4
STEPS: Final = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
    Qt.Key.Key_PageUp: (0, -PAGE_ROWS),
    Qt.Key.Key_PageDown: (0, PAGE_ROWS),
    Qt.Key.Key_Home: (-(1 << 30), 0),
    Qt.Key.Key_End: (1 << 30, 0),
}


class BlockGrid(QAbstractScrollArea):
    """Shows a grid that scrolls below its headings. `tip_of` returns the tool tip of a parameter.

    A click on a heading, a rectangle that is dragged over cells, and Space pick parameters (with
    Shift those of the row, with Ctrl those of the column). A click or drag with Ctrl or Shift adds.
    """

    chosen = Signal(str)  # (name) the user moved to a parameter with the keyboard
    opened = Signal(str)  # (name) the user clicked a parameter, or pressed Enter on it
    pointed = Signal(str)  # (name) the cursor is over a parameter; "" if it is over none
    picked = Signal(object, bool)  # (names, adds) the user picked parameters, or adds some
    moved = Signal()  # other cells are visible

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.painter: GridPainter | None = None
        self.tip_of: Callable[[str], str] = lambda _name: ""
        self._chosen: str | None = None
        self._pointed = ""
        self._marked: frozenset[str] = frozenset()
        self._pressed: QPointF | None = None  # both in the grid
        self._dragged: QRectF | None = None
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.valueChanged.connect(self.moved)

    def show_cells(self, arrangement: Arrangement, cell_of: CellOf, colours: Colours) -> None:
        """Show cells; those in sight are asked for when they are painted."""
        before, font = self.painter, scaled(self.font(), SMALL)
        painter = GridPainter(arrangement, cell_of, colours, font)
        painter.frame_of = self._frame_of
        self.painter = painter if arrangement.sections else None  # nothing to lay out
        if before is not None and before.arrangement is arrangement:
            painter.layout = before.layout
        else:
            self._pointed, self._marked = "", frozenset()
            self._fit()
            self.verticalScrollBar().setValue(0)
            self.horizontalScrollBar().setValue(0)
        self.viewport().update()

    def choose(self, name: str | None) -> None:
        if name != self._chosen:
            self._chosen = name
            self._show_chosen()
            self.viewport().update()

    def mark(self, names: Iterable[str]) -> None:
        """Frame some cells, until others are to be framed."""
        marked = frozenset(names)
        if marked != self._marked:
            self._marked = marked
            self.viewport().update()

    def visible_names(self) -> tuple[str, ...]:
        found = self.painter.within(self.visible) if self.painter else ()
        return tuple(name for name, _ in found)

    def rect_of(self, name: str) -> QRectF:
        assert self.painter is not None
        position = self.painter.arrangement.positions[name]
        return self.painter.cell(position).translated(-self.visible.topLeft())

    @property
    def visible(self) -> QRectF:
        """The part of the grid that is in sight."""
        left, top = self.horizontalScrollBar().value(), self.verticalScrollBar().value()
        return QRectF(QPointF(left - MARGIN_PX, top), QSizeF(self.viewport().size()))

    def _fit(self) -> None:
        if self.painter is None:
            return
        page = self.viewport().size()
        self.painter.fit(page.width() - MARGIN_PX, page.height())
        width, height = self.painter.layout.size
        side = self.painter.layout.side
        for bar, whole, length in (
            (self.horizontalScrollBar(), width + MARGIN_PX, page.width()),
            (self.verticalScrollBar(), height, page.height()),
        ):
            bar.setRange(0, max(0, whole - length))
            bar.setPageStep(length)
            bar.setSingleStep(max(1, side // 2))

    def _show_chosen(self) -> None:
        painter = self.painter
        position = painter.arrangement.positions.get(self._chosen or "") if painter else None
        if painter is None or position is None:
            return
        rect, visible = painter.cell(position), self.visible
        placed = painter.layout.placed[position.section]
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        if rect.top() < visible.top() + placed.heading:
            down.setValue(int(rect.top()) - placed.heading)
        elif rect.bottom() > visible.bottom():
            down.setValue(int(rect.bottom() - visible.height()) + MARGIN_PX)
        if rect.left() < visible.left() + placed.label_width:
            across.setValue(int(rect.left()) - placed.label_width)
        elif rect.right() > visible.right():
            across.setValue(int(rect.right() - visible.width()) + MARGIN_PX)

    def _frame_of(self, name: str) -> QPen | None:
        faint = self.palette().placeholderText().color()
        if name == self._chosen:
            shade = self.palette().highlight().color() if self.hasFocus() else faint
            return QPen(shade, 2.0)
        if name in self._marked:
            return QPen(self.palette().highlight().color(), 1.5)
        return QPen(faint, 1.0) if name == self._pointed else None

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self.painter is None:
            return
        painter, visible = QPainter(self.viewport()), self.visible
        painter.translate(-visible.topLeft())
        self.painter.paint(painter, visible, QRectF(event.rect()).translated(visible.topLeft()))
        if self._dragged is not None:
            shade = self.palette().highlight().color()
            painter.setPen(QPen(shade, 1.0))
            shade.setAlphaF(0.15)
            painter.setBrush(shade)
            painter.drawRect(self._dragged)
        painter.end()

    # Input

    def _name_at(self, at: QPointF) -> str:
        if self.painter is None or self._head_at(at) is not None:
            return ""
        found = self.painter.within(QRectF(at, QSizeF(1, 1)))
        return next((name for name, one in found if self.painter.cell(one).contains(at)), "")

    def _head_at(self, at: QPointF) -> Head | None:
        if self.painter is None:
            return None
        heads = self.painter.all_heads(self.visible)
        return next((head for head in heads if head.text and head.area.contains(at)), None)

    def _in_grid(self, event: QMouseEvent) -> QPointF:
        return event.position() + self.visible.topLeft()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = self._in_grid(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if name := self._name_at(self._in_grid(event)):
            self.opened.emit(name)  # a second time

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at, start = self._in_grid(event), self._pressed
        if start is None:
            head, shape = self._head_at(at), Qt.CursorShape
            self.viewport().setCursor(shape.PointingHandCursor if head else shape.ArrowCursor)
            self._point_at("" if head else self._name_at(at))
        elif self._dragged or (at - start).manhattanLength() >= QApplication.startDragDistance():
            self._point_at("")
            self._dragged = QRectF(start, at).normalized()
            self.mark(self._names_in(self._dragged))
            self.viewport().update()

    def _names_in(self, area: QRectF) -> tuple[str, ...]:
        assert self.painter is not None
        layout = self.painter.layout
        found = self.painter.within(area)
        return tuple(name for name, one in found if QRectF(*layout.tile(one)).intersects(area))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.button() != Qt.MouseButton.LeftButton or self._pressed is None:
            return
        at, dragged = self._in_grid(event), self._dragged
        self._pressed = self._dragged = None
        adds = bool(event.modifiers() & (CTRL | SHIFT))
        if dragged is not None:
            names = self._names_in(dragged)
            self.mark(())
            self.viewport().update()
        elif head := self._head_at(at):
            names = head.names
        else:
            names = ()
            if name := self._name_at(at):
                self.picked.emit((name,), True) if adds else self.opened.emit(name)
        if names:
            self.picked.emit(names, adds)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        if not isinstance(event, QHelpEvent) or event.type() != QEvent.Type.ToolTip:
            return super().viewportEvent(event)
        head, tip = self._head_at(QPointF(event.pos()) + self.visible.topLeft()), ""
        if head is not None:
            count = len(head.names)
            offer = trn("Target {count:,} parameter", "Target {count:,} parameters", count)
            tip = f"{one_line(head.text)}\n{offer}"
        elif self._pointed:
            tip = self.tip_of(self._pointed)
        QToolTip.showText(event.globalPos(), tip, self.viewport())
        return True

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._point_at("")

    def _point_at(self, name: str) -> None:
        if name != self._pointed:
            for one in filter(None, (self._pointed, name)):
                frame = self.rect_of(one).adjusted(-GAP_PX, -GAP_PX, GAP_PX, GAP_PX)
                self.viewport().update(frame.toAlignedRect())
            self._pointed = name
            self.pointed.emit(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, painter = Qt.Key(event.key()), self.painter
        positions = painter.arrangement.positions if painter else {}
        if painter is None or not positions:
            super().keyPressEvent(event)
            return
        current = self._chosen if self._chosen in positions else None
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and current is not None:
            self.opened.emit(current)
        elif key == Qt.Key.Key_Space and current is not None:
            self.picked.emit(self._line_of(current, event.modifiers()), False)
        elif key in STEPS and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            first = next(iter(positions))
            target = painter.arrangement.neighbour(current, *STEPS[key]) if current else first
            self.chosen.emit(target)
        else:
            super().keyPressEvent(event)

    def _line_of(self, name: str, modifiers: Qt.KeyboardModifier) -> tuple[str, ...]:
        """Return a parameter; with Shift those of its row, with Ctrl those of its column."""
        assert self.painter is not None
        section, row, column = self.painter.arrangement.positions[name]
        rows = self.painter.arrangement.sections[section].rows
        found: Iterable[str | None] = (name,)
        if modifiers & SHIFT:
            found = rows[row].names
        elif modifiers & CTRL:
            found = (one.names[column] for one in rows if column < len(one.names))
        return tuple(filter(None, found))

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.viewport().update()  # the frame of the chosen cell is faint without the focus

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()
        self.moved.emit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and self.painter is not None:
            painter = self.painter
            self.painter = None
            self.show_cells(painter.arrangement, painter.cell_of, painter.colours)
