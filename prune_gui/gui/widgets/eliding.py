"""Widgets that elide a text that is too long for them."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QStyleOptionFrame,
    QStylePainter,
    QToolButton,
    QToolTip,
)

from prune_gui.gui.formatting import wrapped

MARGIN_PX = 2  # margin of Qt on either side of the text, in every style


MIN_WIDTH_PX: Final = 84  # minimum width of the box in pixels


def elided_name(name: str, metrics: QFontMetrics, width: int) -> str:
    """Return the name of a parameter in at most a width in pixels, still unlike its neighbours.

    Modules become their initials before the middle is elided, which `attention.output.dense` and
    `output.dense` differ by: all modules above the first number, then further ones one by one.
    """
    parts = name.split(".")
    is_name = not any(each.isspace() or each == "/" for each in name)
    block = next((at for at, part in enumerate(parts) if part.isdigit()), 0)
    for at in range(len(parts) - 2 if is_name else 0):
        if at >= block and metrics.horizontalAdvance(".".join(parts)) <= width:
            break
        parts[at] = parts[at] if parts[at].isdigit() else parts[at][:1]
    shown = name if metrics.horizontalAdvance(name) <= width else ".".join(parts)
    return metrics.elidedText(shown, Qt.TextElideMode.ElideMiddle, width)


class ElidedLineEdit(QLineEdit):
    """A line edit that elides a long text without the focus. Its tool tip shows the full text."""

    def __init__(self, elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__()
        self._elide = elide

    def shown(self) -> str:
        metrics = self.fontMetrics()
        return metrics.elidedText(self.text(), self._elide, self._text_rect().width())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self.hasFocus() or self.shown() == self.text():
            super().paintEvent(event)
            return
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        painter = QStylePainter(self)
        painter.drawPrimitive(QStyle.PrimitiveElement.PE_PanelLineEdit, option)
        painter.setPen(self.palette().color(QPalette.ColorRole.Text))
        painter.drawText(self._text_rect(), Qt.AlignmentFlag.AlignVCenter, self.shown())
        painter.end()

    def event(self, event: QEvent) -> bool:
        shows_tip = event.type() == QEvent.Type.ToolTip and self.shown() != self.text()
        if shows_tip and isinstance(event, QHelpEvent):
            parts = filter(None, (wrapped(self.text()), self.toolTip()))
            QToolTip.showText(event.globalPos(), "\n\n".join(parts), self)
            return True
        return super().event(event)

    def _text_rect(self) -> QRect:
        """Return the rectangle of the text, without the visible buttons in the line."""
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        contents = QStyle.SubElement.SE_LineEditContents
        rect = self.style().subElementRect(contents, option, self)
        rect.adjust(MARGIN_PX, 0, -MARGIN_PX, 0)
        for button in self.findChildren(QToolButton):
            if button.isVisible():
                rect.setRight(min(rect.right(), button.x() - MARGIN_PX))
        return rect


class ElidedComboBox(QComboBox):
    """A combo box that may be narrower than its texts, and then shows an ellipsis."""

    def __init__(self, elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__()
        self._elide = elide
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setMinimumWidth(MIN_WIDTH_PX)

    def shown(self) -> str:
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        box, field = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        width = self.style().subControlRect(box, option, field, self).width() - 2  # of Fusion
        return self.fontMetrics().elidedText(self.currentText(), self._elide, width)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the box as Qt does, with the elided text; Fusion would cut the text off."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self.shown()
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()


class ElidedLabel(QLabel):
    """A label that never makes the window grow: a text that is too long is wrapped or elided."""

    def __init__(
        self,
        name: str,
        *,
        wrapped: bool = False,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(
            textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse, wordWrap=wrapped
        )
        self._full_text = ""
        self._elide = elide
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def say(self, text: str, *, tip: str | None = None) -> None:
        """Show a text, elided to the width unless the label wraps, and a tool tip if given."""
        self._full_text = text
        if tip is not None:
            self.setToolTip(tip)
        self.setAccessibleDescription(text)
        self._fit()

    def _fit(self) -> None:
        width = self.contentsRect().width()
        lines = self._full_text.split("\n")
        elided = "\n".join(
            self.fontMetrics().elidedText(line, self._elide, width) for line in lines
        )
        self.setText(self._full_text if self.wordWrap() else elided)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the same height for every line, so that widgets below do not move."""
        margins, hint = self.contentsMargins(), super().sizeHint()
        lines = self.fontMetrics().height() * (1 + self._full_text.count("\n"))
        height = lines + margins.top() + margins.bottom()
        return hint if self.wordWrap() else QSize(hint.width(), height)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(1, self.fontMetrics().height())
