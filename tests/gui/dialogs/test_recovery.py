"""Recovery of the unsaved recipe of a process that was killed."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from waiting import draft_step

from prune_gui.gui.dialogs import recovery
from prune_gui.session.kept_recipes import MAX_TIME_S, Unsaved


@pytest.fixture
def old_journal(demo_window, workbench, make_step, settle, tmp_path):
    """Write the journal of a process that does not exist any more; return its path."""
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    settle()
    folder = demo_window.recovery.journal._folder
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gone.unsaved.json"
    unsaved = Unsaved.of(workbench.session).model_copy(update={"process": (2**22, 0.0)})
    path.write_text(unsaved.model_dump_json())
    workbench.edit(lambda session: session.undo())
    settle()
    return path


def answering(monkeypatch, button):
    asked = []
    monkeypatch.setattr(recovery, "_ask", lambda _, unsaved: asked.append(unsaved) or button)
    return asked


@pytest.mark.parametrize(("button", "stays"), [("discard", False), ("later", True)])
def test_a_journal_is_deleted_only_if_the_user_discards_it(
    demo_window, old_journal, monkeypatch, button, stays
):
    answering(monkeypatch, button)
    assert not demo_window.recovery.offer(pytest.fail)
    assert old_journal.exists() is stays


def test_a_journal_that_cannot_be_removed_is_logged(demo_window, old_journal, monkeypatch, caplog):
    answering(monkeypatch, "discard")

    def fail(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        assert not demo_window.recovery.offer(pytest.fail)
    assert "cannot be removed" in caplog.text


@pytest.mark.parametrize("written", [0.0, float(MAX_TIME_S)])
def test_the_question_accepts_extreme_times_and_names(demo_window, workbench, written, answer_box):
    asked = answer_box("Later")
    path = Path("/" + 300 * "\udcff" + "<b>.pt")
    fields = Unsaved.of(workbench.session).model_dump()
    unsaved = Unsaved.model_validate(fields | {"written": written, "checkpoint": path})
    assert recovery._ask(demo_window, unsaved) == "later"
    assert len(asked[0]) < 400


def test_the_question_names_a_draft_that_is_alone(demo_window, workbench, make_step, answer_box):
    asked = answer_box("Later")
    unsaved = Unsaved.of(workbench.session)
    draft_step(workbench, make_step(amount=0.125))
    alone = unsaved.model_copy(update={"draft": workbench.session.draft})
    for one in (unsaved, alone):
        recovery._ask(demo_window, one)
    assert ["The draft for" in text for text in asked] == [False, True]
    assert ["The steps for" in text for text in asked] == [True, False]


def test_there_is_no_question_without_old_journals(demo_window, monkeypatch):
    asked = answering(monkeypatch, "restore")
    assert not demo_window.recovery.offer(pytest.fail)
    assert not asked


def test_the_journal_exists_until_the_recipe_is_saved_or_the_window_is_closed(
    demo_window, workbench, make_step, qtbot, monkeypatch
):
    kept = demo_window.recovery.journal._path
    workbench.edit(lambda session: session.add(make_step()))
    qtbot.waitUntil(kept.exists)
    workbench.edit(lambda session: session.undo())
    qtbot.waitUntil(lambda: not kept.exists())
    workbench.edit(lambda session: session.redo())
    qtbot.waitUntil(kept.exists)
    monkeypatch.setattr(demo_window.commands, "may_close", lambda _: True)
    demo_window.close()
    assert not kept.exists()


def test_no_journal_is_written_if_the_setting_is_off(demo_window, workbench, make_step, qtbot):
    path = demo_window.recovery.journal._path
    workbench.edit(lambda session: session.add(make_step()))
    qtbot.waitUntil(path.exists)
    demo_window.commands.preferences.change("keep_unsaved", False)
    qtbot.waitUntil(lambda: not path.exists())
    workbench.edit(lambda session: session.add(make_step()))
    qtbot.waitUntil(lambda: not demo_window.recovery._settle_timer.isActive())
    assert not path.exists()


def test_named_states_are_restored_with_their_checkpoint(
    demo_window, workbench, open_file, tmp_path
):
    path = workbench.session.checkpoint.path
    other = shutil.copy(path, tmp_path / "other.safetensors")
    workbench.edit(lambda session: session.name_state("gentle"))
    open_file(other)
    assert not workbench.session.named_states
    open_file(path)
    assert list(workbench.session.named_states) == ["gentle"]
    workbench.edit(lambda session: session.forget_state("gentle"))
    open_file(path)
    assert not workbench.session.named_states
