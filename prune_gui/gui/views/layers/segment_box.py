"""Dragging the end of a segment of a bar with the mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal

REACH_PX: Final = 6
"""Maximum distance of the cursor from the end of a segment that it grabs."""


class Segment(NamedTuple):
    """A segment of a bar.

    Attributes:
        row: the row that the bar shows.
        code: code of the segment.
        bottom: its lower end, in percent.
    """

    row: int
    code: int
    bottom: float


class SegmentBox(pg.ViewBox):  # type: ignore[misc]
    """The view box of bars from 0 to 100 percent. A drag pans, or moves the end of a segment.

    Signals:
        dragged: (row, code, share) the user moves the end; the height that the segment then has,
            in [0, 1].
    """

    dragged = Signal(int, int, float)

    def __init__(self, segment_at: Callable[[float, float, float], Segment | None]) -> None:
        super().__init__(enableMenu=False)
        self._segment_at = segment_at
        self._segment: Segment | None = None

    def mouseDragEvent(  # noqa: N802
        self, event: pg.GraphicsScene.mouseEvents.MouseDragEvent, axis: int | None = None
    ) -> None:
        """Pan, or move the end of the segment where the drag began."""
        if event.isStart():
            left = axis is None and event.button() == Qt.MouseButton.LeftButton
            self._segment = self._grabbed(event.buttonDownPos()) if left else None
        if self._segment is None:
            super().mouseDragEvent(event, axis=axis)
            return
        event.accept()
        row, code, bottom = self._segment
        height = self.mapToView(QPointF(event.pos())).y() - bottom
        self.dragged.emit(row, code, min(max(height / 100, 0.0), 1.0))

    def hoverEvent(self, event: pg.GraphicsScene.mouseEvents.HoverEvent) -> None:  # noqa: N802
        """Show by the cursor that the end of a segment can be dragged."""
        if not event.isExit() and self._grabbed(event.pos()):
            self.setCursor(Qt.CursorShape.SizeVerCursor)
        else:
            self.unsetCursor()

    def _grabbed(self, pos: QPointF) -> Segment | None:
        above, below = QPointF(0, REACH_PX), QPointF(pos)
        high, low = self.mapToView(below - above), self.mapToView(below + above)
        return self._segment_at(high.x(), low.y(), high.y())
