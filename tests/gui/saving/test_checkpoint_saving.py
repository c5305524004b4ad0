"""The save dialog of the window, until a file is written or saving is cancelled."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtWidgets import QDialog

from prune_gui.engine import Job
from prune_gui.gui.saving.save_dialog import SaveDialog


@pytest.fixture
def changed(demo_window, workbench, make_step):
    """Return a window with an unsaved recipe."""
    workbench.edit(lambda session: session.add(make_step()))
    return demo_window


def test_the_save_dialog_keeps_its_input_and_explains_an_error_until_the_file_is_written(
    changed, workbench, monkeypatch, qtbot, tmp_path
):
    blocked, free = tmp_path / "file" / "a.safetensors", tmp_path / "b.safetensors"
    blocked.parent.write_bytes(b"not a folder")
    seen = []

    def fill_in(dialog):
        seen.append((dialog._path.text(), dialog.form, dialog._failure.text()))
        dialog._forms.button(2).click()
        dialog._path.setText(str(free if len(seen) > 1 else blocked))
        return QDialog.DialogCode.Accepted

    monkeypatch.setattr(SaveDialog, "exec", fill_in)
    with qtbot.waitSignal(workbench.saved, timeout=60_000):
        changed.menu_actions["save_checkpoint"].trigger()
    (_, _, nothing), (path, form, failure) = seen
    assert nothing == ""
    assert (path, form) == (str(blocked), "masks")
    assert str(blocked.parent) in failure
    assert free.exists()


def test_a_cancelled_save_says_so_and_its_dialog_keeps_the_input(
    changed, workbench, monkeypatch, qtbot, tmp_path
):
    paths = []

    def fill_in(dialog):
        paths.append(dialog._path.text())
        dialog._path.setText(str(tmp_path / "out.safetensors"))
        return QDialog.DialogCode.Accepted if len(paths) == 1 else QDialog.DialogCode.Rejected

    monkeypatch.setattr(SaveDialog, "exec", fill_in)
    started = threading.Event()
    blocker = workbench.bridge.run(Job("Waiting", lambda _: started.wait(60)), lambda _: None)
    changed.menu_actions["save_checkpoint"].trigger()
    with qtbot.waitSignal(workbench.noted) as noted:
        changed.commands.saving.cancel()
    assert noted.args == ["Saving was cancelled; no file was changed."]
    started.set()
    qtbot.waitUntil(lambda: not workbench.bridge.waits_for(blocker))
    assert not (tmp_path / "out.safetensors").exists()
    changed.menu_actions["save_checkpoint"].trigger()
    assert paths[1] == str(tmp_path / "out.safetensors")
