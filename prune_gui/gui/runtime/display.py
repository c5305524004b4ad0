"""Whether a window can be opened here."""

from __future__ import annotations

import os
import subprocess
import sys


def display_problem() -> str | None:
    """Return why no window can be opened, in a sentence; None if one can.

    Qt ends the process when it finds no display, so another process tries.
    """
    chosen = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}
    if sys.platform == "linux" and not chosen & os.environ.keys():
        return "this machine has no display."
    program = "from PySide6.QtWidgets import QApplication; QApplication([])"
    trial = subprocess.run(  # -P: without the working folder on the import path
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    if trial.returncode == 0:
        return None
    said = trial.stderr.strip().splitlines()
    return said[0] if said else "Qt cannot open one."
