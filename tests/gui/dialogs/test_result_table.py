from prune_gui.gui.dialogs.result_table import ResultTable
from prune_gui.gui.widgets.table_model import RecordModel
from prune_gui.table import record_column

COLUMNS = (
    record_column("Name", lambda row: row[0], lambda row: row[0], is_number=False),
    record_column("Size", lambda row: f"{row[1]:,}", lambda row: row[1]),
)


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
