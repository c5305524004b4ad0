"""The panel of the module tree: filter, selection and protection."""

from __future__ import annotations

import threading

import pytest
from pages import tree_index
from PySide6.QtCore import Qt
from waiting import change

from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step, select
from prune_gui.session import ModuleIndex
from prune_gui.session import module_index as module_index


def icon_of(tree, path: str) -> str:
    model = tree._model
    return model.row(model.find(path)).icon


def test_conditions_on_a_large_file_are_prepared_on_the_engines_thread(
    demo_window, workbench, qtbot, monkeypatch
):
    monkeypatch.setattr(module_index, "LARGE_PARAMETER_COUNT", 0)
    threads = []
    monkeypatch.setattr(
        type(workbench.session.module_index),
        "load_condition_values",
        lambda self, text, load=ModuleIndex.load_condition_values: (
            threads.append(threading.current_thread()),
            load(self, text),
        ),
    )
    tree = demo_window.tree
    tree.filter.setText("weight type:Linear")
    qtbot.waitUntil(lambda: tree._found.text() == "2 of 22")
    assert threads
    assert threading.main_thread() not in threads
    assert not tree_index(tree, "features.conv1.weight").isValid()
    tree.filter.setText("bias type:Linear")  # cached
    assert tree._found.text() == "2 of 22"
    assert len(threads) == 1


def test_an_incomplete_condition_keeps_the_tree_and_shows_what_is_missing(demo_window, qtbot):
    tree = demo_window.tree
    tree.filter.setText("conv1 weight")
    qtbot.keyClicks(tree.filter, " ")
    tree.filter.insert("sparsity>")
    assert "write a number after sparsity" in tree._found.text()
    assert tree_index(tree, "features.conv1.weight").isValid()
    assert not tree_index(tree, "features.conv2.weight").isValid()


def test_a_protected_parameter_has_a_lock_and_is_not_pruned(demo_window, workbench, qtbot):
    tree, name = demo_window.tree, "features.conv2.weight"
    step = Step(method=METHODS["l1_unstructured"](), targets=("*conv*.weight",))
    with change(qtbot, workbench, "resolution"):
        workbench.edit(lambda session: session.add(step))
    tree.tree.setCurrentIndex(tree_index(tree, name))
    before = workbench.resolved.resolution.counts[name][0]
    assert before > 0
    with change(qtbot, workbench, "resolution"):
        demo_window.menu_actions["protect"].trigger()
    assert icon_of(tree, name) == "lock"
    qtbot.waitUntil(lambda: workbench.resolved.resolution.counts[name][0] == 0)
    assert demo_window.menu_actions["undo"].text() == f"&Undo: Protect {name}"
    demo_window.menu_actions["protect"].trigger()
    assert icon_of(tree, name) != "lock"
    qtbot.waitUntil(lambda: workbench.resolved.resolution.counts[name][0] == before)


def test_the_matches_of_the_filter_are_offered_as_targets(demo_window, qtbot):
    tree, targets = demo_window.tree, demo_window.draft.targets
    assert not tree._use_found.isVisible()
    qtbot.keyClicks(tree.filter, "weight type:Linear")
    assert tree._use_found.text() == "Use these 2 as targets"
    qtbot.mouseClick(tree._use_found, Qt.MouseButton.LeftButton)
    found = {"classifier.hidden.weight", "classifier.output.weight"}
    tensors = demo_window.workbench.session.checkpoint.tensors.values()
    qtbot.waitUntil(lambda: {one.name for one in select(targets.patterns(), tensors)} == found)
    tree.filter.clear()
    tree.tree.setCurrentIndex(tree_index(tree, "features.conv1.weight"))
    assert {one.name for one in select(targets.patterns(), tensors)} == found
    assert not tree._use_found.isVisible()


def test_the_completion_leaves_the_offer_visible_and_clickable(demo_window, active, qtbot):
    tree, popup = demo_window.tree, demo_window.tree.filter.completer().popup()
    tree.filter.setFocus()
    qtbot.keyClicks(tree.filter, "d")
    qtbot.waitUntil(lambda: tree.filter.completer().model().rowCount() > 0)
    qtbot.keyClicks(tree.filter, "i")
    qtbot.waitUntil(popup.isVisible)
    button = tree._use_found
    tree.filter.setText("conv1")
    middle = button.mapToGlobal(button.rect().center())
    assert popup.y() > middle.y()
    qtbot.mousePress(popup, Qt.MouseButton.LeftButton, pos=popup.mapFromGlobal(middle))
    assert not popup.isVisible()
    targets = demo_window.draft.targets
    qtbot.waitUntil(lambda: targets.patterns() == ("features.conv1.weight",))


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Down])
def test_a_key_goes_from_the_filter_to_the_first_match(demo_window, active, qtbot, key):
    tree = demo_window.tree
    tree.filter.setFocus()
    qtbot.keyClicks(tree.filter, "weight type:Linear")
    qtbot.keyClick(tree.filter, key)
    assert tree.tree.hasFocus()
    assert demo_window.workbench.chosen == "classifier.hidden.weight"
    qtbot.keyClick(tree.tree, Qt.Key.Key_Down)
    qtbot.keyClick(tree.tree, Qt.Key.Key_Down)
    assert demo_window.workbench.chosen == "classifier.output.weight"


def test_the_tree_shows_the_parameter_that_the_views_show(demo_window, workbench, qtbot):
    tree = demo_window.tree
    tree.tree.collapseAll()
    targeted = []
    tree.selected.connect(targeted.append)
    workbench.choose("classifier.output.weight")
    current = tree.tree.currentIndex()
    assert tree._model.node(current).path == "classifier.output.weight"
    assert tree.tree.viewport().rect().intersects(tree.tree.visualRect(current))
    assert tree.tree.isExpanded(tree_index(tree, "classifier.output"))
    assert tree.tree.selection.rows() == []
    assert targeted == []


def test_a_module_that_the_user_selects_stays_current(demo_window, workbench, qtbot):
    tree = demo_window.tree
    tree.tree.collapseAll()
    module = tree_index(tree, "classifier")
    tree.tree.scrollTo(module)
    tree.tree.setFocus()
    center = tree.tree.visualRect(module).center()
    qtbot.mouseClick(tree.tree.viewport(), Qt.MouseButton.LeftButton, pos=center)
    assert workbench.chosen.startswith("classifier.")
    assert tree.tree.currentIndex() == module
    assert not tree.tree.isExpanded(module)


def test_a_file_opens_on_the_parameter_that_most_steps_of_its_recipe_target(
    window, open_file, demo_checkpoint, workbench
):
    open_file(demo_checkpoint, demo_checkpoint.with_suffix(".yaml"))
    assert workbench.chosen == "features.conv3.weight"
    assert len(workbench.subject.counts()) == 4  # kept, and pruned by each of three steps
