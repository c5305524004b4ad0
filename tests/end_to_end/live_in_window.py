"""A person's day at the program: a script that `test_day.py` runs.

``python live_in_window.py work CHECKPOINT FILTER REST FOLDER`` prunes 2:4 what the filter finds,
and the rest globally to 60 %, no layer above 90 %; looks at every view, undoes, redoes, saves two
forms into the folder, copies the stack in three ways, and is killed with a step more than it saved;
``... return FOLDER`` takes the steps back, removes that one, and saves again.
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
from PySide6.QtWidgets import QComboBox, QLineEdit, QTabWidget
from use_window import Person, Ready, add_step, named, pick, retype, save, set_amount

from prune_gui.gui.app import run
from prune_gui.gui.window import MainWindow

CONTROL = Qt.KeyboardModifier.ControlModifier
COPIES = ("recipe", "command", "script")


def choose_method(window: MainWindow, title: str) -> Iterator[Ready]:
    pick(named(window, QComboBox, "Method"), title)
    yield window.draft.form.inputs[0].isVisible


def work(window: MainWindow, sought: str, rest: str, folder: str) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: bench.resolved is not None
    QTest.keyClicks(window.tree.filter, sought)
    tree = window.tree.tree
    yield lambda: tree.model().rowCount() > 0
    tree.setFocus()
    QTest.keyClick(tree, Qt.Key.Key_A, CONTROL)
    yield lambda: window.draft.targets.line.text() not in ("", "*")
    yield from choose_method(window, "n:m")
    yield from add_step(window)
    window.tree.filter.clear()
    yield from choose_method(window, "L1")
    pick(named(window, QComboBox, "Scope"), "global")
    retype(window.draft.targets.line, rest)
    set_amount(window, "60")
    retype(named(window, QLineEdit, "Max sparsity"), "0.9")
    yield from add_step(window)
    tabs = named(window, QTabWidget, "Views of the parameter")
    for view in range(tabs.count()):
        tabs.setCurrentIndex(view)
        yield lambda: window.views.current.picture() is not None
    window.acts["undo"].trigger()
    yield lambda: len(bench.resolved.recipe.steps) == 1
    window.acts["redo"].trigger()
    yield lambda: len(bench.resolved.recipe.steps) == 2
    for form in ("finalized", "reparametrized"):
        yield from save(window, f"{folder}/{form}.safetensors", form)
    for what in COPIES:
        QGuiApplication.clipboard().clear()
        window.acts[f"copy_{what}"].trigger()
        yield QGuiApplication.clipboard().text
        Path(folder, what).write_text(QGuiApplication.clipboard().text())
    yield from choose_method(window, "Random unstructured")
    yield from add_step(window)
    kept = window.recovery.journal._path
    yield lambda: kept.exists() and "random_unstructured" in kept.read_text()
    os.kill(os.getpid(), signal.SIGKILL)


def come_back(window: MainWindow, folder: str) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: box_with("ended without being closed")
    press("Bring back")
    yield lambda: bench.session is not None and len(bench.session.steps) == 3
    window.stack.list.setCurrentIndex(window.stack.list.model().index(2, 0))
    window.acts["remove"].trigger()
    yield lambda: bench.resolved is not None and len(bench.resolved.recipe.steps) == 2
    yield from save(window, f"{folder}/again.safetensors", "finalized")
    window.close()


def main(what: str, *arguments: str) -> None:
    shown = MainWindow.showEvent
    checkpoint = Path(arguments[0]) if what == "work" else None

    def show(window: MainWindow, event: object) -> None:
        shown(window, event)
        Person(
            window, work(window, *arguments[1:]) if checkpoint else come_back(window, *arguments)
        )

    MainWindow.showEvent = show
    sys.exit(run(checkpoint, None))


if __name__ == "__main__":
    main(*sys.argv[1:])
