"""How long it takes until the window is painted, beside an empty window of the same libraries.

Run it as ``python benchmarks/startup.py [ROUNDS]``. Each start is a process of its own, and the
clock runs from before it is made. The empty window is a `QMainWindow` around a `PlotWidget`; the
program is started without a checkpoint, and with the one of the demo. They take turns, after one
start of each that is not counted: it compiles the modules, as an installer does, and puts the files
into the memory of the system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from measuring import HEADINGS, Figure, laid_out, seconds

ROUNDS: Final = 9
TIMES: Final = 1.5
"""How many times as long as the empty window the program may take."""

HOOK: Final = """
import os, time
from PySide6.QtCore import QEvent, QObject, QTimer
def say():
    print(time.monotonic(), flush=True)
    os._exit(0)
class FirstPaint(QObject):
    def eventFilter(self, window, event):
        if event.type() == QEvent.Type.Expose:
            QTimer.singleShot(0, say)  # all of the window is painted by then
        return False
first = FirstPaint()
"""
EMPTY: Final = f"""
import sys
from PySide6.QtWidgets import QApplication, QMainWindow
import pyqtgraph as pg
{HOOK}
app = QApplication(sys.argv[:1])
window = QMainWindow()
window.setCentralWidget(pg.PlotWidget())
window.resize(1440, 900)
window.show()
window.windowHandle().installEventFilter(first)
app.exec()
"""
PROGRAM: Final = f"""
from prune_gui.gui.window import MainWindow
{HOOK}
shown = MainWindow.showEvent
def show(window, event):
    shown(window, event)
    window.windowHandle().installEventFilter(first)
MainWindow.showEvent = show
from prune_gui.cli import main
main()
"""
PATIENCE: Final = 60
"""Seconds after which a start has failed."""


def start(script: str, *arguments: str) -> float:
    """Return the seconds until a script has painted its window."""
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    return float(run.stdout) - began


def main() -> int:
    """Measure, print, and return whether the promise is broken."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    demo = Path(__file__).parents[1] / "resources" / "demo" / "digits_cnn.safetensors"
    starts = ((EMPTY,), (PROGRAM,), (PROGRAM, str(demo)))
    took: list[list[float]] = [[] for _ in starts]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory() as folder:
        os.environ |= {f"XDG_{name}_HOME": folder for name in ("CONFIG", "STATE", "DATA")}
        for counted in range(rounds + 1):
            for times, one in zip(took, starts, strict=True):
                needed = start(*one)
                if counted:
                    times.append(needed)
    empty, *ours = map(median, took)
    print(laid_out([heading.replace("torch", "empty") for heading in HEADINGS]))
    kept = True
    for what, here in zip(("nothing", "the demo"), ours, strict=True):
        ratio = here / empty
        figure = Figure(
            f"start with {what} until the window is painted",
            seconds(here),
            seconds(empty),
            f"{ratio:.2f} x",
            f"<= {TIMES:g} x",
            ratio <= TIMES,
        )
        print(figure, flush=True)
        kept &= ratio <= TIMES
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
