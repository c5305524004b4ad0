"""The callback after the first paint of a window."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from prune_gui.gui.runtime.startup import FirstPaint


class Painted(QWidget):
    def __init__(self):
        super().__init__()
        self.done = []

    def paintEvent(self, event):  # noqa: N802
        super().paintEvent(event)
        self.done.append("painted")


def test_the_callback_runs_once_after_the_first_paint(qtbot):
    window = Painted()
    qtbot.addWidget(window)
    window.show()
    FirstPaint(window, lambda: window.done.append("then"))
    qtbot.waitUntil(lambda: "then" in window.done)
    assert window.done[0] == "painted"
    window.hide()
    window.show()
    qtbot.waitUntil(lambda: window.done[-1] == "painted")
    assert window.done.count("then") == 1


def test_the_callback_runs_after_a_timeout_if_the_window_is_never_painted(qtbot):
    window = Painted()
    qtbot.addWidget(window)
    window.create()
    FirstPaint(window, lambda: window.done.append("then"))
    qtbot.waitUntil(lambda: window.done == ["then"])
