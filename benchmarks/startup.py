"""How long it takes until the window is painted, and how long it ever stands still from then on.

Run it as ``python benchmarks/startup.py [ROUNDS]``. Each start is a process of its own, and the
clock runs from before it is made. The program is started without a checkpoint, and with the one of
the demo, beside an empty window of the same libraries: a `QMainWindow` around a `PlotWidget`. They
take turns, after one start of each that is not counted: it compiles the modules, as an installer
does, and puts the files into the memory of the system.

Then the program is started some more times and left alone until its engine has nothing to do: all
libraries are loaded, all loops compiled, all views made, and with the demo a mask is shown. A timer
of 1 ms beats from the first paint on; the longest time between two beats is how long the window
stood still.
"""

from __future__ import annotations

import json
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
LIVES: Final = 3
"""How often the program is left alone."""
TIMES: Final = 1.5
"""How many times as long as the empty window the program may take."""
STOP: Final = 0.05
"""Seconds for which the window may stand still."""

HOOK: Final = """
import json, os, time
from PySide6.QtCore import QEvent, QObject, QTimer
def say(**found):
    print(json.dumps(found), flush=True)
    os._exit(0)
class FirstPaint(QObject):
    def eventFilter(self, window, event):
        if event.type() == QEvent.Type.Expose:
            window.removeEventFilter(self)
            QTimer.singleShot(0, painted)  # all of the window is painted by then
        return False
first = FirstPaint()
"""
PAINTED: Final = """
def painted():
    say(painted=time.monotonic())
"""
EMPTY: Final = f"""
import sys
from PySide6.QtWidgets import QApplication, QMainWindow
import pyqtgraph as pg
{HOOK}{PAINTED}
app = QApplication(sys.argv[:1])
window = QMainWindow()
window.setCentralWidget(pg.PlotWidget())
window.resize(1440, 900)
window.show()
window.windowHandle().installEventFilter(first)
app.exec()
"""
SHOW: Final = """
from prune_gui.gui.window import MainWindow
shown, windows = MainWindow.showEvent, []
def show(window, event):
    shown(window, event)
    windows.append(window)
    window.windowHandle().installEventFilter(first)
MainWindow.showEvent = show
from prune_gui.cli import main
main()
"""
PROGRAM: Final = HOOK + PAINTED + SHOW
ALIVE: Final = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from window import AFTERWARDS, Heart
from prune_gui.worker import Job
{HOOK}
def painted():
    heart, [window] = Heart(), windows
    def end(_):
        QTimer.singleShot(AFTERWARDS, lambda: say(longest=heart.longest))
    def wait_for_the_engine():
        last = Job("The last", lambda _: None, idle=True)
        window.workbench.bridge.run(last, end, lambda error: os._exit(1))
    window.workbench.ready.connect(lambda: QTimer.singleShot(0, wait_for_the_engine))
{SHOW}
"""
PATIENCE: Final = 60
"""Seconds after which a start has failed."""


def start(script: str, *arguments: str) -> dict[str, float]:
    """Return what a script finds."""
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    found: dict[str, float] = json.loads(run.stdout)
    return found


def until_painted(script: str, *arguments: str) -> float:
    """Return the seconds until a script has painted its window."""
    began = time.monotonic()
    return start(script, *arguments)["painted"] - began


def main() -> int:
    """Measure, print, and return whether the promise is broken."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    demo = Path(__file__).parents[1] / "resources" / "demo" / "digits_cnn.safetensors"
    opened = {"nothing": (), "the demo": (str(demo),)}
    starts = ((EMPTY,), *((PROGRAM, *paths) for paths in opened.values()))
    took: list[list[float]] = [[] for _ in starts]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory() as folder:
        os.environ |= {f"XDG_{name}_HOME": folder for name in ("CONFIG", "STATE", "DATA")}
        for counted in range(rounds + 1):
            for times, one in zip(took, starts, strict=True):
                needed = until_painted(*one)
                if counted:
                    times.append(needed)
        stops = [
            median(start(ALIVE, *paths)["longest"] for _ in range(LIVES))
            for paths in opened.values()
        ]
    empty, *ours = map(median, took)
    print(laid_out([heading.replace("torch", "empty") for heading in HEADINGS]))
    kept = True
    for what, here in zip(opened, ours, strict=True):
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
    for what, stop in zip(opened, stops, strict=True):
        held = stop <= STOP
        wanted = f"<= {seconds(STOP)}"
        work = f"start with {what}, longest pause until all is loaded"
        print(Figure(work, seconds(stop), wanted=wanted, held=held), flush=True)
        kept &= held
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
