"""Masks files as steps: by drag and drop, and by the menu."""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import save_file
from waiting import change

from prune_gui import open_checkpoint
from prune_gui.gui.dialogs import questions


@pytest.fixture
def masks_file(demo_checkpoint, tmp_path):
    """A file with masks for the convolutions of the demo, 0 in a quarter of the elements."""
    with open_checkpoint(demo_checkpoint) as demo:
        shapes = {name: i.shape for name, i in demo.tensors.items() if len(i.shape) == 4}
    masks = {name: torch.arange(math.prod(shape)) % 4 > 0 for name, shape in shapes.items()}
    path = tmp_path / "masks.safetensors"
    save_file({name: mask.reshape(shapes[name]) for name, mask in masks.items()}, path)
    return path


def test_dropped_masks_are_used_as_a_step_which_can_be_undone(
    demo_window, qtbot, settle, answer_box, masks_file
):
    asked = answer_box("Use as a step")
    with change(qtbot, demo_window.workbench, "recipe"):
        demo_window.commands.open_dropped([masks_file])
    settle()
    assert asked == ["masks.safetensors holds masks for digits_cnn.safetensors."]
    session, shown = demo_window.workbench.session, demo_window.workbench.shown
    assert session.steps[0].method.name == "custom_from_mask"
    assert session.history.undo_label == "Use the masks in masks.safetensors"
    pruned = {name: pruned for name, (pruned, _) in shown.counts.items() if pruned}
    assert pruned == {
        name: total // 4
        for name, (_, total) in shown.counts.items()
        if len(session.checkpoint.tensors[name].shape) == 4
    }


def test_dropped_masks_can_be_opened_instead(demo_window, qtbot, settle, answer_box, masks_file):
    answer_box("Open instead")
    with change(qtbot, demo_window.workbench, "file"):
        demo_window.commands.open_dropped([masks_file])
    settle()
    assert demo_window.workbench.session.checkpoint.path == masks_file
    assert demo_window.workbench.shown.total[0] > 0


def test_dropped_masks_change_nothing_if_the_user_cancels(
    demo_window, qtbot, answer_box, masks_file
):
    asked = answer_box("Cancel")
    session = demo_window.workbench.session
    demo_window.commands.open_dropped([masks_file])
    qtbot.waitUntil(lambda: bool(asked))
    assert demo_window.workbench.session is session
    assert session.steps == ()


def test_a_dropped_checkpoint_without_masks_is_opened(demo_window, qtbot, demo_checkpoint):
    with change(qtbot, demo_window.workbench, "file"):
        demo_window.commands.open_dropped([demo_checkpoint])


def test_a_file_without_fitting_masks_is_reported(
    demo_window, qtbot, demo_checkpoint, masks_file, monkeypatch
):
    action = demo_window.menu_actions["use_masks"]
    monkeypatch.setattr(questions, "ask_file", lambda *_: masks_file)
    with change(qtbot, demo_window.workbench, "recipe"):
        action.trigger()
    monkeypatch.setattr(questions, "ask_file", lambda *_: demo_checkpoint)
    with qtbot.waitSignal(demo_window.workbench.failed) as failed:
        action.trigger()
    assert "digits_cnn.safetensors has no mask with the name and shape" in str(failed.args[1])
    assert len(demo_window.workbench.session.steps) == 1
    demo_window._errors._box.accept()
