"""What is selected in the tree, by mouse and keyboard, and at what price."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QTreeView
from safetensors.torch import save_file

from prune_gui.gui.panels.modules.model import TreeModel
from prune_gui.gui.panels.modules.panel import TreePanel

Key, Modifier = Qt.Key, Qt.KeyboardModifier
BLOCKS = 40


@pytest.fixture
def panel(workbench, open_file, tmp_path, qtbot):
    panel = TreePanel(workbench)
    qtbot.addWidget(panel)
    panel.show()
    tensors = {
        f"block.{number}.{part}": torch.ones((2,) * (2 - part.endswith(("bias", "norm.weight"))))
        for number in range(BLOCKS)
        for part in ("query.weight", "query.bias", "norm.weight", "norm.bias")
    }
    save_file(tensors, tmp_path / "model.safetensors")
    open_file(tmp_path / "model.safetensors")
    panel.tree.expandAll()
    return panel


@pytest.mark.parametrize("modifier", [Modifier.ShiftModifier, Modifier.ControlModifier])
def test_rows_are_selected_as_in_any_tree(panel, qtbot, modifier):
    plain = QTreeView()
    qtbot.addWidget(plain)
    plain.setModel(panel._model)
    plain.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    plain.expandAll()
    names = {}
    for view in (panel.tree, plain):
        view.resize(400, 900)
        view.show()
        qtbot.keyClick(view, Key.Key_Home)
        for key in (Key.Key_Down, Key.Key_Down, Key.Key_End, Key.Key_Up, Key.Key_Space):
            qtbot.keyClick(view, key, modifier)
            chosen = {panel._model.node(row).path for row in view.selectionModel().selectedRows()}
            names.setdefault(view, []).append(chosen)
    assert names[panel.tree] == names[plain]
    assert len(names[plain][2]) > 1 or modifier is Modifier.ControlModifier
    rows = panel.tree.selection.rows()
    assert {panel._model.node(row).path for row in rows} == names[plain][-1]


def test_all_that_is_selected_leaves_out_biases_and_norms_opened_or_not(panel, qtbot):
    meant = []
    panel.selected.connect(meant.append)
    qtbot.keyClick(panel.tree, Key.Key_A, Modifier.ControlModifier)
    assert meant == [frozenset(f"block.{number}.query.weight" for number in range(BLOCKS))]


def test_a_selection_asks_no_row_more_often_when_there_are_more(panel, qtbot, monkeypatch):
    asked = 0
    branch = TreeModel._branch

    def counted(self, index):
        nonlocal asked
        asked += 1
        return branch(self, index)

    monkeypatch.setattr(TreeModel, "_branch", counted)  # of which each parent is found
    model, tree = panel._model, panel.tree
    tree.hide()  # painting asks as well
    flag = QItemSelectionModel.SelectionFlag
    costs = []
    for last in ("block.9.norm.bias", f"block.{BLOCKS - 1}.norm.bias"):
        tree.setCurrentIndex(model.find("block.0.query.weight"))
        asked = 0
        tree.setSelection(
            tree.visualRect(model.find("block.0.query.weight")).united(
                tree.visualRect(model.find(last))
            ),
            flag.ClearAndSelect | flag.Rows,
        )
        costs.append(asked / len(tree.selection.rows()))
    assert max(costs) < 1.5 * min(costs), costs
