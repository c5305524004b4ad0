"""A window with a pruned checkpoint, and its dialog of figures."""

from __future__ import annotations

import pytest
from pages import is_idle

from prune_gui.gui.dialogs import questions
from prune_gui.gui.figures.dialog import FigureDialog
from prune_gui.gui.views.view import View


@pytest.fixture
def pruned(demo_window, workbench, make_step, settle, qtbot):
    """A window with the demo and one step, showing the second convolution."""
    workbench.choose("features.conv2.weight")
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    settle()
    return demo_window


@pytest.fixture
def look_at(pruned, qtbot):
    """Return a function that shows a view and waits for its picture."""

    def bring(view: View) -> View:
        pruned.views._tabs.setCurrentWidget(view)
        bench = pruned.workbench
        qtbot.waitUntil(lambda: view.picture() is not None and is_idle(bench), timeout=60_000)
        return view

    return bring


@pytest.fixture
def open_dialog(pruned, qtbot):
    """Return a function that opens the dialog, and waits until it offers the ready layouts."""

    def open_it() -> FigureDialog:
        pruned.menu_actions["export_figure"].trigger()
        dialog = pruned.findChildren(FigureDialog)[-1]
        qtbot.waitUntil(lambda: offered(dialog) > 2 and not dialog.preview.pixmap().isNull())
        return dialog

    return open_it


def offered(dialog: FigureDialog) -> int:
    return dialog.fields["layout"].count()


@pytest.fixture
def export_to(monkeypatch, qtbot, pruned):
    """Return a function that exports what a dialog shows to a path."""

    def export(dialog: FigureDialog, path) -> None:
        monkeypatch.setattr(questions, "ask_target", lambda *_: path)
        dialog.export.click()
        qtbot.waitUntil(lambda: dialog.note.isVisible(), timeout=60_000)

    return export
