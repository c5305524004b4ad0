import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prune_gui.audit.statistics.axis_limits import (
    MIN_NUMBERS,
    MIN_STRETCH,
    count_beyond,
    inner_limit,
    inner_range,
    peak_limit,
)

COUNTS = arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 2000))


@given(COUNTS, st.booleans())
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
