"""Import of Qt without its slow import function."""

from __future__ import annotations

import builtins


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
