from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.distribution.cut_line import (
    AxisScale,
    CutLine,
    arrange_labels,
    label_lines,
    label_span,
)
from prune_gui.gui.views.plot import Plot
from prune_gui.raster.colours import LIGHT
from prune_gui.statistics.element_scores import StepCut

REACH = st.tuples(st.floats(0, 1000), st.floats(1, 300)).map(lambda at: (at[0], sum(at)))


@pytest.fixture
def plot(shown):
    widget = shown(Plot())
    widget.setXRange(0, 1, padding=0)
    widget.setYRange(0, 100, padding=0)
    return widget


@pytest.fixture
def draw(plot):
    """Return a function that draws cuts: of steps at given values, and of the draft."""

    def draw_cuts(*steps, draft):
        cuts = [CutLine(plot) for _ in range(len(steps) + 1)]
        for number, (cut, value) in enumerate(zip(cuts, (*steps, draft), strict=True), start=1):
            scale, drafted = AxisScale(signed=False), cut is cuts[-1]
            value_cut, text = StepCut(value), f"step {number}"
            cut.show_cut(value_cut, text, LIGHT, scale, limit=1.0, drafted=drafted)
        arrange_labels(plot, cuts)
        return cuts

    return draw_cuts


def label_rect(cut):
    return cut.label.mapRectToScene(cut.label.boundingRect())


def test_labels_are_stacked_above_lines(draw):
    cuts = draw(0.30, 0.31, 0.32, draft=0.29)
    lowest_label = min(cut.label.zValue() for cut in cuts)
    assert all(
        line.zValue() < lowest_label for cut in cuts for line in (cut._negative, cut._positive)
    )
    assert cuts[-1]._positive.zValue() > cuts[0]._positive.zValue()


def test_labels_of_close_cuts_are_visible_and_do_not_overlap(draw, plot):
    cuts = draw(*(0.3 + 0.01 * step for step in range(9)), draft=0.32)
    for one, other in combinations(cuts, 2):
        assert not label_rect(one).adjusted(1, 1, -1, -1).intersects(label_rect(other))
    view_rect = plot.view.mapRectToScene(plot.view.boundingRect()).adjusted(-1, -1, 1, 1)
    assert all(view_rect.contains(label_rect(cut)) for cut in cuts)


def test_labels_that_do_not_overlap_share_a_text_line(draw):
    first, second, draft = draw(0.0, 0.6, draft=0.01)
    assert label_rect(first).top() == label_rect(second).top() < label_rect(draft).top()


@given(st.lists(REACH, max_size=12))
def test_labels_never_overlap_with_enough_text_lines(spans):
    lines = label_lines(spans, len(spans))
    for (one, first), (other, second) in combinations(zip(spans, lines, strict=True), 2):
        assert first != second or one[1] <= other[0] or other[1] <= one[0]


def test_labels_without_a_free_text_line_share_the_last():
    assert label_lines([(0, 9)] * 4, 2) == [0, 1, 1, 1]
    assert label_lines([(0, 9)] * 2, 0) == [0, 0]


def test_a_label_is_on_the_left_if_the_right_has_no_space():
    assert label_span(10, 80, 100) == (10, 90)
    assert label_span(30, 80, 100) == (-50, 30)
