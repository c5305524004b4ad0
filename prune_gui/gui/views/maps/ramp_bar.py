"""What the colours of numbers stand for: a bar from the least to the greatest."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from prune_gui.gui.views.maps.ramps import STEPS, Ramp
from prune_gui.language import number, tr

LENGTH = 180
THICKNESS = 10
SWATCHES = 12


class RampBar(QWidget):
    """Shows a ramp, with the numbers at its ends and in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self._ramp: Ramp | None = None
        self._reach = 0.0
        self.setAccessibleName(tr("Colours of numbers"))
        self.setToolTip(tr("Colours grow with the square root of the number."))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_ramp(self, ramp: Ramp, reach: float) -> None:
        """Show a ramp whose ends are so far from zero."""
        self._ramp, self._reach = ramp, reach
        self.setAccessibleDescription(", ".join(self.numbers))
        self.update()

    @property
    def numbers(self) -> tuple[str, str, str]:
        """What the left end, the middle and the right end stand for."""
        if self._ramp is None:
            return "", "", ""
        low = 0.0 - self._reach if self._ramp.signed else 0.0  # of nothing, no "-0"
        middle = 0.0 if self._ramp.signed else self._reach / 4  # of the root, it is the half
        return number(low, ".3g"), number(middle, ".3g"), number(self._reach, ".3g")

    @property
    def html(self) -> str:
        """The bar in rich text: swatches from the least to the greatest, the numbers between."""
        if self._ramp is None:
            return ""
        table = np.ascontiguousarray(self._ramp.table()).view(np.uint8).reshape(-1, 4)
        places = np.linspace(0, len(table) - 1, SWATCHES).astype(int)
        shown = [f'<span style="color: #{bytes(table[i, :3]).hex()}">■</span>' for i in places]
        low, middle, high = self.numbers
        half = SWATCHES // 2
        parts = (low, "".join(shown[:half]), middle, "".join(shown[half:]), high)
        return "&nbsp;".join(parts)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return room for the bar and a line of text below it."""
        return QSize(LENGTH, THICKNESS + self.fontMetrics().height() + 2)

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        """Draw the bar."""
        if self._ramp is None:
            return
        painter = QPainter(self)
        table = np.ascontiguousarray(self._ramp.table())
        image = QImage(table.tobytes(), STEPS, 1, 4 * STEPS, QImage.Format.Format_RGBA8888)
        painter.drawImage(QRect(0, 0, self.width(), THICKNESS), image)
        below = QRect(0, THICKNESS, self.width(), self.height() - THICKNESS)
        sides = (
            Qt.AlignmentFlag.AlignLeft,
            Qt.AlignmentFlag.AlignHCenter,
            Qt.AlignmentFlag.AlignRight,
        )
        for side, text in zip(sides, self.numbers, strict=True):
            painter.drawText(below, side | Qt.AlignmentFlag.AlignBottom, text)
