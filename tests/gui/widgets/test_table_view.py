import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStyleOptionViewItem

from prune_gui.gui.widgets.table_model import RecordModel
from prune_gui.gui.widgets.table_view import TableView
from prune_gui.table import record_column

COLUMNS = (
    record_column("Name", lambda row: row[0], lambda row: row[0], is_number=False),
    record_column("Size", lambda row: f"{row[1]:,}", lambda row: row[1]),
)


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
