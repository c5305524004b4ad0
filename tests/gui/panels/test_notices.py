"""The notice that a recording lies beside the checkpoint."""

from __future__ import annotations

import pytest
import torch
from pages import errors, is_idle
from safetensors.torch import load_file, save_file
from torch import nn
from waiting import change

import prune_gui
from prune_gui.gui.panels.notices import CorrectionNotice


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
    assert notice.text.startswith("second_moments.safetensors is a recording")
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
    workbench.edit(lambda session: session.undo())
    settle()
    assert notice.text != ""


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
    qtbot.waitUntil(lambda: notice.text == "model.safetensors changed on disk", timeout=60_000)
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
