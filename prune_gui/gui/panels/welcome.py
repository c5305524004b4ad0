"""The start page, shown while no checkpoint is open."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics
from PySide6.QtWidgets import QCommandLinkButton, QLabel, QVBoxLayout, QWidget

from prune_gui.checkpoint.formats import known_suffixes
from prune_gui.errors import one_line
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.frames import FitScrollArea
from prune_gui.gui.widgets.theme import (
    ICON_NAME,
    TITLE,
    WIDE_PX,
    app_icon,
    bold,
    scaled,
    set_icon,
)
from prune_gui.language import deferred, tr
from prune_gui.location import Location

PURPOSE: Final = deferred(
    "See the zeros in a neural network, prune any of its weights, and save the result. The file is "
    "not changed, and no code in it is run."
)
MAX_RECENT: Final = 5  # limit of the recent files that are shown
WIDTH_PX: Final = 420  # of the page, if there is room
MAX_NAME_PX: Final = 340  # of the name of a recent file, which its button shows in one line
MIN_WIDTH_PX: Final = 260  # minimum width at which no explanation is cut off
MIN_HEIGHT_PX: Final = 120  # minimum height; what does not fit is scrolled


class Welcome(QWidget):
    """Buttons to open a checkpoint, and the recent files."""

    wanted = Signal(object)  # (path) the user wants to open this checkpoint

    def __init__(self, actions: Sequence[QAction]) -> None:
        super().__init__()
        picture = QLabel()
        picture.setPixmap(app_icon().pixmap(64))
        title = QLabel("Prune GUI")
        title.setFont(scaled(title.font(), TITLE))
        purpose = QLabel(tr(PURPOSE))
        suffixes = " ".join(known_suffixes())
        formats = QLabel(tr("Open or drop {suffixes} or a sharded checkpoint.", suffixes=suffixes))
        formats.setForegroundRole(formats.palette().ColorRole.PlaceholderText)
        self._column = QVBoxLayout()
        for label in (picture, title, purpose, formats):
            label.setWordWrap(label in (purpose, formats))
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            self._column.addWidget(label)
        self._column.addSpacing(WIDE_PX)
        for action in actions:
            button = QCommandLinkButton(action.iconText(), action.toolTip())
            button.clicked.connect(action.trigger)
            set_icon(button, action.property(ICON_NAME))
            self._column.addWidget(button)
        self._recent = QVBoxLayout()
        self._buttons: dict[str, QCommandLinkButton] = {}  # by path
        self._column.addLayout(self._recent)
        middle = QWidget(minimumWidth=MIN_WIDTH_PX)
        middle.setLayout(self._column)
        scroll_area = FitScrollArea(middle, MIN_HEIGHT_PX)
        scroll_area.setMaximumWidth(WIDTH_PX)
        row = layouts.row(layouts.STRETCH, (scroll_area, WIDTH_PX), layouts.STRETCH)
        layouts.column(layouts.STRETCH, row, layouts.STRETCH, of=self)

    def show_recent(self, paths: Sequence[str]) -> None:
        while (item := self._recent.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        self._buttons.clear()
        for path in map(Path, paths[:MAX_RECENT]):
            folder = one_line(str(Location.at(path.parent)))
            metrics = QFontMetrics(bold(self.font()))
            middle = Qt.TextElideMode.ElideMiddle
            name = metrics.elidedText(one_line(path.name), middle, MAX_NAME_PX)
            button = QCommandLinkButton(escape_mnemonics(name), folder)
            button.setToolTip(one_line(str(path)))
            button.clicked.connect(lambda _=False, path=path: self.wanted.emit(path))
            set_icon(button, "tensor")
            self._recent.addWidget(button)
            self._buttons[str(path)] = button

    def disable(self, paths: Set[str]) -> None:
        """Make the buttons of recent files grey."""
        for path in self._buttons.keys() & paths:
            self._buttons[path].setEnabled(False)
