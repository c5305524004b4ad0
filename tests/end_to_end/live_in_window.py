"""A long user session: a script that `test_day.py` runs.

``python live_in_window.py work CHECKPOINT FILTER REST FOLDER`` prunes the parameters that the
filter matches 2:4, and those that REST matches globally to 60 %, no layer above 90 %. It shows
every view, undoes, redoes, saves two forms into the folder, copies the stack in three ways, and is
killed with one unsaved step. ``... return FOLDER`` restores the steps, removes that one, and saves
again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from leave_window import box_with, press
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QTabWidget
from use_window import LEFT, Ready, Robot, add_step, named, pick, retype, save, set_amount

from prune_gui.gui.app import run
from prune_gui.gui.window import MainWindow

CONTROL = Qt.KeyboardModifier.ControlModifier
COPIES = ("recipe", "command", "script")


def choose_method(window: MainWindow, title: str) -> Iterator[Ready]:
    pick(named(window, QComboBox, "Method"), title)
    yield window.draft.form.inputs[0].isVisible


def work(window: MainWindow, tree_filter: str, rest: str, folder: str) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: bench.resolved is not None
    QTest.keyClicks(window.tree.filter, tree_filter)
    tree = window.tree.tree
    yield lambda: tree.model().rowCount() > 0
    tree.setFocus()
    unfiltered = window.draft.targets.line.text()
    QTest.keyClick(tree, Qt.Key.Key_A, CONTROL)
    yield lambda: window.draft.targets.line.text() != unfiltered
    yield from choose_method(window, "n:m")
    yield from add_step(window)
    window.tree.filter.clear()
    yield from choose_method(window, "L1")
    pick(named(window, QComboBox, "Scope"), "global")
    retype(window.draft.targets.line, rest)
    set_amount(window, "60")
    QTest.mouseClick(window.draft.form.fold.button, LEFT)
    retype(named(window, QDoubleSpinBox, "Max sparsity").lineEdit(), "0.9")
    yield from add_step(window)
    tabs = named(window, QTabWidget, "Views of the parameter")
    for view in range(tabs.count()):
        tabs.setCurrentIndex(view)
        yield lambda: window.views.current.picture() is not None
    window.menu_actions["undo"].trigger()
    yield lambda: len(bench.resolved.recipe.steps) == 1
    window.menu_actions["redo"].trigger()
    yield lambda: len(bench.resolved.recipe.steps) == 2
    for form in ("finalized", "reparametrized"):
        yield from save(window, f"{folder}/{form}.safetensors", form)
    for copied in COPIES:
        QGuiApplication.clipboard().clear()
        window.menu_actions[f"copy_{copied}"].trigger()
        yield QGuiApplication.clipboard().text
        Path(folder, copied).write_text(QGuiApplication.clipboard().text())
    yield from choose_method(window, "Random unstructured")
    yield from add_step(window)
    journal = window.recovery.journal._path
    yield lambda: journal.exists() and "random_unstructured" in journal.read_text()
    os.kill(os.getpid(), signal.SIGKILL)


def restore_and_save(window: MainWindow, folder: str) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: box_with("was not closed normally")
    press("Restore")
    yield lambda: bench.session is not None and len(bench.session.steps) == 3
    window.stack.list.setCurrentIndex(window.stack.list.model().index(2, 0))
    window.menu_actions["remove"].trigger()
    yield lambda: bench.resolved is not None and len(bench.resolved.recipe.steps) == 2
    yield from save(window, f"{folder}/again.safetensors", "finalized")
    window.close()


def main(command: str, *arguments: str) -> None:
    show_event = MainWindow.showEvent
    checkpoint = Path(arguments[0]) if command == "work" else None

    def show(window: MainWindow, event: object) -> None:
        show_event(window, event)
        Robot(
            window,
            work(window, *arguments[1:]) if checkpoint else restore_and_save(window, *arguments),
        )

    MainWindow.showEvent = show
    sys.exit(run(checkpoint, None))


if __name__ == "__main__":
    main(*sys.argv[1:])
