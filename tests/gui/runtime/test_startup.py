"""The callback after the first paint of a window."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget

from prune_gui.gui.runtime import startup
from prune_gui.gui.runtime.startup import FirstPaint, run_sliced


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


def test_other_timers_fire_between_two_parts(qtbot, monkeypatch):
    monkeypatch.setattr(startup, "SLICE_S", 0.0)
    done = []
    parent, beat = QObject(), QTimer(interval=0)
    beat.timeout.connect(lambda: done.append("beat"))
    beat.start()
    run_sliced((done.append(part) for part in range(3)), parent, lambda: done.append("end"))
    qtbot.waitUntil(lambda: "end" in done)
    beat.stop()
    parts = [done.index(part) for part in (0, 1, 2, "end")]
    assert parts == sorted(parts)
    assert all("beat" in done[a:b] for a, b in pairwise(parts))


def test_work_stops_when_its_parent_is_deleted(qtbot):
    done = []
    parent = QObject()
    run_sliced((done.append(part) for part in range(3)), parent, lambda: done.append("end"))
    parent.deleteLater()
    qtbot.waitSignal(parent.destroyed).wait()
    assert done == []


CODE = """
import sys, threading
from prune_gui.gui.runtime.startup import make_classes
assert "pyqtgraph" not in sys.modules
made = {name for name in make_classes()}
from PySide6 import QtCore, QtGui, QtWidgets
modules = (QtCore, QtGui, QtWidgets)
there = [set(vars(module)) for module in modules]
importing = threading.Thread(target=__import__, args=("pyqtgraph",))
importing.start()
importing.join()
new = [set(vars(module)) - before for module, before in zip(modules, there)]
print({"QObject", "QPainterPath", "QGraphicsWidget"} <= made, new)
"""


def test_importing_pyqtgraph_creates_no_further_class():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stdout) == (0, "True [set(), set(), set()]\n"), done.stderr


PROGRAM = """
import linecache
from prune_gui.gui.runtime.qt_import import import_qt
import_qt()
from PySide6.QtWidgets import QApplication, QLabel
import tarfile
app = QApplication([])
print(QLabel("shown").text(), tarfile.__file__ in linecache.cache)
"""


def test_the_source_of_imported_modules_is_not_read():
    for program, was_read in ((PROGRAM, False), (PROGRAM.replace("import_qt()\n", ""), True)):
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert process.stdout == f"shown {was_read}\n"
