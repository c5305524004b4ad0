"""The tree grouped by the units that the parameters have."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from safetensors.torch import save_file
from small_bert import EMBEDDINGS, write_bert
from view_page import tree_names
from waiting import change

from prune_gui.architecture.groups import coupled_groups
from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.dialogs import questions
from prune_gui.gui.modules.tree_model import TreeModel
from prune_gui.gui.views.groups.data import measure_group
from prune_gui.gui.views.groups.text import group_title
from prune_gui.monitor import Monitor
from prune_gui.recipe import Step
from prune_gui.resources import resource
from prune_gui.session import ModuleIndex
from prune_gui.session.space_outline import SpaceOutline

ROOT = QModelIndex()
UP = "encoder.layer.0.intermediate.dense.weight"
QUERY = "encoder.layer.1.attention.self.query.weight"
DOWN = "encoder.layer.0.output.dense.weight"


def at(model, *rows):
    index = ROOT
    for row in rows:
        index = model.index(row, 0, index)
    return index


@pytest.fixture
def model(qtbot, tmp_path):
    made = TreeModel()
    tester = QAbstractItemModelTester(
        made, QAbstractItemModelTester.FailureReportingMode.Fatal, made
    )
    with open_checkpoint(write_bert(tmp_path)) as checkpoint:
        index = ModuleIndex(checkpoint.tensors.values())
        made.show(index)
        made.arrange(SpaceOutline.of(checkpoint, None, index))
        yield made
    del tester


def test_spaces_and_groups_show_their_units(model):
    tree = tree_names(model)
    assert list(tree) == [
        "FFN neurons · 24 units",
        "attention heads · 8 units",
        "layers · 2 units",
        "Other parameters",
    ]
    assert list(tree["FFN neurons · 24 units"]) == ["0 · 12 units", "1 · 12 units"]
    model.show_pruned_units({1: 5, model.outline.group_numbers(1)[1]: 5})
    assert at(model, 0).data() == "FFN neurons · 5 of 24"
    assert at(model, 0, 1).data() == "1 · 5 of 12"
    assert at(model, 0, 0).data() == "0 · 12 units"
    assert at(model, 0, 1).data(Qt.ItemDataRole.ToolTipRole).splitlines() == [
        "encoder.layer.1",
        "3 parameters, 204 elements",
        "12 units, 5 pruned",
    ]
    model.show_pruned_units({})
    assert at(model, 0).data() == "FFN neurons · 24 units"


def test_a_filter_shows_matches_below_each_of_their_groups(model):
    model.filter("1.intermediate")
    assert tree_names(model) == {
        "FFN neurons · 24 units": {
            "1 · 12 units": {"intermediate.dense.weight": {}, "intermediate.dense.bias": {}}
        },
        "layers · 2 units": {
            "encoder.layer · 2 units": {
                "layer 1": {"intermediate.dense.weight": {}, "intermediate.dense.bias": {}}
            }
        },
    }
    model.filter("")
    assert at(model, 3, 0).data() == EMBEDDINGS


def test_counts_and_marks_are_shown_at_all_rows_of_a_parameter(model):
    tree_names(model)
    signals = []
    model.dataChanged.connect(lambda first, last: signals.append(first.data()))
    model.emphasize(UP)
    assert signals == ["intermediate.dense.weight"] * 2
    model.count({UP: (48, 96)})
    assert [model.row(at(model, *rows)).share for rows in ((0, 0, 0), (0, 1, 0))] == [0.5, 0.0]
    assert model.row(at(model, 2)).share > 0
    assert [model.has_pruned(number) for number in (1, 2, 3)] == [True, False, True]


@pytest.fixture
def bert(window, open_file, tmp_path, qtbot):
    open_file(write_bert(tmp_path))
    window.menu_actions["group_by_space"].trigger()
    qtbot.waitUntil(lambda: isinstance(window.tree._model.outline, SpaceOutline))
    return window


def test_a_selected_group_selects_its_members(bert, workbench):
    selections = []
    bert.tree.selected.connect(selections.append)
    tree, model = bert.tree.tree, bert.tree._model
    tree.setCurrentIndex(at(model, 0, 1))
    assert selections[-1] == {
        "encoder.layer.1.intermediate.dense.weight",
        "encoder.layer.1.output.dense.weight",
    }
    assert workbench.chosen == "encoder.layer.1.intermediate.dense.weight"
    tree.setCurrentIndex(at(model, 1, 1, 0))
    assert selections[-1] == {QUERY}
    assert workbench.chosen == QUERY
    assert tree.currentIndex().parent() == at(model, 1, 1)
    workbench.choose(DOWN)
    assert tree.currentIndex() == at(model, 0, 0, 2)


def test_the_view_shows_the_selected_group(bert, workbench, settle):
    tree, model = bert.tree.tree, bert.tree._model
    for rows, title in (
        ((2, 0), "layers · encoder.layer"),
        ((1, 0), "attention heads · encoder.layer.0.attention"),
        ((1, 1, 0), "attention heads · encoder.layer.1.attention"),
        ((2, 0, 1, 0), "layers · encoder.layer"),
    ):
        tree.setCurrentIndex(at(model, *rows))
        group = workbench.chosen_group
        assert title.endswith(f" · {group.label}")
        assert workbench.chosen in {member.name for member in group.members}
        settle()
        data = measure_group(workbench.subject, group, None, Monitor())
        assert group_title(data.chosen) == title
    tree.setCurrentIndex(at(model, 3, 0))
    assert workbench.chosen_group is None


def test_the_selection_and_the_filter_stay_when_the_grouping_changes(bert, workbench, qtbot):
    panel = bert.tree
    panel.tree.setCurrentIndex(at(panel._model, 1, 1, 0))
    panel.filter.setText("attention")
    bert.menu_actions["group_by_module"].trigger()
    assert bert.commands.settings.group_by == "module"
    assert [panel._model.node(row).path for row in panel.tree.selection.rows()] == [QUERY]
    assert list(tree_names(panel._model)) == ["encoder"]
    panel.filter.clear()
    assert list(tree_names(panel._model)) == ["embeddings", "encoder"]
    bert.menu_actions["group_by_space"].trigger()
    qtbot.waitUntil(lambda: isinstance(panel._model.outline, SpaceOutline))
    assert [panel._model.node(row).path for row in panel.tree.selection.rows()] == [QUERY]
    assert workbench.chosen == QUERY


def test_rows_that_were_open_before_a_filter_are_open_after_it(bert):
    panel = bert.tree
    panel.tree.collapseAll()
    panel.tree.expand(at(panel._model, 0))
    panel.tree.expand(at(panel._model, 0, 1))
    panel.filter.setText("query")
    panel.filter.clear()
    opened = [panel._model.node(panel._model.index_of(one)).path for one in panel._open_nodes()]
    assert opened == ["FFN neurons", "encoder.layer.1"]


def test_the_pruned_units_are_counted_after_a_step_and_after_undo(bert, workbench, qtbot):
    model = bert.tree._model
    step = Step.model_validate(
        {"method": "coupled", "space": "ffn", "amount": 5, "targets": ["*.intermediate.*.weight"]}
    )
    workbench.edit(lambda session: session.add(step))
    qtbot.waitUntil(lambda: at(model, 0).data() == "FFN neurons · 10 of 24")
    assert at(model, 0, 1).data() == "1 · 5 of 12"
    workbench.edit(lambda session: session.undo())
    qtbot.waitUntil(lambda: at(model, 0).data() == "FFN neurons · 24 units")


def test_without_units_the_tree_shows_modules_and_says_so(bert, workbench, open_file, tmp_path):
    notes = []
    workbench.noted.connect(notes.append)
    save_file({"a.weight": torch.ones(3)}, tmp_path / "other.safetensors")
    with_units = bert.tree._model.outline
    open_file(tmp_path / "other.safetensors")
    assert with_units is not bert.tree._model.outline
    assert list(tree_names(bert.tree._model)) == ["a"]
    assert notes == ["The tree is grouped by module: no units are known in other.safetensors."]


@pytest.fixture
def own_table(tmp_path):
    path = tmp_path / "own.yaml"
    text = (resource("architectures") / "bert.yaml").read_text()
    path.write_text(text.replace("title: FFN neurons", "title: cells"))
    return path


BUILDER = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 2)), torch.zeros(1, 3)
"""


