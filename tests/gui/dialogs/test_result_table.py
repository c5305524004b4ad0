import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from prune_gui.gui.dialogs.result_table import Column, ResultModel, ResultTable

COLUMNS = (
    Column("Name", lambda row: row[0], lambda row: row[0], is_number=False, tip=lambda _: "tip"),
    Column("Size", lambda row: f"{row[1]:,}", lambda row: row[1]),
)


@pytest.fixture
def model(qtbot):
    made = ResultModel(COLUMNS)
    QAbstractItemModelTester(made, QAbstractItemModelTester.FailureReportingMode.Fatal, made)
    yield made
    made.deleteLater()


def texts(model):
    rows = range(model.rowCount())
    return [[model.index(row, column).data() for column in range(2)] for row in rows]


def test_results_are_appended_replaced_and_removed(model):
    model.show([("a", 1000)])
    model.add([("b", 2), ("c", 3)])
    model.add([])
    model.put(1, ("d", 4))
    assert texts(model) == [["a", "1,000"], ["d", "4"], ["c", "3"]]
    model.remove(0)
    assert model.rows == (("d", 4), ("c", 3))
    model.show(())
    assert model.rowCount() == 0


def test_cells_have_tool_tips_and_numbers_are_right_aligned(model):
    model.show([("a", 1000)])
    tips = [model.index(0, column).data(Qt.ItemDataRole.ToolTipRole) for column in range(2)]
    assert tips == ["tip", "1,000"]
    for column, side in enumerate((Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight)):
        for shown in (
            model.index(0, column).data(Qt.ItemDataRole.TextAlignmentRole),
            model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.TextAlignmentRole),
        ):
            assert shown & side


def test_a_file_contains_exact_numbers(model):
    model.show([("a", 1000)])
    assert model.table("sizes").to_csv() == "Name,Size\r\na,1000\r\n"


def test_columns_widen_for_new_results(model, qtbot):
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
