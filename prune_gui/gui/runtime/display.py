"""A check whether this machine can open a window."""

from __future__ import annotations

import os
import subprocess
import sys


def display_problem() -> str | None:
    """Return the reason why no window can be opened; None if one can.

    Qt ends the process if it finds no display, so a subprocess tries.
    """
    display_variables = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}
    if sys.platform == "linux" and not display_variables & os.environ.keys():
        return "this machine has no display."
    program = "from PySide6.QtWidgets import QApplication; QApplication([])"
    trial = subprocess.run(  # -P keeps the working folder off the import path
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    if trial.returncode == 0:
        return None
    error_lines = trial.stderr.strip().splitlines()
    return error_lines[0] if error_lines else "Qt cannot open one."
