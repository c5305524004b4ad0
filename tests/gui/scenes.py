"""What a window asks and opens, for tests that look at all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox

from prune_gui.gui.dialogs import questions, recovery
from prune_gui.gui.dialogs.help import show_crash
from prune_gui.gui.saving import output_boxes
from prune_gui.gui.window import MainWindow
from prune_gui.language import tr
from prune_gui.session import Crash
from prune_gui.session.kept_recipes import Unsaved

DIALOGS = ("settings", "sweep", "batch", "report", "reconstruct")
"""Actions that open dialogs with inputs."""


def answer(look):
    """Return a replacement of `QMessageBox.exec` that passes each box to `look`."""

    def exec_(box: QMessageBox) -> int:
        look(box)
        return QMessageBox.StandardButton.Cancel.value

    return exec_


def ask_all(window: MainWindow, file: Path) -> None:
    """Ask every question about a file."""
    questions.agree_to_run(window, file)
    questions.ask_use_masks(window, file, "b.pt")
    questions.ask_unsaved(
        window, file.name, tr("The draft is not added to the stack, and is not saved.")
    )
    questions.agree_to_drop_draft(
        window, tr("The draft is not added to the stack, and is not saved.")
    )
    questions.ask_cancel_saving(window)
    questions.show_remarks(window, file.name, ())
    show_crash(window, Crash("Where.", datetime(2026, 11, 21, 18, 5)))
    output_boxes.sure_to_replace(window, [file], file)
    output_boxes.sure_to_replace(window, [file, Path("/tmp/b.pt")], Path("/tmp/c.pt"))
    fields = {"recipe": "", "folder": Path(), "written": 0.0, "process": (1, 0.0)}
    recovery._ask(window, Unsaved(checkpoint=file, **fields))


@contextmanager
def opened(window: MainWindow, action: str) -> Iterator[QObject]:
    """Trigger an action, and close what it opens afterwards."""
    before = set(window.children())
    window.menu_actions[action].trigger()
    (found,) = set(window.children()) - before
    yield found
    found.close()
