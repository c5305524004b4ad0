import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt

from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.comparison.state_losses import compute_losses, empty_losses
from prune_gui.gui.views.compare.data import Shades, paint, split
from prune_gui.gui.views.compare.text import (
    LOSS_COLUMNS,
    LossScale,
    equal_decimals,
    headline,
    legend,
    total_text,
)
from prune_gui.gui.views.compare.view import LossTable
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
    assert "pruned only on the right 30 (30.0 %)" in text
    assert "kept in both 60 (60.0 %)" in text
    assert "pruned only on the left" not in text
    assert text.count("■") == 2
    assert text.count("□") == 1  # outlined: what is kept is pale
    assert "IoU 0.250" in text


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
TENSORS = {"b": [1.0, 2.0], "c": [3.0, 3.0], "a": [1.0, 9.0], "d": [0.0, 0.0]}


@pytest.fixture
def losses(resolved):
    tensors = {name: torch.tensor(weights) for name, weights in TENSORS.items()}
    left, right = resolved(**tensors), resolved({**HALF, "targets": ["a", "b"]}, **tensors)
    return empty_losses(left, right)


@pytest.fixture
def table(shown, losses):
    widget = shown(LossTable())
    widget.show_rows(compute_losses(losses, lambda _: True, Monitor()))
    return widget


def test_the_headline_names_the_parameter_that_lost_most(losses):
    assert headline(losses, "#000000") == "…"
    assert total_text(losses) == "0 % of the weights read"
    done = compute_losses(losses, lambda _: True, Monitor())
    link = '<a style="color: #000000" href="b">b</a>'
    assert headline(done, "#000000") == f"Most lost: {link}, 20.0&nbsp;%"
    arrow = "\N{RIGHTWARDS ARROW}"
    assert total_text(done) == (f"In all: sparsity 25.0 % {arrow} 50.0 %, 1.9 % of the energy lost")


def test_the_sparsity_in_all_is_that_of_weights(resolved):
    left = resolved(n__weight=torch.ones(4), n__running_mean=torch.ones(4))
    right = resolved(n__weight=torch.tensor([1.0, 1, 0, 0]), n__running_mean=torch.zeros(4))
    done = compute_losses(empty_losses(left, right), lambda _: True, Monitor())
    assert "0.0 % \N{RIGHTWARDS ARROW} 50.0 %, 50.0 % of the energy" in total_text(done)


def test_the_headline_names_what_changed_most_where_nothing_is_lost(resolved):
    left, right = (
        resolved(v=torch.ones(4), w=torch.ones(4)),
        resolved(v=torch.ones(4), w=torch.full((4,), 3.0)),
    )
    done = compute_losses(empty_losses(left, right), lambda _: True, Monitor())
    assert headline(done, "#000000").endswith('href="w">w</a>, by 4')
    same = compute_losses(empty_losses(left, left), lambda _: True, Monitor())
    assert headline(same, "#000000") == "No energy is lost from left to right."
    smaller = resolved(v=torch.ones(2), w=torch.ones(4))
    less = compute_losses(empty_losses(left, smaller), lambda _: True, Monitor())
    assert headline(less, "#000000").endswith('href="v">v</a>, 50.0&nbsp;%')
    other = resolved(v=torch.zeros(2), w=torch.ones(4))
    less = compute_losses(empty_losses(left, other), lambda _: True, Monitor())
    assert headline(less, "#000000") == "No energy is lost in the parameters of equal shapes."
    assert total_text(less) == (
        "In the parameters of equal shapes: "
        "sparsity 0.0 % \N{RIGHTWARDS ARROW} 0.0 %, 0.0 % of the energy lost. "
        "1 parameter has another shape: what it lost is not known"
    )
    none = compute_losses(
        empty_losses(resolved(v=torch.ones(4)), resolved(v=torch.zeros(2))),
        lambda _: True,
        Monitor(),
    )
    assert total_text(none) == "1 parameter has another shape: what it lost is not known"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.933, 8.48, 11.1, 0.0], ["0.93", "8.48", "11.10", "0.00"]),
        ([0.0123, 0.5, 1e-9], ["0.012", "0.500", "< 0.001"]),
        ([1e-7, 2e-7], ["1.00e-07", "2.00e-07"]),
        ([0.0], ["0.00"]),
    ],
)
def test_changes_have_equal_decimals(values, texts):
    assert [equal_decimals(value, max(values)) for value in values] == texts


def test_colours_are_from_the_smallest_to_the_largest_loss_that_is_shown(losses):
    done = compute_losses(losses, lambda _: True, Monitor())  # b loses 20 %, and a 1.2 %
    shades = LossScale.of(done, {"a", "b", "c"})
    assert shades.colour(0.0, LIGHT) == LIGHT.scale[0]
    assert shades.colour(shades.smallest, LIGHT) == LIGHT.scale[1]
    assert shades.colour(0.2, LIGHT) == LIGHT.scale[-1]
    text = shades.legend(LIGHT).replace("&nbsp;", " ")
    assert [part for part in ("0.0 %", "1.2 %", "5.9 %", "20.0 %") if part not in text] == []
    only = LossScale.of(done, {"a", "c"})
    assert only.colour(only.largest, LIGHT) == LIGHT.scale[-1]
    assert "20.0" not in only.legend(LIGHT)
    none = LossScale.of(done, {"c"})
    assert none.legend(LIGHT).count("%") == 1


