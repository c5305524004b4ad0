"""Import of Qt, without its slow import function, and whether it can open a window."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys


def import_qt() -> None:
    """Import PySide6, and undo its replacement of Python's import function.

    With it, the import of any module reads the source of the module, to find out whether it uses
    `from __feature__ import`, which this program does not. For torch this takes 0.3 s, and the
    source stays in memory.
    """
    import PySide6.QtCore  # noqa: F401 - replaces the import function

    original = getattr(builtins, "__orig_import__", None)  # PySide6 keeps it here
    if original is not None:
        builtins.__import__ = original


def display_problem() -> str | None:
    """Return the reason why no window can be opened; None if one can.

    Qt ends the process if it finds no display, so a subprocess tries.
    """
    display_variables = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}
    if sys.platform == "linux" and not display_variables & os.environ.keys():
        return "this machine has no display."
    program = "from PySide6 import QtNetwork, QtSvg, QtWidgets; QtWidgets.QApplication([])"
    trial = subprocess.run(  # -P keeps the working folder off the import path
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    if trial.returncode == 0:
        return None
    lines = (line.rstrip(".") for line in trial.stderr.splitlines())
    causes = (line for line in lines if not line.startswith(("Traceback", " ")))
    return f"{next(filter(None, causes), 'Qt cannot open one')}."
