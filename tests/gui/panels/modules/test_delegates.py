"""The painting of the cells of the tree."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QStyleOptionViewItem, QTreeView

from prune_gui.checkpoint import TensorInfo
from prune_gui.gui.modules.tree_model import TreeColumn, TreeModel
from prune_gui.gui.modules.tree_view import RowDelegate, ShareBar
from prune_gui.gui.widgets.theme import icon
from prune_gui.session import ModuleIndex


@pytest.fixture
def tree(qtbot):
    model = TreeModel()
    model.show(
        ModuleIndex(
            [
                TensorInfo("dense.weight", (4, 50), "float32"),
                TensorInfo("dense.ids", (9,), "int64"),
            ]
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
    roles = {
        "dense.weight": QPalette.ColorRole.Text,
        "dense.ids": QPalette.ColorRole.PlaceholderText,
    }
    for path, role in roles.items():
        option = style_of(tree, path, TreeColumn.NAME)
        assert option.palette.color(QPalette.ColorRole.Text) == palette.color(role)


def test_the_chosen_parameter_is_bold(tree):
    tree.model().emphasize("dense.weight")
    assert style_of(tree, "dense.weight", TreeColumn.NAME).font.bold()
    assert not style_of(tree, "dense.weight", TreeColumn.SHAPE).font.bold()
    assert not style_of(tree, "dense.ids", TreeColumn.NAME).font.bold()


def test_the_bar_is_as_long_as_the_pruned_share(tree):
    def filled():
        """Count the pixels of the bar in the middle of the cell that have the bar's colour."""
        cell = tree.visualRect(
            tree.model().find("dense.weight").siblingAtColumn(TreeColumn.SPARSITY)
        )
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
