import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prune_gui.gui.views.stacked_bars import FLOOR, channel_bars, in_order, stacked

COUNTS = arrays(
    np.int64, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=st.integers(0, 10**9)
)


@given(COUNTS)
def test_segment_heights_equal_the_counts(counts):
    np.testing.assert_array_equal(np.diff(stacked(counts, log=False), axis=0), counts)


@given(COUNTS)
def test_a_count_of_one_is_visible_on_a_logarithmic_axis_and_zero_is_not(counts):
    tops = stacked(counts, log=True)
    sums = counts.sum(0)
    assert np.all(np.diff(tops, axis=0) >= 0)
    assert np.all(tops[-1][sums == 0] == FLOOR)
    np.testing.assert_allclose(tops[-1][sums > 0], np.log10(sums[sums > 0]))
    assert np.all(tops[-1][sums == 1] > FLOOR)


@given(st.integers(1, 40), st.integers(1, 50), st.booleans(), st.data())
def test_channel_bars_show_the_largest_norms_of_their_channels(channels, max_bars, ascending, data):
    finite = arrays(np.float64, (3, channels), elements=st.floats(0, 1e6))
    parts = np.sort(data.draw(finite), axis=0)
    is_odd = data.draw(arrays(np.bool_, channels))
    parts[-1, is_odd] = data.draw(st.sampled_from([np.nan, np.inf]))
    is_dead = data.draw(arrays(np.bool_, channels))
    start = data.draw(st.integers(0, channels - 1))
    positions = range(start, data.draw(st.integers(start + 1, channels)))
    order = in_order(parts[-1], ascending=ascending)
    bars = channel_bars(parts, is_dead, order, positions, max_bars)
    assert bars.edges[0] == positions.start
    assert bars.edges[-1] == positions.stop
    assert len(bars.dead) == min(max_bars, len(positions))
    for i, dead in enumerate(bars.dead):
        group = order[bars.edges[i] : bars.edges[i + 1]]
        finite_parts = parts[:, group[~is_odd[group]]]
        assert bars.tops[0, i] == 0
        np.testing.assert_array_equal(bars.tops[1:, i], finite_parts.max(1, initial=0.0))
        assert dead == is_dead[group].any()
        assert bars.non_finite[i] == is_odd[group].any()
        assert bars.minimum[i] == finite_parts[-1].min(initial=bars.tops[-1, i])
    marked = data.draw(arrays(np.bool_, channels))
    groups = zip(bars.edges[:-1], bars.edges[1:], strict=True)
    assert bars.any_of(marked).tolist() == [marked[slice(*ends)].any() for ends in groups]


def test_order_by_norm_is_ascending_with_nan_last():
    norms = np.array([3.0, np.nan, 1.0, 2.0])
    assert in_order(norms, ascending=True).tolist() == [2, 3, 0, 1]
    assert in_order(norms, ascending=False).tolist() == [0, 1, 2, 3]
