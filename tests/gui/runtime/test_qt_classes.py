"""Creation of all Qt classes."""

from __future__ import annotations

import subprocess
import sys

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
