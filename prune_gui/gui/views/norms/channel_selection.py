"""Choosing channels by hand: with the mouse on a plot, and with the keyboard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal

SHIFT: Final = Qt.KeyboardModifier.ShiftModifier
CONTROL: Final = Qt.KeyboardModifier.ControlModifier


@dataclass(frozen=True, slots=True)
class ChannelSelection:
    """The channels that are chosen by hand, and the one that the keyboard is at. No Qt.

    Attributes:
        channels: that are chosen.
        current: None before the keyboard or a click has been anywhere.
    """

    channels: frozenset[int] = frozenset()
    current: int | None = None

    def only(self, channel: int) -> ChannelSelection:
        """Choose one channel; a second time, none."""
        alone = self.channels == {channel}
        return ChannelSelection(frozenset() if alone else frozenset([channel]), channel)

    def toggled(self, channel: int) -> ChannelSelection:
        """Choose a channel beside the others, or no longer."""
        return ChannelSelection(self.channels ^ {channel}, channel)

    def widened(self, channels: frozenset[int]) -> ChannelSelection:
        """Choose some channels beside the others."""
        return replace(self, channels=self.channels | channels)

    def moved_to(self, channel: int) -> ChannelSelection:
        """Go to a channel, and choose what was chosen."""
        return replace(self, current=channel)


class ChannelBox(pg.ViewBox):  # type: ignore[misc]
    """Where the bars are. A drag pans; with Shift, or while `banding`, it chooses a range.

    Attributes:
        banding: whether a drag chooses without Shift too.

    Signals:
        clicked: (x, with Control) the user clicked there.
        banded: (x, x, at its end) the user draws a rubber band from there to there.
    """

    clicked = Signal(float, bool)
    banded = Signal(float, float, bool)

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.banding = False

    def mouseClickEvent(self, event: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:  # noqa: N802
        """Tell of a click with the left button."""
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
