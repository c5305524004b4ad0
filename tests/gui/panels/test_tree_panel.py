"""The tree as the user filters it, and protects what is in it."""

from __future__ import annotations

from prune_gui.gui.panels.tree_model import LOCK
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step


def icon_of(tree, path: str) -> str:
    model = tree._model
    return model.row(model.find(path)).icon


def test_a_filter_may_say_what_a_parameter_is(demo_window, qtbot):
    tree = demo_window.tree
    qtbot.keyClicks(tree.filter, "weight type:Linear")
    assert tree._found.text() == "2 of 22 parameters"
    assert tree._model.find("classifier.output.weight").isValid()
    assert not tree._model.find("features.conv1.weight").isValid()


def test_half_a_condition_leaves_the_tree_as_it_is_and_says_what_is_missing(demo_window, qtbot):
    tree = demo_window.tree
    tree.filter.setText("conv1 weight")
    qtbot.keyClicks(tree.filter, " ")
    tree.filter.insert("sparsity>")
    assert "after sparsity comes a number" in tree._found.text()
    assert tree._model.find("features.conv1.weight").isValid()
    assert not tree._model.find("features.conv2.weight").isValid()


def test_what_is_protected_has_a_lock_and_keeps_its_weights_until_that_is_undone(
    demo_window, workbench, qtbot
):
    tree, name = demo_window.tree, "features.conv2.weight"
    step = Step(method=METHODS["l1_unstructured"](), targets=("*conv*.weight",))
    with qtbot.waitSignal(workbench.resolved_changed):
        workbench.edit(lambda session: session.add(step))
    tree.tree.setCurrentIndex(tree._model.find(name))
    before = workbench.resolved.resolution.counts[name][0]
    assert before > 0
    with qtbot.waitSignal(workbench.resolved_changed):
        demo_window.acts["protect"].trigger()
    assert icon_of(tree, name) == LOCK
    qtbot.waitUntil(lambda: workbench.resolved.resolution.counts[name][0] == 0)
    assert demo_window.acts["undo"].text() == f"&Undo: Protect {name}"
    demo_window.acts["protect"].trigger()
    assert icon_of(tree, name) != LOCK
    qtbot.waitUntil(lambda: workbench.resolved.resolution.counts[name][0] == before)
