"""Masks files as steps: by drag and drop, and by the menu."""

from __future__ import annotations

import math
import runpy

import pytest
import torch
from pages import errors
from PySide6.QtGui import QGuiApplication
from safetensors.torch import load_file, save_file
from waiting import change

from prune_gui import open_checkpoint
from prune_gui.gui.dialogs import questions
from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.recipe import Recipe, export


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
    errors(demo_window).accept()


@pytest.fixture
def copied(demo_window, workbench, make_step, settle, qtbot):
    """Add a step; return a function that triggers an action and returns the copied text."""
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    settle()

    def copy(action: str) -> str:
        with qtbot.waitSignal(workbench.noted):
            demo_window.menu_actions[action].trigger()
        return QGuiApplication.clipboard().text()

    return copy


def test_the_stack_is_copied_as_a_recipe(copied, workbench):
    assert Recipe.from_yaml(copied("copy_recipe")).steps == workbench.session.steps


def test_a_copied_recipe_has_absolute_paths(copied, workbench, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "steps: [{method: l1_unstructured, targets: ['*'], importance: scores.safetensors}]"
    )
    workbench.edit(lambda session: session.use_recipe(Recipe.load(path), path))
    [step] = Recipe.from_yaml(copied("copy_recipe")).steps
    assert step.method.importance == str(tmp_path / "scores.safetensors")


def test_a_copied_command_line_names_the_recipe_file_only_if_it_is_up_to_date(
    copied, workbench, tmp_path
):
    assert "apply - " in copied("copy_command")
    path = tmp_path / "recipe.yaml"
    workbench.session.mark_saved(workbench.session.recipe, path)
    assert f"apply {path} " in copied("copy_command")
    workbench.edit(lambda session: session.duplicate(0))
    workbench.session.mark_saved(workbench.session.recipe)  # as after saving a pruned checkpoint
    assert "apply - " in copied("copy_command")


def test_a_copied_script_makes_the_same_tensors(copied, workbench, tmp_path, demo_checkpoint):
    script = copied("copy_script")
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    out = str(pruned_path(demo_checkpoint))
    assert out in script
    program = tmp_path / "script.py"
    program.write_text(script.replace(out, str(theirs)))
    runpy.run_path(str(program))
    export(workbench.resolved.resolution, ours)
    actual, expected = load_file(theirs), load_file(ours)
    assert all(actual[name].equal(expected[name]) for name in expected)
