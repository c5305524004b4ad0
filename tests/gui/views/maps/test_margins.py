import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.maps.margins import bars, reach


@given(
    st.lists(st.floats(0, 1) | st.just(float("nan")), min_size=1, max_size=300),
    st.floats(-50, 350),
    st.floats(0.1, 400),
    st.integers(1, 50),
)
def test_bars_are_the_means_of_the_visible_lines(shares, start, length, max_bars):
    share = np.array(shares)
    edges, heights = bars(share, (start, start + length), max_bars)
    assert 1 <= len(heights) <= max_bars
    assert len(edges) == len(heights) + 1
    for low, high, height in zip(edges[:-1], edges[1:], heights, strict=True):
        lines = share[int(low + 0.5) : int(high + 0.5)]
        assert len(lines) > 0
        finite = lines[~np.isnan(lines)]
        assert height == pytest.approx(finite.mean() if len(finite) else 0.0)


def test_only_visible_lines_have_bars():
    edges, heights = bars(np.linspace(0, 1, 11), (2.6, 5.4))
    assert edges.tolist() == [2.5, 3.5, 4.5, 5.5]
    assert heights.tolist() == pytest.approx([0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    ("means", "ends"),
    [
        ([0.5, 2.0], (0, 2)),
        ([-1.0, 0.5, np.nan], (-1, 0.5)),
        ([-3.0, -1.0], (-3, 0)),
        ([0.0, 0.0], (0, 1)),
        ([np.nan], (0, 1)),
    ],
)
def test_the_range_of_bars_includes_zero_and_all_means(means, ends):
    assert reach(np.array(means)) == ends
