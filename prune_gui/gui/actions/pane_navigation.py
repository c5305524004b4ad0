"""From one pane of a window to the next, by keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QSplitter, QTabBar, QWidget

AREAS: Final = (
    Qt.DockWidgetArea.LeftDockWidgetArea,
    Qt.DockWidgetArea.TopDockWidgetArea,
    Qt.DockWidgetArea.NoDockWidgetArea,  # the middle of the window
    Qt.DockWidgetArea.RightDockWidgetArea,
    Qt.DockWidgetArea.BottomDockWidgetArea,
)
"""In the order in which one comes by them."""


class PaneNavigation:
    """The panes in the middle of a window and in its docks, as they are seen.

    The tab key goes through them in the same order, one area after the other.

    Args:
        window: has the docks.
        panes: each in the middle of the window or in a dock; in one dock from the top.
    """

    def __init__(self, window: QMainWindow, panes: Sequence[QWidget]) -> None:
        self._window = window
        self._panes = panes
        for dock in window.findChildren(QDockWidget):
            dock.dockLocationChanged.connect(self._order_tabs)
        self._order_tabs()

    def go(self, by: int) -> None:
        """Go to the next pane (+1) or the one before (-1), to where the focus was in it last."""
        entries = {pane: entry for pane in self._seen() if (entry := _entry(pane)) is not None}
        if not entries:
            return
        panes, now = list(entries), QApplication.focusWidget()
        here = next((n for n, pane in enumerate(panes) if now and pane.isAncestorOf(now)), None)
        if here is None:
            here = -1 if by > 0 else 0
        entry = entries[panes[(here + by) % len(panes)]]
        entry.activateWindow()  # it may be in a dock that floats
        entry.setFocus(Qt.FocusReason.ShortcutFocusReason)  # for which it shows that it has it

    def _seen(self) -> list[QWidget]:
        """Return the panes that are in sight, those in floating docks last."""
        seen = [pane for pane in self._panes if not pane.visibleRegion().isEmpty()]
        return sorted(seen, key=self._place)

    def _place(self, pane: QWidget) -> tuple[bool, int, int, int]:
        """Return what panes are in order by."""
        at = pane.mapTo(pane.window(), QPoint())
        return pane.window() is not self._window, self._area(pane), at.y(), at.x()

    def _area(self, pane: QWidget) -> int:
        docks = self._window.findChildren(QDockWidget)
        dock = next((dock for dock in docks if dock.isAncestorOf(pane)), None)
        area = self._window.dockWidgetArea(dock) if dock else Qt.DockWidgetArea.NoDockWidgetArea
        return AREAS.index(area)

    def _order_tabs(self) -> None:
        order_tabs(*sorted(self._panes, key=self._area))


def order_tabs(*parts: QWidget) -> None:
    """Have the tab key go through parts of a window one after the other."""
    for one, next_one in pairwise(stop for part in parts for stop in _stops(part)):
        QWidget.setTabOrder(one, next_one)


def _stops(part: QWidget) -> list[QWidget]:
    """Return where the tab key may stop in a part of a window, in the order of its layout.

    The chain of the tab key itself is not followed: the wrappers that PySide6 makes on the way
    have it take the handle of the window for deleted.
    """
    by_tab = Qt.FocusPolicy.TabFocus
    found = [
        inside
        for inside in _within(part)
        if inside.focusPolicy() & by_tab == by_tab and inside.focusProxy() is None
    ]
    return sorted(found, key=lambda stop: not isinstance(stop, QTabBar))  # before its pages


def _within(part: QWidget) -> Iterator[QWidget]:
    """Yield what is in a part of a window, each widget before what is in it."""
    below: Iterable[QObject | None] = part.children()
    if isinstance(part, QSplitter):  # which has the last of them drawn first
        below = (part.widget(index) for index in range(part.count()))
    for child in below:
        if isinstance(child, QWidget) and not child.isWindow():
            yield child
            yield from _within(child)


def _entry(pane: QWidget) -> QWidget | None:
    """Return what had the focus last in a pane, or else what the tab key comes by first."""
    last = pane.focusWidget()
    stops = _stops(pane)
    if last in stops:
        stops.insert(0, last)
    return next((stop for stop in stops if stop.isVisible() and stop.isEnabled()), None)
