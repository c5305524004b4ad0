"""The Qt models of tables. Every change is checked by Qt's model tester."""

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem

from prune_gui.gui.widgets.eliding import elided_name
from prune_gui.gui.widgets.table_widgets import RecordModel, ResultTable, SortableModel, TableView
from prune_gui.table import Column, record_column

DOWN, UP = Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder
ACROSS = Qt.Orientation.Horizontal
NAME, SIZE = 0, 1
NAMES = ("b", "a", "d", "c")
COLUMNS = (
    record_column(
        "Name", lambda row: row[0], lambda row: row[0], is_number=False, cell_tip=lambda _: "tip"
    ),
    record_column("Size", lambda row: f"{row[1]:,}", lambda row: row[1]),
)


def checked(model):
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    return model


@pytest.fixture
def records(qtbot):
    model = checked(RecordModel(COLUMNS))
    yield model
    model.deleteLater()


@pytest.mark.parametrize("after", [(), (("a", 1),), (("a", 1), ("x", 9), ("c", 3), ("d", 4))])
def test_an_update_changes_only_the_rows_that_differ(records, after):
    records.show([("a", 1), ("b", 2), ("c", 3)])
    kept, resets, changed = QPersistentModelIndex(records.index(0, 0)), [], []
    records.modelReset.connect(lambda: resets.append(True))
    records.dataChanged.connect(lambda first, _: changed.append(first.row()))
    records.update(after)
    assert records.rows == after
    assert (resets, changed) == ([], [1] if len(after) > 1 else [])
    assert kept.isValid() == bool(after)


def columns(*more):
    return (
        Column(
            title="Name", values=lambda _: NAMES, text=lambda _, row: NAMES[row], is_number=False
        ),
        Column(
            title="Size",
            tip="how large",
            values=lambda numbers: numbers,
            text=lambda numbers, row: f"{numbers[row]:g}",
            descending_first=True,
        ),
        *(Column(title=title, values=lambda numbers: numbers) for title in more),
        Column(values=lambda numbers: numbers, file_title="size"),
    )


def sizes(*numbers):
    return np.array(numbers, np.float64)


@pytest.fixture
def model(qtbot):
    sortable = checked(SortableModel((), ()))
    sortable.show(sizes(3, 1, float("nan"), 1), columns())
    yield sortable
    sortable.deleteLater()


def texts(model):
    rows = range(model.rowCount())
    return [[model.index(row, column).data() for column in range(2)] for row in rows]


def names(model):
    return "".join(name for name, _ in texts(model))


def test_records_are_appended_replaced_and_removed(records):
    records.show([("a", 1000)])
    records.add([("b", 2), ("c", 3)])
    records.add([])
    records.put(1, ("d", 4))
    assert texts(records) == [["a", "1,000"], ["d", "4"], ["c", "3"]]
    records.remove(0)
    assert list(records.rows) == [("d", 4), ("c", 3)]
    records.add([("e", 5)])
    records.remove(0, 2)
    assert list(records.rows) == [("e", 5)]
    records.show(())
    assert records.rowCount() == 0


def test_cells_have_tool_tips_and_numbers_are_right_aligned(records):
    records.show([("a", 1000)])
    tips = [records.index(0, column).data(Qt.ItemDataRole.ToolTipRole) for column in range(2)]
    assert tips == ["tip", "1,000"]
    for column, side in enumerate((Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight)):
        for alignment in (
            records.index(0, column).data(Qt.ItemDataRole.TextAlignmentRole),
            records.headerData(column, ACROSS, Qt.ItemDataRole.TextAlignmentRole),
        ):
            assert alignment & side


@pytest.mark.parametrize(
    ("column", "order", "expected"),
    [
        (NAME, UP, "abcd"),
        (NAME, DOWN, "dcba"),
        (SIZE, UP, "acbd"),
        (SIZE, DOWN, "bacd"),
        (-1, UP, "badc"),
    ],
)
def test_rows_are_sorted_stably_with_nan_last(model, column, order, expected):
    model.sort(NAME, DOWN)
    model.sort(column, order)
    assert names(model) == expected
    assert [model.position_of(row) for row in model.order] == [0, 1, 2, 3]


def test_new_values_keep_the_sort_order_and_the_selection(model):
    model.sort(SIZE, UP)
    d = QPersistentModelIndex(model.index(3, NAME))
    resets = []
    model.modelReset.connect(lambda: resets.append(1))
    model.show(sizes(3, 9, 2, 7))
    assert names(model) == "dbca"
    assert d.data() == "d"
    assert d.row() == 0
    assert resets == []


