"""Copying the stack to the clipboard: as a recipe, a command line and a Python script."""

from __future__ import annotations

import runpy

import pytest
from PySide6.QtGui import QGuiApplication
from safetensors.torch import load_file

from prune_gui.gui.saving.output_boxes import pruned_path
from prune_gui.recipe import Recipe, export


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
