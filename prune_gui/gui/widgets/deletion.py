"""When Qt deletes a window."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

Window = TypeVar("Window", bound=QWidget)


def deleted_on_close(window: Window) -> Window:
    """Let Qt delete a window when it is closed, and return the window."""
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return window
