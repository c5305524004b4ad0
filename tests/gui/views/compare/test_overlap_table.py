import pytest
from PySide6.QtCore import Qt

from prune_gui.audit.diff.comparison import Overlap
from prune_gui.gui.views.compare.overlap_table import OverlapTable

ROWS = (
    Overlap("b", 4000, 0, 1, 9000, (("2:4",), ("2:4", "4:8"))),
    Overlap("a", 0, 3, 7, 20, ((), ("2:4",))),
    Overlap("c", 1, 3, 0, 20),
)


@pytest.fixture
def table(shown):
    made = shown(OverlapTable())
    made.show_rows(ROWS)
    return made


def _names(table):
    model = table.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def _click(qtbot, table, column):
    header = table.horizontalHeader()
    at = header.sectionViewportPosition(column) + 5
    place = header.rect().center()
    place.setX(at)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_it_has_a_row_per_parameter_in_the_order_of_the_file(table):
    model = table.model()
    headings = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    assert headings == ["Parameter", "Both", "Only left", "Only right", "IoU", "n:m"]
    assert [model.index(0, i).data() for i in range(5)] == ["b", "4,000", "0", "1", "1.000"]
    arrow = "\N{RIGHTWARDS ARROW}"
    followed = [f"2:4 {arrow} 2:4, 4:8", f"none {arrow} 2:4", ""]
    assert [model.index(row, 5).data() for row in range(3)] == followed
    assert _names(table) == ["b", "a", "c"]


def test_headings_sort_numbers_from_the_most_and_names_from_a(table, qtbot):
    _click(qtbot, table, 3)
    assert _names(table) == ["a", "b", "c"]
    _click(qtbot, table, 2)
    assert _names(table) == ["a", "c", "b"]  # of equals, the first in the file
    _click(qtbot, table, 2)
    assert _names(table) == ["b", "a", "c"]
    _click(qtbot, table, 0)
    assert _names(table) == ["a", "b", "c"]


def test_it_is_taken_away_in_the_order_in_which_it_is_shown(table, qtbot):
    _click(qtbot, table, 3)
    taken = table.as_table("compared")
    assert taken.headers == (
        *("Parameter", "Both", "Only left", "Only right", "IoU"),
        *("Entries", "n:m on the left", "n:m on the right"),
    )
    assert list(taken.rows) == [
        ("a", 0, 3, 7, 0.0, 20, "", "2:4"),
        ("b", 4000, 0, 1, 4000 / 4001, 9000, "2:4", "2:4, 4:8"),
        ("c", 1, 3, 0, 0.25, 20, "", ""),
    ]


def test_newer_figures_come_in_the_order_the_user_chose(table, qtbot):
    _click(qtbot, table, 3)
    table.show_rows((Overlap("x", 0, 0, 1, 9), Overlap("y", 0, 0, 2, 9)))
    assert _names(table) == ["y", "x"]


def test_going_to_a_row_chooses_its_parameter(table, qtbot):
    with qtbot.waitSignal(table.chosen) as chosen:
        table.setCurrentIndex(table.model().index(1, 2))
    assert chosen.args == ["a"]


def test_the_parameter_shown_is_marked_without_choosing_it_again(table, qtbot):
    with qtbot.assertNotEmitted(table.chosen):
        table.mark("c")
        _click(qtbot, table, 0)
        table.show_rows(ROWS[::-1])
    assert table.currentIndex().data() == "c"
    table.mark("nowhere")
    assert not table.currentIndex().isValid()


MANY = tuple(Overlap(f"layer.{row}", row, 0, 0, 999) for row in range(300))


def in_sight(table):
    at = table.visualRect(table.currentIndex())
    return at.isValid() and table.viewport().rect().contains(at)


def test_the_row_of_the_parameter_shown_is_in_sight_whatever_comes_first(table, qtbot):
    table.mark("layer.290")
    table.show_rows(MANY)
    assert in_sight(table)
    _click(qtbot, table, 1)
    assert table.currentIndex().row() == 9
    assert in_sight(table)
    table.verticalScrollBar().setValue(table.verticalScrollBar().maximum())
    table.mark("layer.150")
    assert in_sight(table)
    table.verticalScrollBar().setValue(0)
    table.show_rows(MANY[:200])
    assert in_sight(table)


def test_a_table_that_nobody_sees_shows_the_row_when_it_is_seen(table):
    table.hide()
    table.show_rows(MANY)
    table.mark("layer.290")
    table.show()
    assert in_sight(table)
