from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt

from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.comparison.summary import summarize
from prune_gui.gui.views.compare.data import Shades, paint, split
from prune_gui.gui.views.compare.tables import OverlapTable
from prune_gui.gui.views.compare.text import (
    legend,
    points,
    share_text,
    summary_rows,
    total_text,
    worst_names,
)
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import DARK, LIGHT

SHADES = ("#000000", "#646464", "#ff0000")
share = st.floats(0, 1, width=32)


def _pixel(both, alone, shades=SHADES):
    one = [np.array([[value]], np.float32) for value in (both, alone)]
    return paint(shades[0], *zip(one, shades[1:], strict=True))[0, 0].tolist()


def test_uniform_cells_have_the_exact_colour():
    assert _pixel(0, 0) == [0, 0, 0, 255]
    assert _pixel(1, 0) == [100, 100, 100, 255]
    assert _pixel(0, 1) == [255, 0, 0, 255]


@given(share, share)
def test_a_lone_pruned_element_is_always_visible(both, alone):
    both *= 1 - alone
    red, green, _, _ = _pixel(both, alone)
    assert (red - green > 20) == (alone > 0)
    if alone < 1:
        assert red < 255
    if both > 0 and alone == 0:
        assert 20 < green <= 100


def test_each_theme_has_four_distinct_shades():
    for colours in (LIGHT, DARK):
        shades = Shades.of(colours)
        assert len({shades.kept, shades.both, shades.left, shades.right}) == 4


def test_the_legend_shows_only_colours_that_occur():
    text = legend(Overlap("w", 10, 0, 30, 100), LIGHT).replace("&nbsp;", " ")
    assert "pruned in both 10 (10.0 %)" in text
    assert "only right 30 (30.0 %)" in text
    assert "kept in both 60 (60.0 %)" in text
    assert "only left" not in text
    assert "IoU 0.250" in text


def test_the_total_text_says_when_nothing_differs():
    none = Counter()
    assert "both prune the same 1,200 weights" in total_text(Overlap("", 1200, 0, 0, 5000), none)
    assert total_text(Overlap("", 0, 0, 0, 0), none).startswith("No parameter")
    assert "5 only left" in total_text(Overlap("", 1200, 5, 0, 5000), none)


def test_a_split_picture_has_the_left_side_up_to_the_column():
    left, right = np.zeros((2, 5, 4), np.uint8), np.ones((2, 5, 4), np.uint8)
    for columns, at, first in (
        (range(10), 3.5, 2),  # two columns per cell
        (range(10), -9.0, 0),
        (range(10), 99.0, 5),
        (range(10, 15), 12.5, 3),
    ):
        row = split(left, right, columns, at)[0, :, 0].tolist()
        assert row == [0] * first + [1] * (5 - first)


HALF = {"method": "l1_unstructured", "amount": 0.5}


def _texts(summary):
    return {row.title: [cell.text for cell in row.cells] for row in summary_rows(summary)}


def _summary(left, right, name="w", wanted=True):
    return summarize(name, left, right, right, None, lambda _: wanted, Monitor())


def test_there_is_a_column_for_the_parameter_and_one_for_all(resolved):
    tensors = {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]]), "v": torch.ones(1, 4)}
    step = {**HALF, "targets": ["w"]}
    texts = _texts(_summary(resolved(**tensors), resolved(step, **tensors)))
    assert texts["Sparsity"] == ["0.0 %", "0.0 %", "50.0 %", "25.0 %", "+50.0 pp", "+25.0 pp"]
    assert texts["Pruned"] == ["0", "0", "2", "2", "+2", "+2"]
    minus = "\N{MINUS SIGN}"
    energies = ["100 %", "100 %", "83.33 %", "85.29 %", f"{minus}16.67 pp", f"{minus}14.71 pp"]
    assert texts["Kept energy"] == energies
    dash = "\N{EN DASH}"
    assert texts["Worst layer"] == ["", dash, "", "83.33 %", "", dash]


def test_the_worst_layers_are_named(resolved):
    tensors = {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]])}
    summary = _summary(resolved(**tensors), resolved(HALF, **tensors))
    assert worst_names(summary) == ("", "Worst on the right: w")
    assert worst_names(None) == ("", "")


def test_unknown_numbers_are_an_ellipsis(resolved):
    left = resolved(HALF, w=torch.arange(8.0).reshape(2, 4))
    texts = _texts(_summary(left, left, wanted=False))
    assert texts["Kept energy"] == ["…"] * 6
    assert texts["Sparsity"][0] == "50.0 %"
    assert set(_texts(None)["Sparsity"]) == {"…"}


def test_a_parameter_that_one_side_lacks_has_dashes(resolved):
    left, right = resolved(v=torch.ones(4)), resolved(w=torch.ones(4))
    assert _texts(_summary(left, right))["Sparsity"][::2] == ["\N{EN DASH}"] * 3


def test_large_numbers_are_short_with_the_exact_number_in_the_tip(resolved):
    left, right = (resolved(*steps, w=torch.ones(100, 100)) for steps in ((), (HALF,)))
    row = next(r for r in summary_rows(_summary(left, right)) if r.title == "Pruned")
    assert [(row.cells[i].text, row.cells[i].tip) for i in (2, 4)] == [
        ("5.0 k", "5,000 of 10,000"),
        ("+5.0 k", "+5,000"),
    ]


def test_shares_and_their_differences_have_a_sign_and_a_unit():
    assert [points(change, 1) for change in (0.5, 0.0, -0.0001, -0.125)] == [
        "+50.0 pp",
        "0.0 pp",
        "0.0 pp",
        "\N{MINUS SIGN}12.5 pp",
    ]
    assert [share_text(share) for share in (1.0, 0.5)] == ["100 %", "50.00 %"]
    assert share_text(float("nan")) == points(float("nan"), 1) == "\N{EN DASH}"


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
