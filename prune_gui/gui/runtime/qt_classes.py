"""The classes of Qt, made ahead of need on the window's thread.

PySide6 makes a class when somebody first asks for it, and dies if two threads ask at once. To
import pyqtgraph is to ask for all of them; once they are made, another thread may do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Final

MODULES: Final = ("QtCore", "QtGui", "QtWidgets", "QtSvg", "QtOpenGLWidgets", "QtTest")
"""Those of which pyqtgraph takes classes."""


def make_classes() -> Iterator[str]:
    """Make one class after another, and yield the name of each; those there are take no time."""
    for name in MODULES:
        with suppress(ImportError):  # pyqtgraph can do without some
            module = import_module(f"PySide6.{name}")
            for member in dir(module):
                getattr(module, member)
                yield member
