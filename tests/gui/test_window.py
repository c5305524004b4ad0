"""The window: opening, closing, dropping, and the table of actions."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pages import errors, slide
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDockWidget,
    QLineEdit,
    QMessageBox,
    QToolBar,
)
from save_dialog_controls import save_button
from waiting import change

from prune_gui import open_checkpoint
from prune_gui.engine import Job
from prune_gui.errors import CheckpointError
from prune_gui.gui.dialogs import questions
from prune_gui.gui.draft.fields import PathField
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.gui.widgets.frames import DropHint
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.output import OutputOptions
from prune_gui.resources import resource
from prune_gui.session import Settings
from prune_gui.session.subjects import FILE, OtherCheckpoint

"""Height of a window on a screen of 800 pixels, without its title bar."""


@pytest.fixture
def answer(monkeypatch):
    """Return a function that sets the answer of a question, and lists its calls."""

    def prepare(name, reply):
        asked = []
        monkeypatch.setattr(questions, name, lambda *given: asked.append(given) or reply)
        return asked

    return prepare


@pytest.fixture
def changed(demo_window, workbench, make_step):
    """Return a window with an unsaved recipe."""
    workbench.edit(lambda session: session.add(make_step()))
    return demo_window


def files_in_hand(*paths):
    """Return the arguments of a drag event after its position."""
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def drop(window, *paths):
    hand = files_in_hand(*paths)  # the event does not own it
    window.dropEvent(QDropEvent(QPointF(5, 5), *hand))


def test_an_empty_window_shows_the_start_page(window):
    assert window._centre.currentWidget() is window._welcome
    assert not window.menu_actions["save_checkpoint"].isEnabled()
    assert not window.draft.isEnabled()


def test_opening_shows_a_parameter_and_adds_the_file_to_the_recent_ones(
    window, open_file, tmp_path, demo_checkpoint
):
    path = tmp_path / "mine.safetensors"
    path.write_bytes(demo_checkpoint.read_bytes())
    open_file(path)
    assert window.views.isVisible()
    assert window.workbench.chosen == "classifier.hidden.weight"
    assert window.windowTitle().startswith("mine.safetensors")
    assert window.commands.settings.recent == (str(path),)
    window._recent.aboutToShow.emit()
    assert [action.text() for action in window._recent.actions()] == [f"&1  {path}"]


@pytest.fixture
def shards(tmp_path, demo_checkpoint):
    """A folder with the demo checkpoint in several shards."""
    with open_checkpoint(demo_checkpoint) as checkpoint:
        export(resolve(Recipe(), checkpoint), tmp_path / "demo", shard_size=100_000)
    (tmp_path / "demo" / "config.json").write_text('{"model_type": "cnn"}')
    return tmp_path / "demo"


@pytest.mark.parametrize("how", ["menu", "drop", "file"])
def test_a_folder_of_shards_is_opened_as_one_checkpoint(window, qtbot, answer, shards, how):
    index = shards / "model.safetensors.index.json"
    with change(qtbot, window.workbench, "resolution"):
        if how == "menu":
            answer("ask_folder", shards)
            window.menu_actions["open_folder"].trigger()
        elif how == "drop":
            drop(window, f"{shards}/")
        else:
            answer("ask_file", index)
            window.menu_actions["open"].trigger()
    assert len(window.workbench.session.checkpoint.tensors) == 22
    assert window.windowTitle().startswith(f"{index.name}[*] – {shards}")  # noqa: RUF001
    assert window.tree.tree.header().toolTip() == "cnn"
    assert window.commands.settings.recent == (str(index),)


def test_the_suggested_recipe_name_for_shards_is_that_of_their_folder(
    window, open_file, shards, monkeypatch
):
    open_file(shards)
    asked = []
    monkeypatch.setattr(questions, "ask_target", lambda *said: asked.append(said[-1]))
    window.commands.save_recipe_as()
    assert asked == [shards / "demo.yaml"]


def test_the_demo_is_not_a_recent_file_and_its_recipe_is_never_overwritten(
    window, qtbot, answer, tmp_path
):
    with change(qtbot, window.workbench, "resolution"):
        window.menu_actions["demo"].trigger()
    assert len(window.workbench.session.steps) == 3
    assert Settings.load().recent == ()
    assert not window.isWindowModified()
    asked = answer("ask_target", tmp_path / "mine.yaml")
    assert window.commands.save_recipe()
    assert asked
    assert Recipe.load(tmp_path / "mine.yaml").steps == window.workbench.session.steps


def test_a_change_marks_the_title_until_the_recipe_is_saved(changed, answer, tmp_path):
    assert changed.isWindowModified()
    answer("ask_target", tmp_path / "mine.yaml")
    changed.menu_actions["save_recipe"].trigger()
    assert not changed.isWindowModified()
    assert Recipe.load(tmp_path / "mine.yaml").steps == changed.workbench.session.steps
    changed.menu_actions["undo"].trigger()
    assert changed.isWindowModified()
    asked = answer("ask_target", None)
    changed.menu_actions["save_recipe"].trigger()
    assert not asked
    assert Recipe.load(tmp_path / "mine.yaml").steps == ()


@pytest.mark.parametrize("name", ["model.safetensors", "model.yaml", "shown"])
def test_the_open_checkpoint_is_never_replaced_by_its_recipe(changed, answer, tmp_path, name):
    opened = changed.workbench.session.checkpoint.path
    failures = []
    changed.workbench.failed.disconnect()
    changed.workbench.failed.connect(lambda *failure: failures.append(failure))
    (tmp_path / name).symlink_to(opened)
    before = opened.read_bytes()
    answer("ask_target", tmp_path / name)
    saved = changed.commands.save_recipe_as()
    assert saved == (name == "shown")  # as shown.yaml
    if saved:
        assert (tmp_path / "shown.yaml").is_file()
        assert not changed.commands.save_recipe_as()  # nobody agreed to replace shown.yaml
        assert "already exists" in str(failures.pop()[1])
    assert len(failures) == (not saved)
    assert opened.read_bytes() == before
    assert changed.isWindowModified() is not saved


def test_a_recipe_of_another_suffix_is_saved_under_another_name(changed, answer, tmp_path):
    (tmp_path / "mine.txt").write_text("steps: []")
    changed.commands.use_recipe(tmp_path / "mine.txt")
    changed.menu_actions["undo"].trigger()
    asked = answer("ask_target", tmp_path / "mine.yaml")
    assert changed.commands.save_recipe()
    assert asked
    assert (tmp_path / "mine.txt").read_text() == "steps: []"


def test_a_recipe_saved_in_another_folder_still_finds_its_files(demo_window, answer, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("steps: [{method: custom_from_mask, targets: ['*'], mask: masks.pt}]")
    demo_window.commands.use_recipe(path)
    (tmp_path / "other").mkdir()
    answer("ask_target", tmp_path / "other" / "mine.yaml")
    assert demo_window.commands.save_recipe_as()
    [step] = Recipe.load(tmp_path / "other" / "mine.yaml").steps
    assert step.method.mask == str(tmp_path / "masks.pt")


def test_closing_does_not_ask_about_a_saved_recipe(demo_window, answer):
    asked = answer("ask_unsaved", "cancel")
    assert demo_window.close()
    assert not asked


@pytest.mark.parametrize(
    ("reply", "name", "closes"),
    [("discard", "", True), ("cancel", "", False), ("save", "a.yaml", True), ("save", "", False)],
)
def test_closing_asks_about_an_unsaved_recipe(changed, answer, tmp_path, reply, name, closes):
    asked = answer("ask_unsaved", reply)
    answer("ask_target", tmp_path / name if name else None)
    assert changed.close() is closes
    assert len(asked) == 1
    assert (tmp_path / "a.yaml").exists() is bool(name)


@pytest.mark.parametrize("previewed", [False, True])
@pytest.mark.parametrize("agreed", [False, True])
def test_closing_and_opening_ask_about_a_draft(
    demo_window, draft, answer, demo_checkpoint, qtbot, agreed, previewed
):
    asked = answer("agree_to_drop_draft", agreed)
    slide(draft, 25)
    draft.preview.setChecked(previewed)
    before = demo_window.workbench.session
    drop(demo_window, demo_checkpoint)
    qtbot.waitUntil(lambda: bool(asked))
    assert (demo_window.workbench.session is before) is not agreed
    assert asked[0][1:] == ("The draft is not added to the stack, and is not saved.",)
    assert demo_window.close() is agreed


def test_closing_does_not_ask_about_a_draft_that_was_added(demo_window, draft, answer, tmp_path):
    asked = answer("ask_unsaved", "save")
    answer("ask_target", tmp_path / "a.yaml")
    slide(draft, 25)
    draft.add()
    draft.preview.setChecked(False)
    assert demo_window.close()
    assert [arguments[2] for arguments in asked] == [""]


def test_closing_names_changes_of_a_step_that_are_not_applied(changed, draft, answer):
    asked = answer("ask_unsaved", "cancel")
    draft.edit(0)
    assert not changed.close()
    slide(draft, 25)
    assert not changed.close()
    changes = "The changes of step 1 are not applied, and are not saved."
    assert [arguments[2] for arguments in asked] == ["", changes]


def test_opening_another_checkpoint_asks_about_an_unsaved_recipe(
    changed, answer, demo_checkpoint, qtbot
):
    asked = answer("ask_unsaved", "cancel")
    before = changed.workbench.session
    drop(changed, demo_checkpoint)
    qtbot.waitUntil(lambda: bool(asked))
    assert changed.workbench.session is before


def test_a_file_that_cannot_be_opened_raises_no_question(changed, answer, tmp_path, qtbot):
    asked = answer("ask_unsaved", "cancel")
    with qtbot.waitSignal(changed.workbench.failed, timeout=60_000):
        drop(changed, tmp_path / "gone.safetensors")
    assert not asked
    errors(changed).accept()


def test_closing_offers_to_save_the_pruned_checkpoint_first_and_asks_once(
    changed, draft, answer, monkeypatch, qtbot, tmp_path
):
    out = tmp_path / "pruned.safetensors"
    slide(draft, 25)
    asked = answer("ask_unsaved", "checkpoint")
    asked_again = answer("agree_to_drop_draft", False)
    monkeypatch.setattr(SaveDialog, "exec", lambda _: QDialog.DialogCode.Accepted)
    monkeypatch.setattr(SaveDialog, "path", out)
    with qtbot.waitSignal(changed.closed, timeout=60_000):
        assert not changed.close()
    assert out.is_file()
    assert [told for _, _, told in asked] == [
        "The draft is not added to the stack, and is not saved."
    ]
    assert not asked_again


def test_the_notice_of_a_saved_checkpoint_compares_loads_and_opens_it(
    changed, workbench, qtbot, tmp_path
):
    out, notice = tmp_path / "pruned.safetensors", changed.commands.saving.notice
    save_to(changed, out, qtbot)
    offers = {action.text(): action for action in notice.findChild(QToolBar).actions()}
    offers["Copy code to load"].trigger()
    qtbot.waitUntil(lambda: str(out) in QApplication.clipboard().text(), timeout=60_000)
    offers["Compare with the original"].trigger()
    sides = {"left": FILE, "right": OtherCheckpoint(out)}
    qtbot.waitUntil(lambda: workbench.comparison.chosen == sides, timeout=60_000)
    offers["Open"].trigger()
    qtbot.waitUntil(lambda: workbench.session.checkpoint.path == out, timeout=60_000)
    assert notice.text == ""


def test_the_notice_of_a_saved_checkpoint_is_seen_beside_the_dock_that_evaluates(
    changed, qtbot, tmp_path
):
    changed.show()
    changed.resize(1280, 770)
    changed.show_evaluation()
    save_to(changed, tmp_path / "pruned.safetensors", qtbot)
    notice = changed.commands.saving.notice
    qtbot.waitUntil(lambda: notice.visibleRegion().boundingRect() == notice.rect())


def test_opening_starts_in_the_folder_that_was_used_last(changed, monkeypatch, qtbot, tmp_path):
    asked = []
    monkeypatch.setattr(questions, "ask_checkpoint", lambda _, folder: asked.append(folder))
    (tmp_path / "other").mkdir()
    save_to(changed, tmp_path / "other" / "pruned.safetensors", qtbot)
    changed.menu_actions["open"].trigger()
    assert asked == [tmp_path / "other"]


def test_the_dialog_says_that_it_asks_for_the_reference(demo_window, monkeypatch):
    asked = []
    monkeypatch.setattr(
        questions, "ask_file", lambda _, question, *__: asked.append(question.title)
    )
    demo_window.menu_actions["choose_reference"].trigger()
    assert asked == ["Choose the reference: the checkpoint before pruning"]


def test_the_question_about_an_unsaved_recipe_is_true_without_steps(demo_window, monkeypatch):
    asked = []
    monkeypatch.setattr(questions, "ask", lambda *_, details="", **__: asked.append(details))
    questions.ask_unsaved(demo_window, "a.pt", "The draft is not added to the stack.")
    assert asked == [
        "What was changed is lost if you discard it.\n\nThe draft is not added to the stack."
    ]


def test_the_key_that_shows_the_dock_that_evaluates_hides_it(demo_window):
    demo_window.show()
    action = demo_window.menu_actions["evaluate"]
    shown = demo_window.findChild(QDockWidget, "Evaluate")
    for is_shown in (True, False, True):
        action.trigger()
        QApplication.processEvents()
        assert shown.isVisible() is is_shown


def save_to(window, out, qtbot):
    """Save the pruned checkpoint, as the user does with the dialog."""
    QTimer.singleShot(0, lambda: accept_path(window, out))
    with qtbot.waitSignal(window.workbench.saved, timeout=60_000):
        window.menu_actions["save_checkpoint"].trigger()


def accept_path(window, out):
    dialog = window.findChild(SaveDialog)
    dialog._path.setText(str(out))
    save_button(dialog).click()


@pytest.mark.parametrize("stops", [True, False])
def test_closing_during_a_save_asks_whether_to_stop_it(
    demo_window, workbench, answer, monkeypatch, qtbot, stops
):
    running, cancelled, end = threading.Event(), threading.Event(), threading.Event()

    def slow(monitor):
        running.set()
        try:
            while not end.wait(0.005):
                monitor.advance()
        except Exception:
            cancelled.set()
            raise

    def save(_path, _form, **_):
        return workbench.bridge.run(Job("Saving", slow), lambda _: None)

    monkeypatch.setattr(workbench.files, "save", save)
    monkeypatch.setattr(SaveDialog, "exec", lambda _: QDialog.DialogCode.Accepted)
    asked = answer("ask_cancel_saving", stops)
    demo_window.menu_actions["save_checkpoint"].trigger()
    qtbot.waitUntil(running.is_set)
    assert demo_window.close() is stops
    assert asked
    if stops:
        qtbot.waitUntil(cancelled.is_set)
    else:
        assert not cancelled.is_set()
    end.set()


def test_a_checkpoint_is_saved_to_the_path_of_the_dialog(
    changed, workbench, monkeypatch, qtbot, tmp_path, demo_checkpoint
):
    out = tmp_path / "pruned.safetensors"
    monkeypatch.setattr(SaveDialog, "exec", lambda _: QDialog.DialogCode.Accepted)
    monkeypatch.setattr(SaveDialog, "path", out)
    with qtbot.waitSignal(workbench.saved, timeout=60_000):
        changed.menu_actions["save_checkpoint"].trigger()
    with open_checkpoint(out) as saved:
        assert int((saved.read("features.conv1.weight") == 0).sum()) == 72
    assert changed.commands.saving.notice.text == "Saved pruned.safetensors, 363 kB, verified"
    assert not changed.isWindowModified()


def test_changes_during_a_save_stay_unsaved(changed, workbench, qtbot, tmp_path, make_step):
    with qtbot.waitSignal(workbench.saved, timeout=60_000):
        workbench.files.save(tmp_path / "a.safetensors", OutputOptions())
        workbench.edit(lambda session: session.add(make_step()))
    assert workbench.session.unsaved


def test_a_checkpoint_and_a_recipe_can_be_dropped(window, qtbot, demo_checkpoint):
    with change(qtbot, window.workbench, "resolution"):
        drop(window, resource("demo", "digits_cnn.yaml"), demo_checkpoint)
    assert len(window.workbench.session.steps) == 3


@pytest.mark.parametrize("names", [("a.pt", "b.pt"), ("a.yaml", "b.yml", "c.pt")])
def test_dropping_several_checkpoints_or_recipes_is_an_error(window, names, monkeypatch):
    for method in ("open_path", "use_recipe"):
        monkeypatch.setattr(window.commands, method, pytest.fail)
    drop(window, *names)
    assert errors(window).text().startswith("Drop one checkpoint, one recipe")
    errors(window).accept()


def drag_onto(line, mime):
    """Send the events of a drag and drop onto a line edit."""
    what = (Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton)
    keys = Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(line, QDragEnterEvent(QPoint(3, 3), *what, keys))
    QApplication.sendEvent(line, QDropEvent(QPointF(3, 3), *what, keys))


def test_a_file_dropped_on_any_line_is_opened_except_in_path_fields(demo_window, monkeypatch):
    opened = []
    monkeypatch.setattr(demo_window.commands, "open_dropped", lambda paths: opened.extend(paths))
    demo_window.views.make_ahead()
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile("/models/a.pt")])
    mime.setText("/models/a.pt")  # as file managers add, for editors
    every = demo_window.findChildren(QLineEdit)
    lines = [line for line in every if line.window() is demo_window]
    files = [line for line in lines if isinstance(line.parent(), PathField)]
    for line in lines:
        drag_onto(line, mime)
    assert len(files) == 2
    assert [line.text() for line in files] == ["/models/a.pt"] * 2
    assert opened == [Path("/models/a.pt")] * (len(lines) - len(files))
    assert not any("a.pt" in line.text() for line in lines if line not in files)


def test_a_dropped_recipe_replaces_the_steps_and_can_be_undone(demo_window, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("steps: [{method: identity, targets: ['*.weight']}]")
    drop(demo_window, path)
    assert len(demo_window.workbench.session.steps) == 1
    assert demo_window.menu_actions["undo"].text() == "&Undo: Open recipe"


def test_errors_share_one_box_without_duplicates(window, workbench, tmp_path, qtbot):
    drop(window, tmp_path / "steps.yaml")
    with qtbot.waitSignal(workbench.failed, timeout=60_000):
        drop(window, tmp_path / "gone.safetensors")
    workbench.failed.emit("Opening", CheckpointError("Another."))
    workbench.failed.emit("Opening", CheckpointError("Another."))
    box = errors(window)
    assert [b for b in window.findChildren(QMessageBox) if b.isVisible()] == [box]
    recipe, checkpoint, other = box.text().split("\n\n")
    assert recipe.endswith("the recipe cannot be read: No such file or directory.")
    assert checkpoint == f"{tmp_path / 'gone.safetensors'} does not exist. Check its name."
    assert other == "Another."
    box.accept()


def test_a_dropped_recipe_without_a_checkpoint_is_an_error_which_is_logged(window, caplog):
    drop(window, resource("demo", "digits_cnn.yaml"))
    assert errors(window).text().startswith("Open a checkpoint first")
    assert "Opening the recipe: Open a checkpoint first" in caplog.text
    errors(window).accept()


def test_the_window_shows_what_a_drop_would_open_while_a_file_is_over_it(window, demo_checkpoint):
    hand = files_in_hand(demo_checkpoint)
    plain = window.grab().toImage()
    QApplication.sendEvent(window, QDragEnterEvent(QPoint(3, 3), *hand))
    hint = window.findChild(DropHint)
    assert hint.isVisible()
    assert hint.geometry() == window.rect()
    assert window.grab().toImage() != plain
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert not hint.isVisible()
    QApplication.sendEvent(window, QDragEnterEvent(QPoint(3, 3), *hand))
    drop(window, demo_checkpoint)
    assert not hint.isVisible()
