"""A user session that ends in a crash, and the next one: a script that `test_crash.py` runs.

``python leave_window.py kill CHECKPOINT`` adds a step and, once the journal holds it, kills the
process; ``... crash CHECKPOINT`` ends it with SIGSEGV. ``... return`` restores the steps that the
next start offers, copies the report of the last crash if there is one, and prints the result.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox
from use_window import LEFT, Ready, Robot, retype

from prune_gui.gui.app import run
from prune_gui.gui.window import MainWindow


def add_step_and_die(window: MainWindow, by: signal.Signals) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: bench.resolved is not None
    retype(window.draft.targets.line, "*.weight")
    yield lambda: not window.draft.obstacle
    QTest.mouseClick(window.draft.commit, LEFT)
    yield window.recovery.journal._path.exists
    os.kill(os.getpid(), by)


def box_with(text: str) -> bool:
    box = QApplication.activeModalWidget()
    return isinstance(box, QMessageBox) and text in box.text()


def press(text: str) -> None:
    """Press a button of the open message box."""
    box = QApplication.activeModalWidget()
    [button] = [b for b in box.buttons() if b.text().replace("&", "") == text]
    QTest.mouseClick(button, LEFT)


def restore(window: MainWindow) -> Iterator[Ready]:
    bench = window.workbench
    yield lambda: box_with("was not closed normally")
    press("Restore")
    yield lambda: bench.session is not None and bench.session.steps
    [step] = bench.session.steps
    checkpoint, [targets] = bench.session.checkpoint, step.targets
    sys.stdout.write(f"{checkpoint.path.name} {targets} {bench.session.unsaved}\n")
    if window.menu_actions["last_crash"].isEnabled():
        QTimer.singleShot(0, window.menu_actions["last_crash"].trigger)
        yield lambda: box_with("crashed at")
        press("Copy")
        yield QGuiApplication.clipboard().text
        sys.stdout.write(QGuiApplication.clipboard().text().splitlines()[0] + "\n")
    QTimer.singleShot(0, window.close)
    yield lambda: box_with("not saved")
    press("Don't Save" if sys.platform == "darwin" else "Discard")


def main(command: str, checkpoint: str = "") -> None:
    show_event = MainWindow.showEvent

    def show(window: MainWindow, event: object) -> None:
        show_event(window, event)
        deaths = {"kill": signal.SIGKILL, "crash": signal.SIGSEGV}
        actions = (
            add_step_and_die(window, deaths[command]) if command in deaths else restore(window)
        )
        Robot(window, actions)

    MainWindow.showEvent = show
    sys.exit(run(Path(checkpoint) if checkpoint else None, None))


if __name__ == "__main__":
    main(*sys.argv[1:])
