"""The docks of a window, and their layout between runs."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Final

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QDockWidget, QMainWindow, QWidget

from prune_gui.gui.widgets.theme import DOCK_ICONS, set_icon

THREE_COLUMNS_PX: Final = 900
"""Width of a screen from which the docks have room on both sides of the views."""

SHARE_BELOW: Final = 0.4
"""Share of the height of a dock below the views, of both heights, where the window is low."""

log = logging.getLogger(__name__)


class Docks:
    """Makes the docks of a window, and saves and restores their layout."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self._docks: dict[str, QDockWidget] = {}
        self._first_heights: dict[str, int] = {}
        self._first_layout = QByteArray()

    def add(
        self,
        name: str,
        title: str,
        content: QWidget,
        area: Qt.DockWidgetArea,
        *,
        hidden: bool = False,
    ) -> None:
        dock = QDockWidget(title)
        dock.setObjectName(name)
        dock.setWidget(content)
        for button_name, icon_name in DOCK_ICONS.values():
            button = dock.findChild(QAbstractButton, button_name)
            assert isinstance(button, QAbstractButton)
            set_icon(button, icon_name)
        self._window.addDockWidget(area, dock)
        dock.setHidden(hidden)
        self._docks[name] = dock

    def set_first_height(self, name: str, height: int) -> None:
        """Set the height of a hidden dock in pixels when it is shown first; less in low windows."""
        self._first_heights[name] = height

    @property
    def actions(self) -> list[QAction]:
        return [dock.toggleViewAction() for dock in self._docks.values()]

    @property
    def share_a_place(self) -> bool:
        """Whether the screen is too narrow for docks on both sides of the views."""
        return self._window.screen().availableSize().width() < THREE_COLUMNS_PX

    def resize(self, widths: Mapping[str, int]) -> None:
        """Set the widths of some docks, in pixels."""
        docks = [self._docks[name] for name in widths]
        self._window.resizeDocks(docks, list(widths.values()), Qt.Orientation.Horizontal)

    def stack(self, front: str, back: str) -> None:
        """Put a dock in front of another one."""
        self._window.tabifyDockWidget(self._docks[front], self._docks[back])
        self._docks[front].raise_()

    def show(self, name: str) -> None:
        """Show a dock, in front of those that share its place, and give it the focus."""
        dock = self._docks[name]
        was_hidden = dock.isHidden()
        views = self._window.centralWidget()
        assert views is not None
        limit = round(SHARE_BELOW * views.height())
        dock.show()
        dock.raise_()
        height = self._first_heights.pop(name, None)
        if was_hidden and height is not None:
            self._window.resizeDocks([dock], [min(height, limit)], Qt.Orientation.Vertical)
        dock.widget().setFocus(Qt.FocusReason.ShortcutFocusReason)

    def share_loss(self, lost: int) -> None:
        """Share a loss of height in pixels, which Qt takes from the views alone.

        A dock that was higher than the views before stays so: the user has made it high.
        """
        views = self._window.centralWidget()
        assert views is not None
        for dock in self._docks.values():
            area = self._window.dockWidgetArea(dock)
            is_below = area == Qt.DockWidgetArea.BottomDockWidgetArea and not dock.isFloating()
            low, high = views.height(), dock.height()
            if is_below and dock.isVisible() and low < high <= low + lost:
                share = round(SHARE_BELOW * (low + high))
                self._window.resizeDocks([dock], [share], Qt.Orientation.Vertical)

    def toggle(self, name: str) -> None:
        """Hide a dock that can be seen, else show it."""
        dock = self._docks[name]
        if dock.visibleRegion().isEmpty():
            self.show(name)
        else:
            dock.hide()

    def show_floating(self) -> None:
        """Show the floating docks again.

        A dock that is shown before the window would be stacked below it.
        """
        for dock in self._docks.values():
            if dock.isFloating() and dock.isVisible():
                dock.hide()
                dock.show()

    def note_first_layout(self) -> None:
        self._first_layout = self._window.saveState()

    def reset(self) -> None:
        self._window.restoreState(self._first_layout)

    def layout(self) -> tuple[str, str]:
        """Return the geometry of the window and the layout, in base64."""
        return _text(self._window.saveGeometry()), _text(
            self._window.saveState(int(self.share_a_place))
        )

    def restore(self, *layout: str) -> None:
        """Restore a layout; that of the docks only if it is of as narrow or as wide a screen."""
        try:
            geometry, state = map(base64.b64decode, layout)
        except binascii.Error:
            log.warning("The layout of the window cannot be read; using the default layout.")
            return
        self._window.restoreGeometry(QByteArray(geometry))
        self._window.restoreState(QByteArray(state), int(self.share_a_place))


def _text(state: QByteArray) -> str:
    return base64.b64encode(state.data()).decode()
