"""Files that another program pruned, and files that this program pruned before."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QLabel, QPushButton, QToolButton
from safetensors.torch import save_file
from waiting import change

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.modules.tree_model import TreeColumn
from prune_gui.gui.panels.notices import ZeroNotice
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.session.changes import Changes
from prune_gui.statistics.zero_scan import ZeroScan

STEP = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.25}


@pytest.fixture
def pruned_elsewhere(tmp_path):
    """Return a file with a 2:4 matrix, a matrix with a dead row, and a dense one."""
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(40, 40, generator=generator) for name in "abc"}
    tensors["a"].view(20, 2, 10, 4)[:, 0, :, 1:3] = 0
    tensors["a"].view(20, 2, 10, 4)[:, 1, :, ::3] = 0
    tensors["b"][7] = 0
    path = tmp_path / "elsewhere.safetensors"
    save_file({f"{name}.weight": tensor for name, tensor in tensors.items()}, path)
    return path


@pytest.fixture
def made_here(tmp_path):
    """Return a finalized file of which a step pruned a quarter."""
    path, dense = tmp_path / "ours.safetensors", tmp_path / "dense.safetensors"
    save_file({"a.weight": torch.randn(40, 40)}, dense)
    with open_checkpoint(dense) as checkpoint:
        export(resolve(Recipe.model_validate({"steps": [STEP]}), checkpoint), path)
    return path


@pytest.fixture
def counted(window, open_file, qtbot):
    """Return a function that opens a file in the window and waits until its zeros are counted."""

    def open_and_count(path):
        open_file(path)
        session = window.workbench.session
        qtbot.waitUntil(lambda: session.file_zeros.is_complete, timeout=60_000)
        return window

    return open_and_count


def cell(window, path, column):
    tree = window.tree.tree
    return tree.model().find(path).siblingAtColumn(column).data()


def notice_of(window):
    return window.findChild(ZeroNotice)


def button(widget, text):
    return next(one for one in widget.findChildren(QPushButton) if one.text() == text)


def start_box(window):
    return next(one for one in window.stack.findChildren(QCheckBox))


def test_zeros_of_another_program_are_shown_but_not_as_pruned(counted, pruned_elsewhere, settle):
    window = counted(pruned_elsewhere)
    assert notice_of(window).text == "17.5 % of the file is zero"
    assert cell(window, "a.weight", TreeColumn.ZEROS) == "50.0 %"
    assert cell(window, "b.weight", TreeColumn.ZEROS) == "2.5 %"
    assert cell(window, "a.weight", TreeColumn.SPARSITY) == "0.0 %"
    window.workbench.choose("a.weight")
    facts = window.workbench.subject.facts()
    assert facts.endswith("0 of 1,600 pruned (0.0 %) · 50.0 % zero in the file: 2:4")
    window.workbench.choose("b.weight")
    assert window.workbench.subject.facts().endswith("2.5 % zero in the file: 1 of 40 rows dead")


def test_one_click_treats_them_as_pruned_and_one_undo_takes_it_back(
    counted, pruned_elsewhere, settle, qtbot
):
    window = counted(pruned_elsewhere)
    notice = notice_of(window)
    qtbot.mouseClick(button(notice, "Treat as pruned"), Qt.MouseButton.LeftButton)
    settle()
    assert window.workbench.session.recipe.start == "zeros"
    assert window.workbench.shown.total == (840, 4800)
    assert cell(window, "a.weight", TreeColumn.SPARSITY) == "50.0 %"
    assert notice.text == ""
    assert start_box(window).isChecked()
    assert window.menu_actions["start_from_zeros"].isChecked()
    window.menu_actions["undo"].trigger()
    settle()
    assert window.workbench.shown.total == (0, 4800)
    assert notice.text != ""
    assert not start_box(window).isChecked()
    qtbot.mouseClick(start_box(window), Qt.MouseButton.LeftButton)
    settle()
    assert window.workbench.shown.total == (840, 4800)


def test_a_closed_notice_stays_closed_until_a_file_is_opened(counted, pruned_elsewhere, qtbot):
    window = counted(pruned_elsewhere)
    notice = notice_of(window)
    qtbot.mouseClick(notice.findChild(QToolButton), Qt.MouseButton.LeftButton)
    window.workbench.changed.emit(Changes(zeros=True))
    assert notice.text == ""
    counted(pruned_elsewhere)
    assert notice.text != ""


def test_zeros_of_an_unchanged_file_are_counted_once(counted, pruned_elsewhere, monkeypatch):
    first = counted(pruned_elsewhere).workbench.session.file_zeros
    monkeypatch.setattr(ZeroScan, "advance", None)
    assert counted(pruned_elsewhere).workbench.session.file_zeros is first


def test_zeros_of_a_file_that_was_left_are_not_taken(
    window, open_file, pruned_elsewhere, demo_checkpoint, qtbot, monkeypatch
):
    monkeypatch.setattr("prune_gui.worker.jobs.ZEROS_SLICE_S", 0.0)
    open_file(pruned_elsewhere)
    open_file(demo_checkpoint)
    session = window.workbench.session
    qtbot.waitUntil(lambda: session.file_zeros.is_complete, timeout=60_000)
    assert session.file_zeros.counts.keys() == window.workbench.resolved.before.counts.keys()


def test_past_steps_are_listed_and_prune_again_only_if_asked(counted, made_here, settle, qtbot):
    window = counted(made_here)
    assert window.workbench.shown.total == (400, 1600)
    assert window.workbench.session.steps == ()
    assert notice_of(window).text == ""  # they count as pruned
    past = next(one for one in window.stack.findChildren(QToolButton) if "Already" in one.text())
    again = button(window.stack, "Apply the past steps again")
    assert past.text() == "Already in this file: 1 step"
    assert not again.isVisible()
    qtbot.mouseClick(past, Qt.MouseButton.LeftButton)
    assert again.isVisible()
    with change(qtbot, window.workbench, "resolution"):
        qtbot.mouseClick(again, Qt.MouseButton.LeftButton)
        settle()
    assert len(window.workbench.session.steps) == 1
    assert window.workbench.shown.total == (700, 1600)
    assert window.workbench.session.history.undo_label == "Apply the past steps again"


def test_a_file_of_another_program_has_no_past_steps(counted, pruned_elsewhere):
    window = counted(pruned_elsewhere)
    assert not button(window.stack, "Apply the past steps again").isVisible()
    assert window.workbench.session.past_steps == ()
    assert not window.menu_actions["own_recipe"].isEnabled()


def test_many_past_steps_are_counted_after_the_first_ones(counted, tmp_path):
    path, dense = tmp_path / "ours.safetensors", tmp_path / "dense.safetensors"
    save_file({"a.weight": torch.randn(8, 8)}, dense)
    with open_checkpoint(dense) as checkpoint:
        export(resolve(Recipe.model_validate({"steps": [STEP] * 9}), checkpoint), path)
    window = counted(path)
    listed = next(
        label
        for label in window.stack.findChildren(QLabel)
        if label.accessibleName() == "Past steps"
    )
    assert listed.text().splitlines()[-2:] == [
        "6. L1 unstructured, local, 25 %: *.weight",
        "and 3 more",
    ]
    assert "9. L1" in listed.toolTip()
