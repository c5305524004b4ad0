import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prune_gui.gui.views.bars.data import (
    FLOOR,
    MIN_NUMBERS,
    MIN_STRETCH,
    channel_bars,
    count_beyond,
    in_order,
    inner_limit,
    inner_range,
    peak_limit,
    stacked,
)

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


BAR_COUNTS = arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 2000))


@given(BAR_COUNTS, st.booleans())
def test_an_inner_range_leaves_out_at_most_a_thousandth_and_only_if_it_is_much_shorter(
    counts, symmetric
):
    positions = np.linspace(-1, 1, len(counts) + 1)
    low, high = inner_range(positions, counts, symmetric=symmetric)
    left_out = sum(count_beyond(positions, counts, low, high))
    assert left_out <= counts.sum() / 1000
    assert (low, high) == (-1, 1) or (high - low) * MIN_STRETCH <= 2
    assert not symmetric or low == -high


@given(arrays(np.float64, st.integers(0, 3000), elements=st.floats(0, 1e6)))
def test_an_inner_limit_leaves_out_at_most_a_thousandth_and_only_far_numbers(numbers):
    limit, highest = inner_limit(numbers), numbers.max(initial=0)
    assert (numbers > limit).sum() <= -(-len(numbers) // 1000)
    assert limit == highest or limit * MIN_STRETCH <= highest


def test_one_outlier_does_not_flatten_the_others():
    numbers = np.append(np.linspace(1, 2, 999), 1000)
    assert inner_limit(numbers) == 2
    assert inner_limit(np.append(np.zeros(999), 3.0)) == 3
    assert inner_limit(numbers[-MIN_NUMBERS + 1 :]) == 1000
    counts = np.r_[np.full(20, 1000), np.zeros(179, np.int64), 7]
    positions = np.arange(201.0)
    assert inner_range(positions, counts, symmetric=False) == (0, 20)
    assert count_beyond(positions, counts, 0, 20) == (0, 7)


def test_what_is_beyond_a_range_is_counted_by_the_middle_of_its_bin():
    counts, positions = np.array([1, 2, 4, 8]), np.arange(5.0)
    assert count_beyond(positions, counts, 1, 3) == (1, 8)
    assert count_beyond(positions, counts, 0.4, 3.6) == (0, 0)
    assert count_beyond(positions, counts, 1.6, 2.4) == pytest.approx((3, 12))


def test_only_a_much_higher_bar_goes_beyond_the_axis():
    assert peak_limit(np.array([5, 900, 7, 6])) == 7
    assert peak_limit(np.array([5, 20, 7])) == 20
    assert peak_limit(np.array([0, 900, 0])) == 900
    assert peak_limit(np.array([4])) == 4
    assert peak_limit(np.zeros(3, np.int64)) == 1
