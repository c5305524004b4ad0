import threading

import pytest

from prune_gui import open_checkpoint
from prune_gui.gui.dialogs import batch, questions
from prune_gui.gui.dialogs.batch import BatchDialog
from prune_gui.recipe.output import OutputOptions
from prune_gui.session.changes import OPENED


@pytest.fixture
def dialog(demo_window, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step(amount=0.5)))
    demo_window.menu_actions["batch"].trigger()
    return demo_window.findChild(BatchDialog)


@pytest.fixture
def files(tmp_path, demo_checkpoint):
    """Three paths: the first and the last are checkpoints, the second is not."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "c"):
        (folder / f"{name}.safetensors").write_bytes(demo_checkpoint.read_bytes())
    (folder / "b.safetensors").write_text("hello")
    return [folder / f"{name}.safetensors" for name in "abc"]


def test_a_failed_checkpoint_does_not_stop_the_others(dialog, qtbot, files, tmp_path):
    dialog.add([files[0].parent, files[1]])
    assert [row.path for row in dialog.model.rows] == files
    assert dialog._problem.text().startswith("The stack is applied")
    dialog.write.setChecked(True)
    assert not dialog.run.isEnabled()
    dialog.folder.setText(str(tmp_path))
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        dialog.run.click()
    assert dialog._problem.text() == "3 of 3 done, 1 of them failed"
    first, bad, last = dialog.model.rows
    assert first.pruned == last.pruned == 11592
    assert first.out == tmp_path / "a-pruned.safetensors"
    assert "b.safetensors" in bad.error
    assert dialog.error.text() == bad.error
    with open_checkpoint(last.out) as pruned:
        assert int((pruned.read("features.conv1.weight") == 0).sum()) == 72


def test_the_options_are_those_of_the_boxes(dialog, files, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(batch, "batch_jobs", lambda *arguments: given.append(arguments) or ())
    dialog.add(files[:1])
    assert not dialog.compressed.isEnabled()
    dialog.write.setChecked(True)
    dialog.folder.setText(str(tmp_path))
    for box in (dialog.overwrite, dialog.compressed, dialog.tensors_only):
        box.click()
    dialog.run.click()
    options = OutputOptions(overwrite=True, compressed=True, tensors_only=True)
    assert [arguments[2:] for arguments in given] == [(tmp_path, options)]


def test_a_folder_is_one_beside_the_open_checkpoint_unless_its_path_is_absolute(dialog, tmp_path):
    dialog._start_folder = tmp_path
    for typed, path in (("pruned", tmp_path / "pruned"), (str(tmp_path / "a"), tmp_path / "a")):
        dialog.folder.setText(typed)
        assert dialog._output == path


def test_nothing_is_written_unless_writing_is_checked(dialog, qtbot, files, tmp_path):
    dialog.add(files[:1])
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        dialog.run.click()
    [row] = dialog.model.rows
    assert (row.targets, row.out, row.error) == (3, None, "")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_problem_is_shown(dialog, workbench, files):
    assert dialog._problem.text().startswith("Add checkpoints")
    dialog.add(files)
    assert dialog.run.isEnabled()
    workbench.edit(lambda session: session.undo())
    assert dialog._problem.text().startswith("The stack is empty")
    assert not dialog.run.isEnabled()


def test_checkpoints_are_added_by_dialogs_and_removed(dialog, files, monkeypatch):
    monkeypatch.setattr(questions, "ask_checkpoints", lambda *_: files[:2])
    monkeypatch.setattr(questions, "ask_folder", lambda *_: files[0].parent)
    dialog.add_files.click()
    dialog.add_folder.click()
    assert len(dialog.model.rows) == 3
    dialog.results.selectRow(1)
    dialog._remove.click()
    assert [row.path for row in dialog.model.rows] == [files[0], files[2]]


@pytest.fixture
def writing(dialog, qtbot, files, tmp_path, monkeypatch):
    """Return the dialog while it writes a checkpoint, which continues until it is cancelled."""
    from prune_gui.recipe import several_files

    began = threading.Event()

    def endless(*arguments, **_):
        began.set()
        while True:
            arguments[4].advance()

    monkeypatch.setattr(several_files, "prune_file", endless)
    dialog.add(files[:1])
    dialog.write.setChecked(True)
    dialog.folder.setText(str(tmp_path))
    dialog.run.click()
    qtbot.waitUntil(began.is_set)
    return dialog


def test_closing_the_window_during_writing_asks_and_stops_it(writing, demo_window, monkeypatch):
    asked = []
    monkeypatch.setattr(questions, "ask_cancel_saving", lambda _: asked.append(1) or len(asked) > 1)
    monkeypatch.setattr(questions, "ask_unsaved", lambda *_: "cancel")
    assert not demo_window.close()
    assert writing.writing
    assert not demo_window.close()
    assert not writing.writing
    assert len(asked) == 2


def test_closing_the_dialog_during_writing_asks_and_stops_it(writing, monkeypatch):
    asked = []
    monkeypatch.setattr(questions, "ask_cancel_saving", lambda _: asked.append(1) or len(asked) > 1)
    writing.reject()
    assert writing.isVisible()
    assert writing.writing
    writing.reject()
    assert not writing.isVisible()
    assert not writing.writing


def test_opening_another_checkpoint_closes_the_dialog_unless_it_writes(
    writing, workbench, demo_checkpoint, qtbot
):
    workbench.changed.emit(OPENED)
    assert writing.isVisible()
    writing.cancel.click()
    workbench.changed.emit(OPENED)
    assert not writing.isVisible()


def test_the_folder_is_created_when_the_run_starts(dialog, qtbot, files, tmp_path):
    out = tmp_path / "new" / "pruned"
    dialog.add(files[:1])
    dialog.write.setChecked(True)
    dialog.folder.setText(str(out))
    assert "will be created" in dialog._problem.text()
    assert not out.exists()
    with qtbot.waitSignal(dialog.ended, timeout=60_000):
        dialog.run.click()
    assert [path.name for path in out.iterdir()] == ["a-pruned.safetensors"]


def test_a_file_in_the_way_of_the_folder_is_named_before_anything_runs(dialog, files):
    dialog.add(files[:1])
    dialog.write.setChecked(True)
    dialog.folder.setText(str(files[0] / "pruned"))
    assert "contains a file" in dialog._problem.text()
    assert not dialog.run.isEnabled()
