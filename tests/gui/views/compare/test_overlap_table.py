import pytest
from PySide6.QtCore import Qt

from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.gui.views.compare.tables import OverlapTable

ROWS = (
    Overlap("b", 4000, 0, 1, 9000, (("2:4",), ("2:4", "4:8"))),
    Overlap("a", 0, 3, 7, 20, ((), ("2:4",))),
    Overlap("c", 1, 3, 0, 20),
)


@pytest.fixture
def table(shown):
    widget = shown(OverlapTable())
    widget.show_rows(ROWS)
    return widget


def mark(table, name):
    table.mark(lambda row: row.name == name)


def _names(table):
    model = table.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def _click(qtbot, table, column):
    header = table.horizontalHeader()
    at = header.sectionViewportPosition(column) + 5
    position = header.rect().center()
    position.setX(at)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=position)


def test_there_is_a_row_per_parameter_in_the_order_of_the_file(table):
    model = table.model()
    headings = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    assert headings == ["Parameter", "Both", "Left", "Right", "IoU", "n:m"]
    assert [model.index(0, i).data() for i in range(5)] == ["b", "4,000", "0", "1", "1.000"]
    arrow = "\N{RIGHTWARDS ARROW}"
    followed = [f"2:4 {arrow} 2:4, 4:8", f"none {arrow} 2:4", ""]
    assert [model.index(row, 5).data() for row in range(3)] == followed
    assert _names(table) == ["b", "a", "c"]


def test_the_column_of_patterns_is_hidden_without_patterns(table):
    assert not table.isColumnHidden(5)
    table.show_rows(ROWS[2:])
    assert table.isColumnHidden(5)


def test_names_stay_readable_in_a_narrow_table(table, qtbot):
    table.resize(600, 200)
    qtbot.wait(1)
    assert sum(map(table.columnWidth, range(6))) == table.viewport().width()
    table.resize(300, 200)
    qtbot.wait(1)
    assert table.columnWidth(0) == 240
    assert table.horizontalScrollBar().maximum() > 0


def test_headings_sort_numbers_descending_and_names_ascending(table, qtbot):
    _click(qtbot, table, 3)
    assert _names(table) == ["a", "b", "c"]
    _click(qtbot, table, 2)
    assert _names(table) == ["a", "c", "b"]  # ties keep the order of the file
    _click(qtbot, table, 2)
    assert _names(table) == ["b", "a", "c"]
    _click(qtbot, table, 0)
    assert _names(table) == ["a", "b", "c"]


def test_the_exported_table_has_the_order_on_the_screen(table, qtbot):
    _click(qtbot, table, 3)
    taken = table.as_table("compared")
    assert taken.headers == (
        *("Parameter", "Both", "Only left", "Only right", "IoU"),
        *("Total", "n:m on the left", "n:m on the right"),
    )
    assert list(taken.rows) == [
        ("a", 0, 3, 7, 0.0, 20, "", "2:4"),
        ("b", 4000, 0, 1, 4000 / 4001, 9000, "2:4", "2:4, 4:8"),
        ("c", 1, 3, 0, 0.25, 20, "", ""),
    ]


def test_selecting_a_row_chooses_its_parameter(table, qtbot):
    with qtbot.waitSignal(table.chosen) as chosen:
        table.setCurrentIndex(table.model().index(1, 2))
    assert chosen.args == ["a"]


def test_marking_a_row_does_not_emit_chosen(table, qtbot):
    with qtbot.assertNotEmitted(table.chosen):
        mark(table, "c")
        _click(qtbot, table, 0)
        table.show_rows(ROWS[::-1])
    assert table.currentIndex().data() == "c"
    mark(table, "nowhere")
    assert not table.currentIndex().isValid()


MANY = tuple(Overlap(f"layer.{row}", row, 0, 0, 999) for row in range(300))


def in_sight(table):
    at = table.visualRect(table.currentIndex())
    return at.isValid() and table.viewport().rect().contains(at)


def test_the_marked_row_is_scrolled_into_view(table, qtbot):
    mark(table, "layer.290")
    table.show_rows(MANY)
    assert in_sight(table)
    _click(qtbot, table, 1)
    assert table.currentIndex().row() == 9
    assert in_sight(table)
    table.verticalScrollBar().setValue(table.verticalScrollBar().maximum())
    mark(table, "layer.150")
    assert in_sight(table)
    table.verticalScrollBar().setValue(0)
    table.show_rows(MANY[:200])
    assert in_sight(table)


def test_a_hidden_table_shows_the_marked_row_once_it_is_visible(table):
    table.hide()
    table.show_rows(MANY)
    mark(table, "layer.290")
    table.show()
    assert in_sight(table)
