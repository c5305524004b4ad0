"""Time until the window is painted, and its longest pause from then on.

Usage: ``python benchmarks/startup.py [ROUNDS]``. Each start is a process of its own; the clock
starts before the process. The program is started without a checkpoint and with that of the demo,
beside an empty window of the same libraries: a `QMainWindow` around a `PlotWidget`. They take
turns. The first start of each is not counted: it compiles the modules, as an installer does, and
fills the file cache of the system.

Then the program is started `IDLE_STARTS` more times and left idle until its engine has finished:
all libraries are loaded, all kernels compiled, the view in front is made, and with the demo a mask
is shown. A timer of 1 ms beats from the first paint on; the longest time between two beats is the
longest pause of the window.
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

from measuring import HEADINGS, Figure, seconds, table_row

ROUNDS: Final = 9
IDLE_STARTS: Final = 3
"""Number of starts after which the program is left idle."""
MAX_RATIO: Final = 1.5
"""Maximum ratio of the start of the program to that of the empty window."""
MAX_PAUSE_S: Final = 0.05
"""Maximum pause of the window."""

HOOK: Final = """
import json, os, time
from PySide6.QtCore import QEvent, QObject, QTimer
def report(**figures):
    print(json.dumps(figures), flush=True)
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
    report(painted=time.monotonic())
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
import gc
gc.disable()  # as `prune_gui.cli.launching` does before it imports the window
from prune_gui.gui.runtime.qt_import import import_qt
import_qt()
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
IDLE: Final = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from window import SETTLE_MS, PauseMeter
from prune_gui.engine import Job
{HOOK}
def painted():
    pause_meter, [window] = PauseMeter(), windows
    def end(_):
        QTimer.singleShot(SETTLE_MS, lambda: report(longest=pause_meter.longest))
    def wait_for_the_engine():
        last = Job("The last", lambda _: None, idle=True)
        window.workbench.bridge.run(last, end, lambda error: os._exit(1))
    window.workbench.ready.connect(lambda: QTimer.singleShot(0, wait_for_the_engine))
{SHOW}
"""
TIMEOUT_S: Final = 60
"""Time after which a start has failed."""


def start(script: str, *arguments: str) -> dict[str, float]:
    """Run a script in a new process and return the figures that it prints."""
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
    )
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def until_painted(script: str, *arguments: str) -> float:
    """Return the seconds until a script has painted its window."""
    start_time = time.monotonic()
    return start(script, *arguments)["painted"] - start_time


def main() -> int:
    """Measure and print; return 1 if a promise is broken, else 0."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    demo = Path(__file__).parents[1] / "resources" / "demo" / "digits_cnn.safetensors"
    opened = {"nothing": (), "the demo": (str(demo),)}
    starts = ((EMPTY,), *((PROGRAM, *paths) for paths in opened.values()))
    durations: list[list[float]] = [[] for _ in starts]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory() as folder:
        os.environ |= {f"XDG_{name}_HOME": folder for name in ("CONFIG", "STATE", "DATA")}
        for round_number in range(rounds + 1):
            for counted, script in zip(durations, starts, strict=True):
                duration = until_painted(*script)
                if round_number:
                    counted.append(duration)
        pauses = [
            median(start(IDLE, *paths)["longest"] for _ in range(IDLE_STARTS))
            for paths in opened.values()
        ]
    empty, *ours = map(median, durations)
    print(table_row([heading.replace("torch", "empty") for heading in HEADINGS]))
    all_held = True
    for title, here in zip(opened, ours, strict=True):
        ratio = here / empty
        figure = Figure(
            f"start with {title} until the window is painted",
            seconds(here),
            seconds(empty),
            f"{ratio:.2f} x",
            f"<= {MAX_RATIO:g} x",
            ratio <= MAX_RATIO,
        )
        print(figure, flush=True)
        all_held &= ratio <= MAX_RATIO
    for title, pause in zip(opened, pauses, strict=True):
        held = pause <= MAX_PAUSE_S
        wanted = f"<= {seconds(MAX_PAUSE_S)}"
        work = f"start with {title}, longest pause until all is loaded"
        print(Figure(work, seconds(pause), wanted=wanted, held=held), flush=True)
        all_held &= held
    return 0 if all_held else 1


if __name__ == "__main__":
    sys.exit(main())
