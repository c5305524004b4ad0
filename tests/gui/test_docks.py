"""The docks of a window, and their layout between runs."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QDockWidget

from prune_gui.gui.docks import Docks
from prune_gui.gui.widgets.theme import DOCK_ICONS


def test_the_buttons_of_docks_have_the_colour_of_texts_in_every_theme(window):
    dock = window.findChild(QDockWidget, "Modules")
    buttons = [dock.findChild(QAbstractButton, name) for name, _ in DOCK_ICONS.values()]
    for theme in ("dark", "light"):
        window.commands.preferences.change("theme", theme)
        window.commands.preferences.change("density", "large" if theme == "dark" else "standard")
        ink = QApplication.palette().windowText().color()
        for button in buttons:
            image = button.icon().pixmap(32).toImage()
            shades = {image.pixelColor(x, y).name() for x in range(32) for y in range(32)}
            assert ink.name() in shades


def test_floating_docks_are_shown_after_the_window(window, qtbot):
    dock = window.findChild(QDockWidget, "Pruning")
    dock.setFloating(True)
    kept = window.docks.layout()
    window.hide()
    shown = []

    class Watch(QObject):
        def eventFilter(self, _, event):  # noqa: N802 - as Qt has it
            if event.type() == QEvent.Type.Show:
                shown.append(window.windowHandle().isVisible())
            return False

    watch = Watch()
    dock.installEventFilter(watch)
    window.docks.restore(*kept)
    window.show()
    dock.removeEventFilter(watch)
    assert dock.isVisible()
    assert shown[-1]


def test_the_layout_of_a_narrow_screen_is_not_that_of_a_wide_one(window, monkeypatch):
    modules, pruning = (window.findChild(QDockWidget, name) for name in ("Modules", "Pruning"))
    monkeypatch.setattr(Docks, "share_a_place", True)
    window.docks.stack("Modules", "Pruning")
    kept = window.docks.layout()
    window.docks.reset()
    monkeypatch.setattr(Docks, "share_a_place", False)
    window.docks.restore(*kept)
    assert window.tabifiedDockWidgets(modules) == []
    monkeypatch.setattr(Docks, "share_a_place", True)
    window.docks.restore(*kept)
    assert window.tabifiedDockWidgets(modules) == [pruning]


def test_the_views_stay_higher_than_the_dock_that_evaluates_in_a_low_window(demo_window, qtbot):
    demo_window.resize(1280, 770)
    demo_window.docks.show("Evaluate")
    dock = demo_window.findChild(QDockWidget, "Evaluate")
    qtbot.waitUntil(lambda: dock.height() > 200)
    assert demo_window.centralWidget().height() > dock.height()


def test_a_window_that_is_made_low_keeps_the_views_higher_than_the_docks_below(demo_window, qtbot):
    demo_window.resize(1500, 960)
    demo_window.docks.show("Evaluate")
    views, dock = demo_window.centralWidget(), demo_window.findChild(QDockWidget, "Evaluate")
    qtbot.waitUntil(lambda: views.height() > dock.height() > 300)
    for height in (800, 680):
        demo_window.resize(1024, height)
        QApplication.processEvents()
    assert views.height() > dock.height()
    demo_window.resizeDocks([dock], [400], Qt.Orientation.Vertical)
    QApplication.processEvents()
    chosen = dock.height()
    assert chosen > views.height()
    demo_window.resize(1024, 660)
    QApplication.processEvents()
    assert dock.height() == chosen
