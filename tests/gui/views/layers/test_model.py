"""The Qt model of the table of all parameters."""

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem

from prune_gui.audit.view_data.layer_columns import NAME, Column
from prune_gui.gui.views.layers.model import CellDelegate, LayersModel

DOWN, UP = Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder
NAMES = ("b", "a", "d", "c")


def columns(numbers, *more):
    values = np.array(numbers, np.float64)
    return (
        Column("Name", "", NAMES, NAMES.__getitem__, is_number=False),
        Column("Size", "how large", values, lambda row: f"{values[row]:g}"),
        *(Column(title, "", values, str) for title in more),
    )


@pytest.fixture
def model(qtbot):
    layers_model = LayersModel()
    tester = QAbstractItemModelTester(
        layers_model, QAbstractItemModelTester.FailureReportingMode.Fatal, layers_model
    )
    layers_model.show(NAMES, columns([3, 1, float("nan"), 1]))
    yield layers_model
    del tester


def names(model):
    return "".join(model.index(row, NAME).data() for row in range(model.rowCount()))


@pytest.mark.parametrize(
    ("column", "order", "expected"),
    [(0, UP, "abcd"), (0, DOWN, "dcba"), (1, UP, "acbd"), (1, DOWN, "bacd"), (-1, UP, "badc")],
)
def test_rows_are_sorted_stably_with_nan_last(model, column, order, expected):
    model.sort(0, DOWN)
    model.sort(column, order)
    assert names(model) == expected
    assert [model.position_of(row) for row in model.order] == [0, 1, 2, 3]


def test_new_values_keep_the_sort_order_and_the_selection(model):
    model.sort(1, UP)
    d = QPersistentModelIndex(model.index(3, NAME))
    resets = []
    model.modelReset.connect(lambda: resets.append(1))
    model.show(NAMES, columns([3, 9, 2, 7]))
    assert names(model) == "dbca"
    assert d.data() == "d"
    assert d.row() == 0
    assert resets == []


def test_other_columns_keep_the_sort_order_if_its_column_still_exists(model):
    model.sort(1, DOWN)
    model.show(NAMES, columns([1, 2, 3, 4], "Step 1"))
    assert names(model) == "cdab"
    assert model.columnCount() == 3
    model.sort(2, UP)
    model.show(NAMES, columns([1, 2, 3, 4]))
    assert names(model) == "badc"


def test_headings_have_titles_and_rows_are_counted_from_one(model):
    across, down = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
    assert [model.headerData(i, across) for i in range(3)] == ["Name", "Size", None]
    assert model.headerData(1, across, Qt.ItemDataRole.ToolTipRole) == "how large"
    assert model.headerData(0, down) == 1
    assert model.index(0, 1).data(Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight
    assert model.data(QModelIndex()) is None


@pytest.mark.parametrize("column", [NAME, 1])
def test_the_delegate_paints_what_the_model_returns(model, column):
    index, option = model.index(2, column), QStyleOptionViewItem()
    before = option.displayAlignment
    CellDelegate(model).initStyleOption(option, index)
    assert option.text == index.data()
    assert option.features & QStyleOptionViewItem.ViewItemFeature.HasDisplay
    assert option.displayAlignment == (index.data(Qt.ItemDataRole.TextAlignmentRole) or before)
