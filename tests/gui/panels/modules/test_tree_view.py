"""Selection in the tree by mouse and keyboard, and its cost."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QTreeView
from safetensors.torch import save_file

from prune_gui.gui.modules.tree_model import TreeModel
from prune_gui.gui.modules.tree_panel import TreePanel

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
def test_rows_are_selected_as_in_a_plain_tree_view(panel, qtbot, modifier):
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


def test_select_all_excludes_biases_and_norms_also_if_expanded(panel, qtbot):
    selections = []
    panel.selected.connect(selections.append)
    qtbot.keyClick(panel.tree, Key.Key_A, Modifier.ControlModifier)
    assert selections == [frozenset(f"block.{number}.query.weight" for number in range(BLOCKS))]


def test_the_cost_of_a_selection_is_linear_in_its_rows(panel, qtbot, monkeypatch):
    calls = 0
    branch = TreeModel._node

    def counted(self, index):
        nonlocal calls
        calls += 1
        return branch(self, index)

    monkeypatch.setattr(TreeModel, "_node", counted)  # `parent` calls it for each row
    model, tree = panel._model, panel.tree
    tree.hide()  # painting calls it too
    flag = QItemSelectionModel.SelectionFlag
    costs = []
    for last in ("block.9.norm.bias", f"block.{BLOCKS - 1}.norm.bias"):
        tree.setCurrentIndex(model.find("block.0.query.weight"))
        calls = 0
        tree.setSelection(
            tree.visualRect(model.find("block.0.query.weight")).united(
                tree.visualRect(model.find(last))
            ),
            flag.ClearAndSelect | flag.Rows,
        )
        costs.append(calls / len(tree.selection.rows()))
    assert max(costs) < 1.5 * min(costs), costs
