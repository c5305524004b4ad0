"""Selection in the tree by mouse and keyboard, and its cost."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem, QTreeView
from safetensors.torch import save_file

from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.modules.tree_model import TreeColumn, TreeModel
from prune_gui.gui.modules.tree_panel import TreePanel
from prune_gui.gui.modules.tree_view import (
    MAX_NAME_SHARE,
    MAX_NAME_SHARE_WITH_ZEROS,
    RowDelegate,
    ShareBar,
)
from prune_gui.gui.widgets.theme import icon
from prune_gui.session import ModuleIndex
from prune_gui.statistics.file_zeros import FileZeros

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
        start, end = (tree.visualRect(tree.currentIndex()), tree.visualRect(model.find(last)))
        tree.setSelection(start.united(end), flag.ClearAndSelect | flag.Rows)
        costs.append(calls / len(tree.selection.rows()))
    assert max(costs) < 1.5 * min(costs), costs


@pytest.fixture
def narrow_panel(workbench, open_file, demo_checkpoint, qtbot):
    narrow_panel = TreePanel(workbench)
    qtbot.addWidget(narrow_panel)
    narrow_panel.show()
    open_file(demo_checkpoint)
    return narrow_panel


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("width", [240, 360, 500, 1200])
def test_the_columns_fit_the_width_and_names_have_priority(
    narrow_panel, workbench, qtbot, width, zeros
):
    view = narrow_panel.tree
    workbench.zero_counter.stop()
    view.model().show_zeros(FileZeros({"features.conv1.weight": 1}), wanted=zeros)
    columns = [column for column in TreeColumn if zeros or column != TreeColumn.ZEROS]
    narrow_panel.resize(width, 400)

    def fits():
        shown = [column for column in TreeColumn if not view.isColumnHidden(column)]
        room, names = view.viewport().width(), view.columnWidth(TreeColumn.NAME)
        assert shown == columns[: len(shown)]
        assert sum(map(view.columnWidth, shown)) <= room
        name_share = MAX_NAME_SHARE_WITH_ZEROS if zeros else MAX_NAME_SHARE
        assert names >= min(view.sizeHintForColumn(TreeColumn.NAME), int(name_share * room))

    qtbot.waitUntil(fits)
    assert width < 700 + 100 * zeros or not view.isColumnHidden(TreeColumn.PARAMETERS)


def test_a_column_is_shown_again_with_the_width_set_by_the_user(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(1000, 400)
    view.header().resizeSection(TreeColumn.SHAPE, 170)
    narrow_panel.resize(260, 400)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))
    narrow_panel.resize(1000, 400)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == 170)


def test_the_shape_column_widens_for_long_shapes_if_there_is_space(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(700, 400)
    needed = view.sizeHintForColumn(TreeColumn.SHAPE)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == needed)
    names = view.sizeHintForColumn(TreeColumn.NAME)
    beside = narrow_panel.width() - view.viewport().width() + view.columnWidth(TreeColumn.SPARSITY)
    narrow_panel.resize(names + beside + needed - 3, 400)
    qtbot.waitUntil(lambda: view.columnWidth(TreeColumn.SHAPE) == needed - 3)
    assert view.columnWidth(TreeColumn.NAME) == names


def test_in_a_narrow_tree_zeros_in_the_file_take_the_place_of_the_bars(
    narrow_panel, workbench, qtbot
):
    view = narrow_panel.tree
    workbench.zero_counter.stop()
    narrow_panel.resize(360, 400)
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.SPARSITY))
    with_bar = view.columnWidth(TreeColumn.SPARSITY)
    view.model().show_zeros(FileZeros({"features.conv1.weight": 1}), wanted=True)
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.ZEROS))
    assert view.columnWidth(TreeColumn.SPARSITY) < with_bar
    view.model().show_zeros(FileZeros(), wanted=False)
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.ZEROS))
    assert view.columnWidth(TreeColumn.SPARSITY) == with_bar


@pytest.fixture
def tree(qtbot):
    model = TreeModel()
    model.show(
        ModuleIndex(
            [TensorInfo("dense.weight", (4, 50), "float32"), TensorInfo("dense.ids", (9,), "int64")]
        )
    )
    made = QTreeView()
    qtbot.addWidget(made)
    made.setModel(model)
    made.setItemDelegate(RowDelegate(made, model))
    made.setItemDelegateForColumn(TreeColumn.SPARSITY, ShareBar(made, model))
    made.expandAll()
    made.resize(700, 200)
    made.show()
    return made


def style_of(tree, path, column):
    index = tree.model().find(path).siblingAtColumn(column)
    option = QStyleOptionViewItem()
    option.initFrom(tree)
    tree.itemDelegateForIndex(index).initStyleOption(option, index)
    return option


def test_a_cell_shows_its_text_and_the_name_its_icon(tree):
    name = style_of(tree, "dense.weight", TreeColumn.NAME)
    assert name.text == "weight"
    assert name.icon.cacheKey() == icon("tensor").cacheKey()
    shape = style_of(tree, "dense.weight", TreeColumn.SHAPE)
    assert shape.text == "4 × 50"  # noqa: RUF001
    assert shape.icon.isNull()
    numbers = style_of(tree, "dense.weight", TreeColumn.PARAMETERS)
    assert numbers.text == "200"
    assert numbers.displayAlignment & Qt.AlignmentFlag.AlignRight


def test_parameters_that_cannot_be_pruned_are_grey(tree):
    palette = tree.palette()
    palette.setColor(QPalette.ColorRole.PlaceholderText, "gray")
    tree.setPalette(palette)
    text, faint = QPalette.ColorRole.Text, QPalette.ColorRole.PlaceholderText
    for path, role in (("dense.weight", text), ("dense.ids", faint)):
        option = style_of(tree, path, TreeColumn.NAME)
        assert option.palette.color(text) == palette.color(role)


def test_the_chosen_parameter_is_bold(tree):
    tree.model().emphasize("dense.weight")
    assert style_of(tree, "dense.weight", TreeColumn.NAME).font.bold()
    assert not style_of(tree, "dense.weight", TreeColumn.SHAPE).font.bold()
    assert not style_of(tree, "dense.ids", TreeColumn.NAME).font.bold()


def test_the_bar_is_as_long_as_the_pruned_share(tree):
    def filled():
        """Count the pixels of the bar in the middle of the cell that have the bar's colour."""
        index = tree.model().find("dense.weight").siblingAtColumn(TreeColumn.SPARSITY)
        cell = tree.visualRect(index)
        line, y = tree.viewport().grab(cell).toImage(), cell.height() // 2
        bar = tree.palette().color(QPalette.ColorRole.Highlight)
        return sum(line.pixelColor(x, y) == bar for x in range(line.width()))

    lengths = []
    for pruned in (0, 100, 200):
        tree.model().count({"dense.weight": (pruned, 200)})
        lengths.append(filled())
    assert lengths[0] == 0
    assert lengths[1] > 10
    assert abs(lengths[2] - 2 * lengths[1]) <= 4


def test_select_all_excludes_biases_and_norms_also_if_expanded(panel, qtbot):
    selections = []
    panel.selected.connect(selections.append)
    qtbot.keyClick(panel.tree, Key.Key_A, Modifier.ControlModifier)
    assert selections == [frozenset(f"block.{number}.query.weight" for number in range(BLOCKS))]


def test_expanding_modules_widens_the_name_column(narrow_panel, qtbot):
    view = narrow_panel.tree
    narrow_panel.resize(330, 400)
    view.collapseAll()
    qtbot.waitUntil(lambda: not view.isColumnHidden(TreeColumn.SHAPE))
    view.expandAll()
    qtbot.waitUntil(lambda: view.isColumnHidden(TreeColumn.SHAPE))
