"""A person at the real program: a script that `test_window.py` runs in another process.

``python use_window.py CHECKPOINT TARGETS SCOPE AMOUNT OUT FORM`` opens the checkpoint, types the
targets, picks the scope, sets the amount, adds the step, saves from the dialog, and closes the
window. What is done is done by key and mouse events to the widgets that a person would use.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NoReturn

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QPushButton, QRadioButton, QWidget

from prune_gui.gui.app import run
from prune_gui.gui.dialogs.save import SaveDialog
from prune_gui.gui.window import MainWindow

PATIENCE_MS = 60_000
LEFT = Qt.MouseButton.LeftButton

Ready = Callable[[], object]


class Person(QObject):
    """Does one thing after another, each as soon as the program is ready for it."""

    def __init__(self, window: MainWindow, acts: Generator[Ready]) -> None:
        super().__init__(window)
        self._acts = acts
        self._ready: Ready = lambda: True
        self._look = QTimer(self, interval=10)
        self._look.timeout.connect(self._go_on)
        self._look.start()
        QTimer.singleShot(PATIENCE_MS, self, self._lose_patience)

    def _go_on(self) -> None:
        try:
            if self._ready():
                self._ready = next(self._acts, lambda: False)
        except BaseException:  # noqa: BLE001 - a failed assertion, most likely
            give_up(traceback.format_exc())

    def _lose_patience(self) -> None:
        inner = self._acts
        while inner.gi_yieldfrom is not None:
            inner = inner.gi_yieldfrom
        frame = inner.gi_frame
        give_up(f"still waiting in line {frame.f_lineno} of {frame.f_code.co_filename}")


def give_up(reason: str) -> NoReturn:
    """End the program at once, whatever it is doing."""
    sys.stderr.write(reason)
    sys.stderr.flush()
    os._exit(1)


def named(parent: QWidget, kind: type, name: str) -> QWidget:
    """Find a widget that can be seen by the name that a screen reader says."""
    found = [
        widget
        for widget in parent.findChildren(kind)
        if name in (widget.accessibleName(), widget.text() if hasattr(widget, "text") else "")
        and widget.isVisible()
    ]
    assert len(found) == 1, f"{len(found)} widgets are named {name!r}"
    return found[0]


def retype(line: QLineEdit, text: str) -> None:
    line.selectAll()
    QTest.keyClicks(line, text)
    QTest.keyClick(line, Qt.Key.Key_Return)


def pick(box: QComboBox, beginning: str) -> None:
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Home)
    for _ in range(box.findText(beginning, Qt.MatchFlag.MatchStartsWith)):
        QTest.keyClick(box, Qt.Key.Key_Down)


def set_amount(window: MainWindow, percent: str) -> None:
    [line] = [
        line
        for line in window.draft.form.findChildren(QLineEdit)
        if line.parent().accessibleName().startswith("Amount")
    ]
    retype(line, percent)


def add_step(window: MainWindow) -> Iterator[Ready]:
    """Add the step in the form, and wait until it is worked out."""
    bench = window.workbench
    steps = len(bench.session.steps)
    yield window.draft.commit.isEnabled
    QTest.mouseClick(window.draft.commit, LEFT)
    yield lambda: len(bench.resolved.recipe.steps) == steps + 1 and bench.draft is None


def save(window: MainWindow, out: str, form: str) -> Iterator[Ready]:
    """Save the pruned checkpoint from the dialog, and wait until that is done."""
    QTimer.singleShot(0, window.acts["save_checkpoint"].trigger)
    yield lambda: isinstance(QApplication.activeModalWidget(), SaveDialog)
    dialog = QApplication.activeModalWidget()
    [choice] = [
        button for button in dialog.findChildren(QRadioButton) if form in button.text().lower()
    ]
    choice.setFocus()
    yield choice.hasFocus  # until then, keys belong to the window behind
    QTest.keyClick(choice, Qt.Key.Key_Space)
    line = named(dialog, QLineEdit, "File or folder to save to")
    line.selectAll()
    QTest.keyClicks(line, out)
    [press] = [b for b in dialog.findChildren(QPushButton) if "save" in b.text().lower()]
    QTest.mouseClick(press, LEFT)
    yield lambda: not window.workbench.session.unsaved and Path(out).exists()


def acts(
    window: MainWindow, targets: str, scope: str, amount: str, out: str, form: str
) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: bench.resolved is not None
    retype(window.draft.targets.line, targets)
    pick(named(window, QComboBox, "Scope"), scope)
    set_amount(window, amount)
    yield from add_step(window)
    yield from save(window, out, form)
    window.close()


def main(checkpoint: str, *wishes: str) -> None:
    shown = MainWindow.showEvent

    def show(window: MainWindow, event: object) -> None:
        shown(window, event)
        Person(window, acts(window, *wishes))

    MainWindow.showEvent = show
    sys.exit(run(Path(checkpoint), None))


if __name__ == "__main__":
    main(*sys.argv[1:])
