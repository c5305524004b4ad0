"""A user session with the real program: a script that `test_window.py` runs in another process.

``python use_window.py CHECKPOINT TARGETS SCOPE AMOUNT OUT FORM`` opens the checkpoint, types the
targets, picks the scope, sets the amount, adds the step, saves from the dialog, and closes the
window. It sends key and mouse events to the widgets that a user would use.
"""

import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NoReturn

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QDialogButtonBox,
    QLineEdit,
    QRadioButton,
    QWidget,
)

from prune_gui.gui.app import run
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.gui.window import MainWindow

TIMEOUT_MS = 60_000
LEFT = Qt.MouseButton.LeftButton

Ready = Callable[[], object]


class Robot(QObject):
    """Performs actions in order, each as soon as the condition that the last one yielded holds.

    The process ends if a condition does not hold within `TIMEOUT_MS`.
    """

    def __init__(self, window: MainWindow, actions: Generator[Ready]) -> None:
        super().__init__(window)
        self._actions = actions
        self._ready: Ready = lambda: True
        self._timer = QTimer(self, interval=10)
        self._timer.timeout.connect(self._advance)
        self._timer.start()
        self._limit = QTimer(self, singleShot=True, interval=TIMEOUT_MS)
        self._limit.timeout.connect(self._time_out)
        self._limit.start()

    def _advance(self) -> None:
        try:
            if self._ready():
                self._ready = next(self._actions, lambda: False)
                self._limit.start()
        except BaseException:  # noqa: BLE001 - a failed assertion as well
            give_up(traceback.format_exc())

    def _time_out(self) -> None:
        inner = self._actions
        while inner.gi_yieldfrom is not None:
            inner = inner.gi_yieldfrom
        frame = inner.gi_frame
        give_up(f"still waiting in line {frame.f_lineno} of {frame.f_code.co_filename}")


def give_up(reason: str) -> NoReturn:
    """End the process at once with exit code 1."""
    sys.stderr.write(reason)
    sys.stderr.flush()
    os._exit(1)


def named(parent: QWidget, kind: type, name: str) -> QWidget:
    """Return the visible widget with this accessible name or text."""
    matches = [
        widget
        for widget in parent.findChildren(kind)
        if name in (widget.accessibleName(), widget.text() if hasattr(widget, "text") else "")
        and widget.isVisible()
    ]
    assert len(matches) == 1, f"{len(matches)} widgets are named {name!r}"
    return matches[0]


def retype(line: QLineEdit, text: str) -> None:
    line.selectAll()
    QTest.keyClicks(line, text)
    QTest.keyClick(line, Qt.Key.Key_Return)


def pick(box: QComboBox, beginning: str) -> None:
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Home)
    model, row = box.model(), box.findText(beginning, Qt.MatchFlag.MatchStartsWith)
    enabled = [bool(model.flags(model.index(i, 0)) & Qt.ItemFlag.ItemIsEnabled) for i in range(row)]
    for _ in range(sum(enabled)):  # keys skip the others
        QTest.keyClick(box, Qt.Key.Key_Down)


def set_amount(window: MainWindow, percent: str) -> None:
    [line] = [
        line
        for line in window.draft.form.findChildren(QLineEdit)
        if line.parent().accessibleName().startswith("Amount")
    ]
    retype(line, percent)


def add_step(window: MainWindow) -> Iterator[Ready]:
    """Add the step in the form, and wait until it is resolved."""
    bench = window.workbench
    steps = len(bench.session.steps)
    yield lambda: not window.draft.obstacle
    QTest.mouseClick(window.draft.commit, LEFT)
    yield lambda: len(bench.resolved.recipe.steps) == steps + 1 and bench.draft.current is None


def save(window: MainWindow, out: str, form: str) -> Iterator[Ready]:
    """Save the pruned checkpoint from the dialog, and wait until it is written."""
    QTimer.singleShot(0, window.menu_actions["save_checkpoint"].trigger)
    yield lambda: isinstance(QApplication.activeModalWidget(), SaveDialog)
    dialog = QApplication.activeModalWidget()
    [choice] = [
        button for button in dialog.findChildren(QRadioButton) if form in button.text().lower()
    ]
    choice.setFocus()
    yield choice.hasFocus  # until then, the window behind receives the keys
    QTest.keyClick(choice, Qt.Key.Key_Space)
    line = named(dialog, QLineEdit, "File or folder to save to")
    line.selectAll()
    QTest.keyClicks(line, out)
    save_button = dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Save)
    QTest.mouseClick(save_button, LEFT)
    yield lambda: not window.workbench.session.unsaved and Path(out).exists()


def actions(
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


def run_robot(checkpoint: str, script: Callable[[MainWindow], Generator[Ready]]) -> NoReturn:
    """Run the program on a checkpoint; a robot performs the actions of `script` in its window."""
    show_event = MainWindow.showEvent

    def show(window: MainWindow, event: object) -> None:
        show_event(window, event)
        Robot(window, script(window))

    MainWindow.showEvent = show
    sys.exit(run(Path(checkpoint), None))


def main(checkpoint: str, *arguments: str) -> None:
    run_robot(checkpoint, lambda window: actions(window, *arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
