"""What the window shows while nothing is open: what to do first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCommandLinkButton, QLabel, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.runtime.locale import literal
from prune_gui.gui.widgets.icons import app_icon, icon
from prune_gui.language import tr

RECENT: Final = 5
WIDTH: Final = 420
"""In pixels: no explanation is cut off."""


class Welcome(QWidget):
    """Buttons to open something, and the files opened lately.

    Signals:
        wanted: (path) open this checkpoint.
    """

    wanted = Signal(object)

    def __init__(self, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        picture = QLabel()
        picture.setPixmap(app_icon().pixmap(64))
        title = QLabel("Prune GUI")
        font = title.font()
        font.setPointSizeF(font.pointSizeF() * 1.8)
        title.setFont(font)
        advice = QLabel(tr("Open a checkpoint, or drop one here."))
        self._opening: dict[QCommandLinkButton, QAction] = {}
        self._column = QVBoxLayout()
        for widget in (picture, title, advice):
            self._column.addWidget(widget, alignment=Qt.AlignmentFlag.AlignHCenter)
        self._column.addSpacing(16)
        for action in actions:
            button = QCommandLinkButton(action.iconText(), action.toolTip())
            button.clicked.connect(action.trigger)
            self._opening[button] = action
            self._column.addWidget(button)
        self._recent = QVBoxLayout()
        self._column.addLayout(self._recent)
        middle = QWidget()
        middle.setLayout(self._column)
        middle.setMinimumWidth(WIDTH)
        layout = QVBoxLayout(self)
        layout.addStretch()
        layout.addWidget(middle, alignment=Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch()
        self._show_icons()

    def show_recent(self, paths: Sequence[str]) -> None:
        """Show the latest of these checkpoints."""
        while (item := self._recent.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        for path in map(Path, paths[:RECENT]):
            button = QCommandLinkButton(literal(path.name), one_line(str(path.parent)))
            button.clicked.connect(lambda _=False, path=path: self.wanted.emit(path))
            button.setIcon(icon("tensor"))
            self._recent.addWidget(button)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._show_icons()

    def _show_icons(self) -> None:
        for button in self.findChildren(QCommandLinkButton):
            action = self._opening.get(button)
            button.setIcon(icon("tensor") if action is None else action.icon())