def test_bars_of_infinite_changes_are_full(resolved):
    large = torch.full((4,), 1e300, dtype=torch.float64)
    left, right = resolved(v=large, w=torch.ones(4)), resolved(v=-large, w=torch.zeros(4))
    done = compute_losses(empty_losses(left, right), lambda _: True, Monitor())
    [change] = [column for column in LOSS_COLUMNS if column.title == "Change"]
    assert change.bar(done).tolist() == [1, 1]


def mark(table, name):
    table.mark(lambda row: row == name)


def _names(table):
    model = table.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def _click(qtbot, table, column):
    header = table.horizontalHeader()
    at = header.sectionViewportPosition(column) + 5
    position = header.rect().center()
    position.setX(at)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=position)


def test_the_largest_loss_is_first_and_unknown_ones_are_last(table, losses):
    model = table.model()
    headings = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    assert headings == ["Parameter", "Lost", "Before", "After", "Change", "IoU", "Error"]
    assert table.isColumnHidden(6)  # nothing was reconstructed
    cells = [model.index(0, i).data() for i in range(6)]
    assert cells == ["b", "20.0 %", "0.0 %", "50.0 %", "1.00", "0.000"]
    assert _names(table) == ["b", "a", "c", "d"]
    assert model.index(3, 1).data() == "\N{EN DASH}"
    table.show_rows(losses)
    assert [model.index(0, i).data() for i in (1, 3)] == ["…", "…"]


def test_names_stay_readable_in_a_narrow_table(table, qtbot):
    table.resize(700, 200)
    qtbot.wait(1)
    assert sum(map(table.columnWidth, range(6))) == table.viewport().width()
    table.resize(300, 200)
    qtbot.wait(1)
    assert table.columnWidth(0) == 176
    assert table.horizontalScrollBar().maximum() > 0


def test_each_cell_has_a_bar_that_is_visible_in_a_selected_row_too(table):
    table.resize(700, 200)
    for selected in (False, True):
        if selected:
            table.setCurrentIndex(table.model().index(0, 0))
        rect = table.visualRect(table.model().index(0, 3))
        image = table.viewport().grab(rect).toImage()
        left, right = (image.pixelColor(x, 3) for x in (6, rect.width() - 6))
        assert left != right


def test_headings_sort_numbers_descending_and_names_ascending(table, qtbot):
    _click(qtbot, table, 2)
    assert _names(table)[0] == "d"
    _click(qtbot, table, 0)
    assert _names(table) == ["a", "b", "c", "d"]
    taken = table.as_table("compared")
    headings = ("Parameter", "Lost", "Before", "After", "Change", "IoU")
    assert taken.headers == headings
    rows = list(taken.rows)
    assert rows[1] == ("b", 0.2, 0.0, 0.5, 1.0, 0.0)
    assert rows[3][1] is None


def test_selecting_a_row_chooses_its_parameter(table, qtbot):
    with qtbot.waitSignal(table.chosen) as chosen:
        table.setCurrentIndex(table.model().index(1, 2))
    assert chosen.args == ["a"]


def test_marking_a_row_does_not_emit_chosen(table, qtbot):
    with qtbot.assertNotEmitted(table.chosen):
        mark(table, "c")
        _click(qtbot, table, 0)
    assert table.currentIndex().data() == "c"
    mark(table, "nowhere")
    assert not table.currentIndex().isValid()


@pytest.fixture
def many(resolved):
    names = {f"layer.{row}": torch.ones(2) for row in range(300)}
    state = resolved(**names)
    return compute_losses(empty_losses(state, state), lambda _: True, Monitor())


def in_sight(table):
    at = table.visualRect(table.currentIndex())
    return at.isValid() and table.viewport().rect().contains(at)


def test_the_marked_row_is_scrolled_into_view_and_sorting_shows_the_top(table, qtbot, many):
    mark(table, "layer.290")
    table.show_rows(many)
    assert table.verticalScrollBar().value() == 0
    assert table.currentIndex().data() == "layer.290"
    mark(table, "layer.291")
    assert in_sight(table)
    table.show_rows(many)
    assert in_sight(table)
    _click(qtbot, table, 0)
    assert table.verticalScrollBar().value() == 0
    mark(table, "layer.150")
    assert in_sight(table)


def test_a_hidden_table_shows_the_marked_row_once_it_is_visible(table, many):
    table.hide()
    table.show_rows(many)
    mark(table, "layer.290")
    table.show()
    assert in_sight(table)
