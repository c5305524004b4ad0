"""A line above the views with a message and a button, until the user closes it."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QToolButton, QWidget

from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.widgets.spacing import GAP_PX, TIGHT_PX
from prune_gui.language import tr


class Notice(QWidget):
    """A message, a button that acts on it, and one that hides it; hidden at first.

    Attributes:
        button: the button that acts.
    """

    def __init__(self, action: str, tool_tip: str) -> None:
        super().__init__()
        self._is_closed = False
        self._text = ""
        self._label = ElidedLabel(tr("Notice"))
        self.button = QPushButton(action)
        self.button.setToolTip(tool_tip)
        self._close = QToolButton(autoRaise=True)
        self._close.setIcon(icon("cancel"))
        self._close.setToolTip(tr("Hide this notice until the file is opened again"))
        self._close.setAccessibleName(tr("Hide this notice"))
        self._close.clicked.connect(self._hide_for_good)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        layout.addWidget(self._label, 1)
        layout.addWidget(self.button)
        layout.addWidget(self._close)
        self.hide()

    @property
    def text(self) -> str:
        """The text of the notice; "" while it is hidden."""
        return "" if self.isHidden() else self._text

    def say(self, text: str) -> None:
        """Show a message, unless the user closed the notice; "" to hide it."""
        self._text = text
        self._label.say(text)
        self._label.setToolTip(text)
        self.setVisible(bool(text) and not self._is_closed)

    def reopen(self) -> None:
        """Show messages again: another file is open."""
        self._is_closed = False

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self._close.setIcon(icon("cancel"))
        super().changeEvent(event)

    def _hide_for_good(self) -> None:
        self._is_closed = True
        self.hide()