def test_a_traced_network_has_units(bert, open_file, tmp_path, workbench, monkeypatch, qtbot):
    tensors = {"0.weight": (8, 3), "0.bias": (8,), "1.weight": (8,), "1.bias": (8,)}
    tensors |= {"2.weight": (2, 8), "2.bias": (2,)}
    save_file({k: torch.ones(v) for k, v in tensors.items()}, tmp_path / "net.safetensors")
    (tmp_path / "net.py").write_text(BUILDER)
    open_file(tmp_path / "net.safetensors")
    monkeypatch.setattr(questions, "ask_file", lambda *_: tmp_path / "net.py")
    monkeypatch.setattr(questions, "ask_target", lambda *_: tmp_path / "net.yaml")
    monkeypatch.setattr(questions, "agree_to_trace", lambda *_: True)
    bert.menu_actions["trace_network"].trigger()
    session = workbench.session
    qtbot.waitUntil(lambda: session.recipe.table_path is not None, timeout=200_000)
    assert session.recipe.table_path == tmp_path / "net.yaml"
    [group] = coupled_groups(session.checkpoint, "hidden", session.recipe.table_path)
    assert group.size == 8


def test_a_table_of_the_user_is_used_undone_and_part_of_the_recipe(
    bert, workbench, own_table, monkeypatch, qtbot
):
    model = bert.tree._model
    monkeypatch.setattr(questions, "ask_file", lambda *_: own_table)
    assert not bert.menu_actions["use_built_in_table"].isEnabled()
    with change(qtbot, workbench, "resolution"):
        bert.menu_actions["use_table"].trigger()
    qtbot.waitUntil(lambda: at(model, 0).data() == "cells · 24 units")
    session = workbench.session
    assert session.recipe.table_path == own_table
    assert "table: own.yaml" in session.recipe.to_yaml()
    assert session.history.undo_label == "Use architecture table own.yaml"
    assert bert.menu_actions["use_built_in_table"].isEnabled()
    bert.menu_actions["use_built_in_table"].trigger()
    qtbot.waitUntil(lambda: at(model, 0).data() == "FFN neurons · 24 units")
    assert session.recipe.table is None
