from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.distribution.cut_line import CutLine, Scale, arrange, lines_for, span
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.widgets.theme import LIGHT

REACH = st.tuples(st.floats(0, 1000), st.floats(1, 300)).map(lambda at: (at[0], sum(at)))


@pytest.fixture
def plot(shown):
    made = shown(Plot())
    made.setXRange(0, 1, padding=0)
    made.setYRange(0, 100, padding=0)
    return made


@pytest.fixture
def draw(plot):
    """Return what draws cuts: of steps at some values, and of the draft at another."""

    def drawn(*steps, draft):
        cuts = [CutLine(plot) for _ in range(len(steps) + 1)]
        for number, (cut, value) in enumerate(zip(cuts, (*steps, draft), strict=True), start=1):
            limit = 1.0 if cut is cuts[-1] else None
            cut.show_cut(value, f"step {number}", LIGHT, Scale(signed=False), limit=limit)
        arrange(plot, cuts)
        return cuts

    return drawn


def place(cut):
    return cut.label.mapRectToScene(cut.label.boundingRect())


def test_every_text_is_above_every_line(draw):
    cuts = draw(0.30, 0.31, 0.32, draft=0.29)
    least = min(cut.label.zValue() for cut in cuts)
    assert all(line.zValue() < least for cut in cuts for line in (cut._negative, cut._positive))
    assert cuts[-1]._positive.zValue() > cuts[0]._positive.zValue()


def test_texts_of_close_cuts_do_not_meet_and_are_in_sight(draw, plot):
    cuts = draw(*(0.3 + 0.01 * step for step in range(9)), draft=0.32)
    for one, other in combinations(cuts, 2):
        assert not place(one).adjusted(1, 1, -1, -1).intersects(place(other))
    seen = plot.view.mapRectToScene(plot.view.boundingRect()).adjusted(-1, -1, 1, 1)
    assert all(seen.contains(place(cut)) for cut in cuts)


def test_texts_that_do_not_meet_share_a_line(draw):
    first, second, draft = draw(0.0, 0.6, draft=0.01)
    assert place(first).top() == place(second).top() < place(draft).top()


def test_a_text_changes_sides_as_the_picture_moves_and_goes_with_its_line(draw, plot):
    [cut] = draw(draft=0.5)
    line = plot.view.mapViewToScene(cut._positive.pos()).x()
    assert place(cut).left() == pytest.approx(line, abs=1)
    plot.setXRange(0.0, 0.51, padding=0)
    arrange(plot, [cut])
    line = plot.view.mapViewToScene(cut._positive.pos()).x()
    assert place(cut).right() == pytest.approx(line, abs=1)
    plot.setXRange(0.6, 1.0, padding=0)
    arrange(plot, [cut])
    assert not cut.label.isVisible()


@given(st.lists(REACH, max_size=12))
def test_with_a_line_for_each_no_texts_meet(spans):
    lines = lines_for(spans, len(spans))
    for (one, first), (other, second) in combinations(zip(spans, lines, strict=True), 2):
        assert first != second or one[1] <= other[0] or other[1] <= one[0]


def test_texts_without_a_free_line_are_in_the_last():
    assert lines_for([(0, 9)] * 4, 2) == [0, 1, 1, 1]
    assert lines_for([(0, 9)] * 2, 0) == [0, 0]


def test_a_text_is_on_the_left_where_the_right_has_no_room():
    assert span(10, 80, 100) == (10, 90)
    assert span(30, 80, 100) == (-50, 30)
