"""The notices of the window, and the log dock."""

from __future__ import annotations

import logging

import pytest
import torch
from pages import errors, is_idle
from PySide6.QtCore import QItemSelectionModel, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QApplication
from safetensors.torch import load_file, save_file
from torch import nn
from view_page import cells
from waiting import change

import prune_gui
from prune_gui.gui.panels.log_panel import LogPanel
from prune_gui.gui.panels.notices import CorrectionNotice, OriginalNotice
from prune_gui.gui.runtime.log_feed import MAX_ENTRIES, LogEntry
from prune_gui.gui.widgets.theme import Theme
from prune_gui.raster.colours import LIGHT
from prune_gui.resources import resource


@pytest.fixture
def notice(window, open_file, tmp_path):
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    with prune_gui.record(model, "second_moments") as recording:
        model(torch.randn(9, 6))
    recording.save(tmp_path / "statistics")
    open_file(tmp_path / "model.safetensors")
    return window.findChild(CorrectionNotice)


def test_it_appears_when_something_is_pruned_and_drafts_the_correction(
    notice, window, workbench, make_step, settle
):
    assert notice.text == ""
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.weight")))
    settle()
    assert "the recording second_moments.safetensors" in notice.text
    notice.button.click()
    settle()
    step = workbench.draft.current.step
    assert (step.method.name, step.targets) == ("refit", ("dims>1",))
    assert workbench.resolved.draft_error is None
    assert notice.text == ""
    window.draft.add()
    settle()
    assert workbench.session.steps[-1] == step
    assert notice.text == ""
    for _ in range(2):  # the step becomes the draft again, then the draft before it returns
        workbench.edit(lambda session: session.undo())
        settle()
    assert notice.text != ""


def test_a_pruned_file_is_compared_with_its_original(window, workbench, open_file, tmp_path, qtbot):
    original, pruned = tmp_path / "net.safetensors", tmp_path / "net-pruned.safetensors"
    save_file({"w": torch.arange(1.0, 17).reshape(4, 4)}, original)
    recipe = {"steps": [{"method": "l1_unstructured", "amount": 0.5, "targets": ["w"]}]}
    with prune_gui.open_checkpoint(original) as checkpoint:
        resolution = prune_gui.resolve(prune_gui.Recipe.model_validate(recipe), checkpoint)
        prune_gui.export(resolution, pruned)
    open_file(pruned)
    notice = window.findChild(OriginalNotice)
    assert notice.text.startswith("This file was pruned.")
    qtbot.waitUntil(lambda: "net.safetensors" in notice.button.text(), timeout=60_000)
    assert workbench.model_subject.reference is None
    notice.button.click()
    qtbot.waitUntil(lambda: workbench.comparison.reference is not None, timeout=60_000)
    assert workbench.model_subject.reference.path == original
    assert notice.text == ""
    assert window.views.current is window.views.view("compare")
    open_file(original)
    assert notice.text == ""


def test_a_file_made_from_the_demo_is_compared_with_the_demo(window, open_file, tmp_path, qtbot):
    with prune_gui.open_checkpoint(resource("demo", "digits_cnn.safetensors")) as checkpoint:
        recipe = prune_gui.Recipe.load(resource("demo", "digits_cnn.yaml"))
        prune_gui.export(prune_gui.resolve(recipe, checkpoint), tmp_path / "pruned.safetensors")
    open_file(tmp_path / "pruned.safetensors")
    button = window.findChild(OriginalNotice).button
    qtbot.waitUntil(lambda: "digits_cnn.safetensors" in button.text(), timeout=60_000)


def test_the_user_closes_it_until_the_file_is_opened_again(
    notice, window, workbench, open_file, make_step, settle
):
    step = make_step("l1_unstructured", "*.weight")
    for _ in range(2):
        workbench.edit(lambda session: session.add(step))
        settle()
        assert notice.text != ""
        notice._close.click()
        for act in (lambda session: session.clear(), lambda session: session.undo()):
            assert notice.text == ""
            workbench.edit(act)
            settle()
        assert notice.text == ""
        workbench.session.mark_saved(workbench.session.recipe)
        open_file(workbench.session.checkpoint.path)


@pytest.fixture
def path(window, open_file, tmp_path, demo_checkpoint, workbench, make_step):
    path = tmp_path / "model.safetensors"
    path.write_bytes(demo_checkpoint.read_bytes())
    open_file(path)
    workbench.edit(lambda session: session.add(make_step()))
    return path


