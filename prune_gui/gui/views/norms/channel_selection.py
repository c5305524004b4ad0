"""Selecting channels with the mouse and the keyboard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal

SHIFT: Final = Qt.KeyboardModifier.ShiftModifier
CONTROL: Final = Qt.KeyboardModifier.ControlModifier


@dataclass(frozen=True, slots=True)
class ChannelSelection:
    """The selected channels, and the current channel of the keyboard. No Qt.

    Attributes:
        channels: the selected channels.
        current: the current channel; None before the first key or click.
    """

    channels: frozenset[int] = frozenset()
    current: int | None = None

    def only(self, channel: int) -> ChannelSelection:
        """Select one channel; select none if it is the only one already."""
        alone = self.channels == {channel}
        return ChannelSelection(frozenset() if alone else frozenset([channel]), channel)

    def toggled(self, channel: int) -> ChannelSelection:
        """Select a channel beside the others, or deselect it."""
        return ChannelSelection(self.channels ^ {channel}, channel)

    def widened(self, channels: frozenset[int]) -> ChannelSelection:
        """Select more channels."""
        return replace(self, channels=self.channels | channels)

    def moved_to(self, channel: int) -> ChannelSelection:
        """Move to a channel; the selection stays."""
        return replace(self, current=channel)


class ChannelBox(pg.ViewBox):  # type: ignore[misc]
    """The view box of the bars. A drag pans; with Shift or while `banding`, it selects a range.

    Attributes:
        banding: whether a drag selects without Shift too.

    Signals:
        clicked: (x, whether Control or Shift is held) the user clicked.
        banded: (start x, end x, whether finished) the user draws a rubber band.
    """

    clicked = Signal(float, bool)
    banded = Signal(float, float, bool)

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.banding = False

    def mouseClickEvent(self, event: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:  # noqa: N802
        """Emit a click with the left button."""
        if event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            self.clicked.emit(
                self.mapToView(event.pos()).x(), bool(event.modifiers() & (CONTROL | SHIFT))
            )

    def mouseDragEvent(  # noqa: N802
        self, event: pg.GraphicsScene.mouseEvents.MouseDragEvent, axis: int | None = None
    ) -> None:
        """Pan, or draw a rubber band."""
        bands = self.banding or bool(event.modifiers() & SHIFT)
        if axis is not None or event.button() != Qt.MouseButton.LeftButton or not bands:
            super().mouseDragEvent(event, axis=axis)
            return
        event.accept()
        start, stop = (
            self.mapToView(QPointF(at)).x() for at in (event.buttonDownPos(), event.pos())
        )
        self.banded.emit(start, stop, event.isFinish())
