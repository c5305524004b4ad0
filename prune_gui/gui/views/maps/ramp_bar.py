"""A legend of the colours of numbers: a bar from the minimum to the maximum."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from prune_gui.audit.rendering.ramps import TABLE_SIZE, Ramp
from prune_gui.language import format_number, tr

LENGTH_PX = 180
THICKNESS_PX = 10
SWATCHES = 12


class RampBar(QWidget):
    """Shows a ramp, with the numbers at its ends and in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self._ramp: Ramp | None = None
        self._reach = 0.0
        self.setAccessibleName(tr("Colour scale"))
        self.setToolTip(tr("Colours are scaled by the square root of the value."))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_ramp(self, ramp: Ramp, reach: float) -> None:
        """Show a ramp whose ends are at distance `reach` from zero."""
        self._ramp, self._reach = ramp, reach
        self.setAccessibleDescription(", ".join(self.numbers))
        self.update()

    @property
    def numbers(self) -> tuple[str, str, str]:
        """The numbers at the left end, the middle and the right end."""
        if self._ramp is None:
            return "", "", ""
        low = 0.0 - self._reach if self._ramp.signed else 0.0  # avoids "-0"
        middle = 0.0 if self._ramp.signed else self._reach / 4  # half of the square root
        return (
            format_number(low, ".3g"),
            format_number(middle, ".3g"),
            format_number(self._reach, ".3g"),
        )

    @property
    def html(self) -> str:
        """The bar as rich text: swatches from minimum to maximum, with numbers between them."""
        if self._ramp is None:
            return ""
        table = np.ascontiguousarray(self._ramp.table()).view(np.uint8).reshape(-1, 4)
        indices = np.linspace(0, len(table) - 1, SWATCHES).astype(int)
        swatches = [f'<span style="color: #{bytes(table[i, :3]).hex()}">■</span>' for i in indices]
        low, middle, high = self.numbers
        half = SWATCHES // 2
        parts = (low, "".join(swatches[:half]), middle, "".join(swatches[half:]), high)
        return "&nbsp;".join(parts)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of the bar and of a line of text below it."""
        return QSize(LENGTH_PX, THICKNESS_PX + self.fontMetrics().height() + 2)

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        """Draw the bar."""
        if self._ramp is None:
            return
        painter = QPainter(self)
        table = np.ascontiguousarray(self._ramp.table())
        image = QImage(
            table.tobytes(), TABLE_SIZE, 1, 4 * TABLE_SIZE, QImage.Format.Format_RGBA8888
        )
        painter.drawImage(QRect(0, 0, self.width(), THICKNESS_PX), image)
        text_rect = QRect(0, THICKNESS_PX, self.width(), self.height() - THICKNESS_PX)
        sides = (
            Qt.AlignmentFlag.AlignLeft,
            Qt.AlignmentFlag.AlignHCenter,
            Qt.AlignmentFlag.AlignRight,
        )
        for side, text in zip(sides, self.numbers, strict=True):
            painter.drawText(text_rect, side | Qt.AlignmentFlag.AlignBottom, text)