def replace_by_ones(path):
    tensors = load_file(path)
    tensors["features.conv1.weight"] = torch.ones_like(tensors["features.conv1.weight"])
    save_file(tensors, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


def reload(window, qtbot):
    with change(qtbot, window.workbench, "file"):
        window.menu_actions["reload"].trigger()


def test_a_replaced_file_is_reported_until_it_is_reloaded(window, path, qtbot, workbench):
    notice = window.reload_notice
    assert notice.text == ""
    replace_by_ones(path)
    qtbot.waitUntil(lambda: notice.text == "Changed on disk: model.safetensors", timeout=60_000)
    reload(window, qtbot)
    assert notice.text == ""
    path.write_bytes(path.read_bytes())
    qtbot.waitUntil(lambda: notice.text != "", timeout=60_000)


def test_reloading_keeps_the_recipe_its_history_and_the_parameter(window, path, qtbot, workbench):
    workbench.choose("features.conv1.weight")
    before = workbench.session
    replace_by_ones(path)
    reload(window, qtbot)
    assert workbench.session.history == before.history
    assert window.isWindowModified()
    assert workbench.chosen == "features.conv1.weight"
    assert bool((workbench.session.checkpoint.read("features.conv1.weight") == 1).all())


def test_a_failed_reload_keeps_the_open_session(window, path, qtbot, workbench):
    before = workbench.session
    path.with_suffix(".tmp").write_text("hello")
    path.with_suffix(".tmp").replace(path)
    with qtbot.waitSignal(workbench.failed, timeout=60_000):
        window.menu_actions["reload"].trigger()
    assert workbench.session is before
    errors(window).accept()


def test_a_reload_does_not_replace_a_checkpoint_opened_meanwhile(
    window, path, qtbot, workbench, demo_checkpoint
):
    workbench.files.open(demo_checkpoint)
    workbench.files.reload()
    qtbot.waitUntil(lambda: is_idle(workbench), timeout=60_000)
    assert workbench.session.checkpoint.path == demo_checkpoint


FAULT = LogEntry("16:20:03", logging.ERROR, "Resolving failed", "Traceback\nZeroDivisionError")
WARNED = LogEntry("16:20:02", logging.WARNING, "Opening: no such file")
NOTE = LogEntry("16:20:01", logging.INFO, "Saved\nit all")


@pytest.fixture
def panel(qtbot, tmp_path):
    made = LogPanel(tmp_path / "prune-gui.log")
    qtbot.addWidget(made)
    made.resize(600, 300)
    made.show()
    return made


def select(panel, row):
    flags = QItemSelectionModel.SelectionFlag
    panel.table.selectionModel().select(
        panel.model.index(row, 0), flags.ClearAndSelect | flags.Rows
    )


def test_the_selected_entry_is_shown_completely_and_can_be_copied(panel, qtbot):
    panel.add((NOTE, FAULT))
    assert not panel.details.isVisible()
    select(panel, 1)
    assert panel.details.isVisible()
    assert panel.details.toPlainText() == FAULT.whole
    panel.table.setFocus()
    panel.activateWindow()
    qtbot.keyClick(panel.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == FAULT.whole
    panel.table.clearSelection()
    assert not panel.details.isVisible()


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [("All", [NOTE, WARNED, FAULT]), ("Warnings and errors", [WARNED, FAULT]), ("Errors", [FAULT])],
)
def test_only_entries_of_the_chosen_level_are_shown_and_copied(panel, chosen, shown):
    panel.add((NOTE, WARNED))
    panel.level.setCurrentText(chosen)
    panel.add((FAULT,))
    assert cells(panel.table) == [[one.when, one.level_name, one.line] for one in shown]
    panel.copy.click()
    assert QGuiApplication.clipboard().text() == "\n".join(one.whole for one in shown)
    select(panel, 0)
    assert panel.details.toPlainText() == shown[0].whole


def test_the_list_can_be_cleared_and_filled_again(panel):
    panel.add((NOTE, FAULT))
    select(panel, 1)
    panel.clear.click()
    assert cells(panel.table) == []
    assert not panel.details.isVisible()
    panel.add((NOTE,))
    assert cells(panel.table) == [["16:20:01", "Info", NOTE.line]]


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 300, 5 * MAX_ENTRIES])
def test_only_the_last_entries_are_kept(panel, batch):
    entries = [LogEntry("", logging.INFO, str(i)) for i in range(5 * MAX_ENTRIES)]
    for start in range(0, len(entries), batch):
        panel.add(entries[start : start + batch])
    assert list(panel.model.rows) == entries[-MAX_ENTRIES:]
    assert panel.model.rowCount() == MAX_ENTRIES


def test_an_entry_stays_selected_while_others_are_added_and_removed(panel):
    panel.add([NOTE] * (MAX_ENTRIES - 1))
    panel.add([FAULT])
    select(panel, MAX_ENTRIES - 1)
    panel.add([NOTE] * 10)
    assert panel._selected() == [FAULT]


def test_the_list_follows_new_entries_unless_the_user_scrolled_up(panel, qtbot):
    bar = panel.table.verticalScrollBar()
    panel.add([NOTE] * 100)
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert bar.value() == bar.maximum()
    bar.setValue(5)
    panel.add([NOTE] * 100)
    assert bar.value() == 5


def test_warnings_have_the_warning_colour_of_the_theme(panel):
    theme = Theme(QApplication.instance(), "light")
    panel.add((NOTE, FAULT))
    role = Qt.ItemDataRole.ForegroundRole
    assert panel.model.index(0, 0).data(role) is None
    assert panel.model.index(1, 0).data(role).name() == LIGHT.warning
    theme.use("dark")
    assert panel.model.index(1, 0).data(role).name() != LIGHT.warning
    theme.deleteLater()


def test_the_log_file_is_named_and_can_be_opened(panel, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: not opened.append(url))
    panel.open.click()
    assert opened == [QUrl.fromLocalFile(tmp_path / "prune-gui.log")]
    assert panel.open.toolTip() == str(tmp_path / "prune-gui.log")


def test_the_list_is_scrolled_to_the_end_when_it_is_first_shown(qtbot, tmp_path):
    panel = LogPanel(tmp_path / "prune-gui.log")
    qtbot.addWidget(panel)
    panel.add((NOTE,) * 100)
    panel.resize(600, 300)
    panel.show()
    last = panel.model.index(99, 0)
    assert panel.table.viewport().rect().contains(panel.table.visualRect(last))
