"""Keys beyond shortcuts: navigation between panes, and B, which shows the unpruned checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QSplitter, QTabBar, QWidget

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench


AREA_ORDER: Final = (
    Qt.DockWidgetArea.LeftDockWidgetArea,
    Qt.DockWidgetArea.TopDockWidgetArea,
    Qt.DockWidgetArea.NoDockWidgetArea,  # the middle of the window
    Qt.DockWidgetArea.RightDockWidgetArea,
    Qt.DockWidgetArea.BottomDockWidgetArea,
)
"""The dock areas in the order of navigation."""
KEY: Final = Qt.Key.Key_B
RELEASE_DELAY_MS: Final = 60
"""Delay after a key release before it counts. X11 sends a release and a press for each repeat."""


class PaneNavigation:
    """Moves the focus between the panes in the centre of a window and in its docks.

    The tab key visits the panes in the same order, one dock area after the other.
    """

    def __init__(self, window: QMainWindow, panes: Sequence[QWidget]) -> None:
        self._window = window
        self._panes = panes
        once = QTimer(window, singleShot=True, interval=0)  # several docks move at once
        once.timeout.connect(self._order_tabs)
        for dock in window.findChildren(QDockWidget):
            dock.dockLocationChanged.connect(lambda _: once.start())
        once.start()

    def go(self, by: int) -> None:
        """Move to the next pane (`by` = 1) or the previous one (-1), to its last focus widget."""
        visible = [pane for pane in self._panes if not pane.visibleRegion().isEmpty()]
        found = [(pane, _focus_target(pane)) for pane in sorted(visible, key=self._sort_key)]
        panes = [(pane, target) for pane, target in found if target is not None]
        if not panes:
            return
        focus, current = QApplication.focusWidget(), -1 if by > 0 else 0
        for index, (pane, _) in enumerate(panes):
            if focus is not None and pane.isAncestorOf(focus):
                current = index
        _, target = panes[(current + by) % len(panes)]
        target.activateWindow()  # it may be in a floating dock
        target.setFocus(Qt.FocusReason.ShortcutFocusReason)  # this reason draws a focus frame

    def _sort_key(self, pane: QWidget) -> tuple[bool, int, int, int]:
        """Return whether a pane floats, the index of its area, and its position from the top."""
        position = pane.mapTo(pane.window(), QPoint())
        return pane.window() is not self._window, self._area(pane), position.y(), position.x()

    def _area(self, pane: QWidget) -> int:
        docks = self._window.findChildren(QDockWidget)
        dock = next((dock for dock in docks if dock.isAncestorOf(pane)), None)
        area = self._window.dockWidgetArea(dock) if dock else Qt.DockWidgetArea.NoDockWidgetArea
        return AREA_ORDER.index(area)

    def _order_tabs(self) -> None:
        order_tabs(*sorted(self._panes, key=self._area))


def order_tabs(*parts: QWidget) -> None:
    """Set the tab order: the widgets of each part of a window, one part after the other.

    Each window, such as a floating dock, has an order of its own.
    """
    last_of: dict[QWidget, QWidget] = {}
    for stop in (stop for part in parts for stop in _tab_stops(part)):
        window = stop.window()
        if window in last_of:
            QWidget.setTabOrder(last_of[window], stop)
        last_of[window] = stop


def _tab_stops(part: QWidget) -> list[QWidget]:
    """Return the widgets in a part of a window that accept the tab focus, in layout order.

    This does not use `QWidget.nextInFocusChain`: the wrappers that PySide6 makes for it lead
    PySide6 to consider the handle of the window deleted.
    """

    def is_stop(widget: QWidget) -> bool:
        by_tab = Qt.FocusPolicy.TabFocus
        return widget.focusPolicy() & by_tab == by_tab and widget.focusProxy() is None

    stops = filter(is_stop, _descendants(part))
    return sorted(stops, key=lambda stop: not isinstance(stop, QTabBar))  # before its pages


def _descendants(part: QWidget) -> Iterator[QWidget]:
    """Yield the widgets below a part of a window, each before its own children."""
    children: Iterable[QObject | None] = part.children()
    if isinstance(part, QSplitter):  # its `children()` are not in the order of its layout
        children = (part.widget(index) for index in range(part.count()))
    for child in children:
        if isinstance(child, QWidget) and not child.isWindow():
            yield child
            yield from _descendants(child)


def _focus_target(pane: QWidget) -> QWidget | None:
    """Return the last focus widget of a pane, else its first usable tab stop, None if none."""
    stops = sorted(_tab_stops(pane), key=lambda stop: stop is not pane.focusWidget())
    return next((stop for stop in stops if stop.isVisible() and stop.isEnabled()), None)


class PeekOriginal(QObject):
    """Makes the workbench show the unchanged file while B is held anywhere in a window.

    A shortcut detects the press, because text fields take precedence over shortcuts and still get
    the letter. A shortcut does not report the release, so an event filter on the application
    watches for it until the key is released or the window is deactivated.
    """

    def __init__(self, workbench: Workbench, window: QWidget) -> None:
        super().__init__(window)
        self._workbench = workbench
        application = QCoreApplication.instance()
        assert application is not None
        self._application = application
        shortcut = QShortcut(QKeySequence(KEY), window)
        shortcut.setAutoRepeat(False)
        shortcut.activated.connect(self._press)
        self._release_timer = QTimer(self, singleShot=True, interval=RELEASE_DELAY_MS)
        self._release_timer.timeout.connect(self._release)

    def eventFilter(self, _: QObject, event: QEvent) -> bool:  # noqa: N802
        match event.type():
            case QEvent.Type.KeyRelease if isinstance(event, QKeyEvent):
                if event.key() == KEY and not event.isAutoRepeat():
                    self._release_timer.start()
            case QEvent.Type.WindowDeactivate:
                self._release()
        return False

    def _press(self) -> None:
        self._release_timer.stop()
        self._application.installEventFilter(self)
        self._workbench.draft.show_original(on=True)

    def _release(self) -> None:
        self._release_timer.stop()
        self._application.removeEventFilter(self)
        self._workbench.draft.show_original(on=False)
