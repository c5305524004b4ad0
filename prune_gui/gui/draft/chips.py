"""A row of chips: short texts, each with a button that removes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QStyle, QStyleOptionFocusRect, QToolButton, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.formatting import wrapped
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import colours, icon
from prune_gui.language import tr

ROWS: Final = 2
"""Rows of chips. The number is fixed, so that widgets below do not move."""
GAP_PX: Final = 4
PADDING_PX: Final = 6
MIN_WIDTH_PX: Final = 120
"""Minimum width of the row."""
MAX_CHIPS: Final = 40
"""Limit of the chips that are made; the others are counted."""


class Chips(QWidget):
    """Shows texts as chips. Those that do not fit are counted, and listed in the tool tip.

    Enter, F2, a click or a typed character ask to edit the texts; Delete removes the last one.
    """

    removed = Signal(int)  # (index) the user removes a text
    edit_wanted = Signal(int)  # (index) the user wants to edit the texts at this one, or at -1
    typed = Signal(str)  # (character) the user begins to type new texts

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._texts: Sequence[str] = ()
        self._is_marked = False
        self._chips: list[_Chip] = []
        self._add = _small_button(self, tr("Add a glob"))  # a character or Enter does the same
        self._add.setText("+")
        self._add.clicked.connect(lambda: self.edit_wanted.emit(-1))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.IBeamCursor)

    def mark(self, *, on: bool) -> None:
        """Draw a frame in the colour of warnings."""
        self._is_marked = on
        self.update()

    def show_texts(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.mark(on=False)
        for chip in self._chips:
            chip.hide()
            chip.deleteLater()
        self._chips = []
        for index, text in enumerate(texts[:MAX_CHIPS]):
            chip = _Chip(text, self)
            chip.remove.clicked.connect(lambda _, index=index: self.removed.emit(index))
            chip.clicked.connect(lambda index=index: self.edit_wanted.emit(index))
            self._chips.append(chip)
        self._place()

    def shown(self) -> list[str]:
        return [chip.text for chip in self._chips if not chip.isHidden()]

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(2 * MIN_WIDTH_PX, ROWS * self._row_height() + (ROWS - 1) * GAP_PX)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(MIN_WIDTH_PX, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._place()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.edit_wanted.emit(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F2):
            if not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.edit_wanted.emit(-1)
                return
        elif event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            if self._texts:
                self.removed.emit(len(self._texts) - 1)
            return
        elif event.text().isprintable() and event.text().strip():
            self.typed.emit(event.text())
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self._is_marked:
            painter = QPainter(self)
            painter.setPen(QPen(QColor(colours(self.palette()).warning), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
            painter.end()
        if self.hasFocus():
            option = QStyleOptionFocusRect()
            option.initFrom(self)
            painter = QPainter(self)
            focus = QStyle.PrimitiveElement.PE_FrameFocusRect
            self.style().drawPrimitive(focus, option, painter, self)
            painter.end()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.FontChange:
            self._place()
        super().changeEvent(event)

    def _row_height(self) -> int:
        return self.fontMetrics().height() + PADDING_PX

    def _place(self) -> None:
        """Place the chips in rows from the left, and "+" after the last one that fits."""
        height = self._row_height()
        x = row = 0
        fitting: list[_Chip] = []
        for chip in self._chips:
            wanted = chip.full_width()
            if x and x + wanted > self._room(row):
                x, row = 0, row + 1
            if row == ROWS:
                break
            width = min(wanted, self._room(row))
            chip.setGeometry(x, row * (height + GAP_PX), width, height)
            x += width + GAP_PX
            fitting.append(chip)
        for chip in self._chips:
            chip.setVisible(chip in fitting)
        hidden = len(self._texts) - len(fitting)
        if row == ROWS:
            x, row = fitting[-1].geometry().right() + 1 + GAP_PX, ROWS - 1
        elif x + self._add_width(hidden) > self.width():
            x, row = 0, row + 1
        self._add.setText(f"+{hidden:,}" if hidden else "+")
        self._add.setGeometry(x, row * (height + GAP_PX), self._add_width(hidden), height)
        self.setToolTip(wrapped(", ".join(self._texts)) if hidden else "")

    def _room(self, row: int) -> int:
        """Return the width for chips in a row; the last one has "+" too."""
        last = self._add_width(len(self._texts)) + GAP_PX if row == ROWS - 1 else 0
        return max(self.width() - last, 1)

    def _add_width(self, hidden: int) -> int:
        text = f"+{hidden:,}" if hidden else "+"
        return self.fontMetrics().horizontalAdvance(text) + 2 * PADDING_PX


def _small_button(parent: QWidget, name: str) -> QToolButton:
    """Return a flat button that is no tab stop."""
    button = layouts.described(QToolButton(parent), name, name)
    button.setAutoRaise(True)
    button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return button


class _Chip(QWidget):
    """One text with a button that removes it."""

    clicked = Signal()

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.text = text
        name = tr("Remove {glob}", glob=one_line(text))
        self.remove = _small_button(self, name)  # the Delete key does the same
        self.remove.setIcon(icon("close"))
        self.remove.setCursor(Qt.CursorShape.ArrowCursor)

    def full_width(self) -> int:
        """Return the width at which the text is not elided."""
        metrics = self.fontMetrics()
        return metrics.horizontalAdvance(self.text) + metrics.height() + 2 * PADDING_PX

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        side = min(self.height(), self.fontMetrics().height() + 2)
        self.remove.setGeometry(self.width() - side - 1, (self.height() - side) // 2, side, side)
        self.remove.setIconSize(QSize(side - 6, side - 6))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.clicked.emit()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        palette, role = self.palette(), QPalette.ColorRole
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QColor(palette.color(role.Text))
        outline.setAlphaF(0.35)
        painter.setPen(outline)
        painter.setBrush(palette.color(role.Base))
        radius = (self.height() - 1) / 2
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
        painter.setPen(palette.color(role.Text))
        area = self.rect().adjusted(PADDING_PX + 1, 0, -self.remove.width() - 1, 0)
        middle = Qt.TextElideMode.ElideMiddle
        shown = self.fontMetrics().elidedText(self.text, middle, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, shown)
        painter.end()
