"""The shortcuts of the actions of a window."""

from __future__ import annotations

from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest


def test_every_standard_key_of_an_action_works(demo_window, workbench, make_step, qtbot):
    workbench.edit(lambda session: session.add(make_step()))
    demo_window.activateWindow()
    qtbot.waitUntil(demo_window.isActiveWindow)
    for keys in ("Ctrl+Y", "Ctrl+Shift+Z"):
        demo_window.menu_actions["undo"].trigger()
        QTest.keySequence(demo_window.tree.tree, QKeySequence(keys))
        assert len(workbench.session.steps) == 1