def test_other_rows_are_shown_in_the_sort_order(qtbot):
    model = checked(SortableModel(COLUMNS, ()))
    model.sort(SIZE, DOWN)
    model.show([("a", 1), ("b", 3), ("c", 2)])
    assert names(model) == "bca"
    model.show([("x", 1), ("y", 2)])
    assert names(model) == "yx"
    model.deleteLater()


def test_other_columns_keep_the_sort_order_if_its_column_still_exists(model):
    model.sort(SIZE, DOWN)
    model.show(sizes(1, 2, 3, 4), columns("Step 1"))
    assert names(model) == "cdab"
    assert model.columnCount() == 3
    model.sort(2, UP)
    model.show(sizes(1, 2, 3, 4), columns())
    assert names(model) == "badc"


def test_the_exported_rows_have_the_order_on_the_screen(model):
    model.show(sizes(3, 1, 2, 4))
    model.sort(NAME, UP)
    assert model.table("any").to_csv() == "size\r\n1.0\r\n3.0\r\n4.0\r\n2.0\r\n"


def test_headings_have_titles_and_rows_are_counted_from_one(model):
    down = Qt.Orientation.Vertical
    assert [model.headerData(i, ACROSS) for i in range(3)] == ["Name", "Size", None]
    assert model.headerData(SIZE, ACROSS, Qt.ItemDataRole.ToolTipRole) == "how large"
    assert model.headerData(NAME, ACROSS, Qt.ItemDataRole.ToolTipRole) is None
    orders = [model.headerData(i, ACROSS, Qt.ItemDataRole.InitialSortOrderRole) for i in range(2)]
    assert orders == [None, DOWN]
    assert model.headerData(0, down) == 1
    assert model.data(QModelIndex()) is None


@pytest.mark.parametrize("column", range(2))
def test_the_delegate_paints_what_the_model_returns(qtbot, column):
    model = RecordModel(COLUMNS)
    model.show([("a", 1000)])
    table = TableView(model, "Sizes")
    qtbot.addWidget(table)
    index, option = model.index(0, column), QStyleOptionViewItem()
    table.itemDelegate().initStyleOption(option, index)
    assert option.text == index.data()
    assert option.features & QStyleOptionViewItem.ViewItemFeature.HasDisplay
    assert option.displayAlignment == index.data(Qt.ItemDataRole.TextAlignmentRole)


def test_columns_widen_for_new_results(qtbot):
    model = RecordModel(COLUMNS)
    table = ResultTable(model, "Results", 0)
    qtbot.addWidget(table)
    table.resize(600, 200)
    table.show()
    model.add([("a", 1)])
    narrow = table.columnWidth(1)
    model.add([("b", 10**30)])
    wanted = table.fontMetrics().horizontalAdvance(f"{10**30:,}")
    qtbot.waitUntil(lambda: table.columnWidth(1) >= wanted)
    assert wanted > narrow
    assert table.horizontalHeader().length() == table.viewport().width()


ALIKE = [
    f"encoder.layer.{layer}.{module}.weight"
    for layer in (0, 10)
    for module in ("attention.output.dense", "intermediate.dense", "output.dense")
]


def test_elided_names_of_parameters_differ_where_the_names_do(qtbot):
    table = TableView(RecordModel(COLUMNS), "Names")
    qtbot.addWidget(table)
    metrics = table.fontMetrics()
    width = metrics.horizontalAdvance("encoder.layer.10.output.dense")
    shown = [elided_name(name, metrics, width) for name in ALIKE]
    assert len(set(shown)) == len(ALIKE)
    for name, text in zip(ALIKE, shown, strict=True):
        assert metrics.horizontalAdvance(text) <= width
        assert text.endswith("dense.weight")
        assert f".{name.split('.')[2]}." in text
    assert elided_name(ALIKE[0], metrics, 1000) == ALIKE[0]
    sentence = "Step 1 prunes nothing. See https://a.b/c.d.e for the reasons."
    assert elided_name(sentence, metrics, width).startswith("Step 1")


def test_a_table_that_elides_in_the_middle_shows_elided_names(qtbot):
    pictures = []
    for as_shown in (False, True):
        model = RecordModel(COLUMNS)
        table = TableView(model, "Names")
        qtbot.addWidget(table)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.setColumnWidth(NAME, 240)
        room = 240 - 2 * 10
        text = elided_name(ALIKE[0], table.fontMetrics(), room) if as_shown else ALIKE[0]
        model.show([(text, 1)])
        pictures.append(table.grab().toImage())
    assert text != ALIKE[0]
    assert pictures[0] == pictures[1]
