"""Creation of all Qt classes on the GUI thread.

PySide6 creates a class on first use, and crashes if two threads do so at once. The import of
pyqtgraph uses all of them; once they exist, another thread can import it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Final

MODULES: Final = ("QtCore", "QtGui", "QtWidgets", "QtSvg", "QtOpenGLWidgets", "QtTest")
"""PySide6 modules whose classes pyqtgraph uses."""


def make_classes() -> Iterator[str]:
    """Create one class after another, and yield the name of each. Existing classes take no time."""
    for name in MODULES:
        with suppress(ImportError):  # some modules are optional for pyqtgraph
            module = import_module(f"PySide6.{name}")
            for member in dir(module):
                getattr(module, member)
                yield member
