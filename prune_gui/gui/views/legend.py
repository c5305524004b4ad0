"""The legend below a picture: the colour of each step, and how much the step pruned."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy

from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import tr

MAX_VISIBLE_LINES: Final = 5  # maximum number of lines that are visible at once; more are scrolled


class Legend(QScrollArea):
    """Shows a legend that wraps and scrolls, and takes the focus only while it can scroll."""

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self._label = QLabel(wordWrap=True, textFormat=Qt.TextFormat.RichText)
        self._label.setAccessibleName(tr("Legend"))
        self._label.setContentsMargins(GAP_PX, 0, GAP_PX, TIGHT_PX)
        self._heights: dict[int, int] = {}
        self.setWidget(self._label)
        self.setFrameShape(QFrame.Shape.NoFrame)
        # While it accepts no focus, Qt would not give it a place in the tab order.
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Legend"))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def text(self) -> str:
        return self._label.text()

    def setText(self, text: str) -> None:  # noqa: N802 - like QLabel
        if text != self.text():
            before = self._needed_size()
            self._label.setText(text)
            self._heights.clear()
            if self._needed_size() != before:  # while a cut is dragged, only the numbers change
                self.updateGeometry()
            self._update_scroll_bar()

    def clear(self) -> None:
        self.setText("")

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        if width not in self._heights:  # Qt asks often, and each answer lays out the text
            margins = self._label.contentsMargins()
            lines = MAX_VISIBLE_LINES * self._label.fontMetrics().lineSpacing()
            most = lines + margins.top() + margins.bottom()
            self._heights[width] = min(self._label.heightForWidth(width), most)
        return self._heights[width]

    def sizeHint(self) -> QSize:  # noqa: N802
        hint = self._label.sizeHint()
        return QSize(hint.width(), self.heightForWidth(hint.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return a minimum width that fits an item, because the legend does not scroll sideways."""
        scroll_bar_width = self.verticalScrollBar().sizeHint().width()
        return QSize(self._label.minimumSizeHint().width() + scroll_bar_width, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._update_scroll_bar()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._heights.clear()
        super().changeEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Scroll to the start or the end; Qt handles the arrows and the page keys."""
        bar = self.verticalScrollBar()
        if event.key() == Qt.Key.Key_Home:
            bar.setValue(bar.minimum())
        elif event.key() == Qt.Key.Key_End:
            bar.setValue(bar.maximum())
        else:
            super().keyPressEvent(event)

    def _needed_size(self) -> QSize:
        return QSize(self.minimumSizeHint().width(), self.heightForWidth(self.width()))

    def _update_scroll_bar(self) -> None:
        """Show the scroll bar, and accept the focus, only if the lines do not fit.

        Qt's own policy can keep a scroll bar whose only cause is the width that it takes itself.
        """
        overflows = self._label.heightForWidth(self.width()) > self.height()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if overflows else Qt.FocusPolicy.NoFocus)
        on, off = Qt.ScrollBarPolicy.ScrollBarAlwaysOn, Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(on if overflows else off)
