import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning.kernels import key_loops as key_kernels

SIZES = st.sampled_from([0, 1, 7, 8, 9, *(key_kernels.BLOCK + i for i in (-1, 0, 1, 9, 5000))])
TYPES = st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64])


@st.composite
def bits_and_key_range(draw):
    """Bits of few or of many values, their magnitude, and two keys in ascending order."""
    dtype, seed = draw(TYPES), draw(st.integers(0, 99))
    magnitude = np.iinfo(dtype).max // 2
    max_key = draw(st.sampled_from([3, 100, magnitude]))
    generator = np.random.default_rng(seed)
    size = draw(SIZES)
    signs = generator.integers(0, 2, size).astype(dtype) * dtype(magnitude + 1)
    bits = generator.integers(0, max_key, size, dtype, endpoint=True) | signs
    low, high = sorted(draw(st.tuples(*[st.integers(0, max_key)] * 2)))
    return bits, dtype(magnitude), dtype(low), dtype(high)


@given(bits_and_key_range(), st.integers(-3, 10_000), st.integers(0, 2))
def test_mark_below_sets_the_codes_of_unmarked_elements_below_the_cut(drawn, last_tie, marked):
    bits, magnitude, _, threshold = drawn
    codes = np.arange(bits.size).astype(np.uint8) % 3 * marked
    keys = bits & magnitude
    below_cut = (keys < threshold) | ((keys == threshold) & (np.arange(bits.size) <= last_tie))
    expected = np.where(below_cut & (codes == 0), 9, codes)
    for run in (key_kernels.mark_below, key_kernels.mark_below._interpret):
        found = codes.copy()
        run(bits, magnitude, threshold, last_tie, np.uint8(9), found)
        np.testing.assert_array_equal(found, expected)


@given(bits_and_key_range(), st.booleans(), st.integers(0, 7))
def test_count_leading_counts_the_leading_digits_of_remaining_bits(drawn, masked, shift):
    bits = drawn[0].astype(np.uint16) & np.uint16(0xFFF)
    remaining_mask = np.random.default_rng(0).random(bits.size) < 0.5 if masked else None
    remaining = bits if remaining_mask is None else bits[remaining_mask]
    expected = np.bincount(remaining >> shift, minlength=1 << 12)
    for run in (key_kernels.count_leading, key_kernels.count_leading._interpret):
        counts = np.ones((2, 1 << 12), np.uint32)
        run(bits, remaining_mask, np.uint16(shift), counts)
        np.testing.assert_array_equal(counts.sum(axis=0) - 2, expected)


@given(bits_and_key_range())
def test_find_between_returns_the_positions_in_order(drawn):
    bits, magnitude, low, high = drawn
    keys = bits & magnitude
    positions = np.empty(bits.size, np.uint32)
    count = key_kernels.find_between(bits, magnitude, low, high, positions)
    np.testing.assert_array_equal(positions[:count], np.flatnonzero((keys >= low) & (keys <= high)))


@given(bits_and_key_range(), st.booleans(), st.integers(0, 3))
def test_count_digits_between_counts_the_digits_of_keys_in_the_range(drawn, masked, shift):
    bits, magnitude, low, high = drawn
    remaining_mask = np.random.default_rng(0).random(bits.size) < 0.5 if masked else None
    keys = bits & magnitude
    chosen = (keys >= low) & (keys <= high) & (True if remaining_mask is None else remaining_mask)
    key = bits.dtype.type
    digits = keys[chosen] >> key(shift) & key(15)
    for run in (key_kernels.count_digits_between, key_kernels.count_digits_between._interpret):
        counts = np.ones(16, np.uint32)
        run(bits, magnitude, remaining_mask, low, high, key(shift), key(15), counts)
        expected = np.bincount(digits.astype(int), minlength=16)
        np.testing.assert_array_equal(counts - 1, expected)


@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    span=st.tuples(*[st.integers(0, 729)] * 2),
    seed=st.integers(0, 99),
)
def test_mark_channels_sets_the_codes_of_unmarked_elements_of_pruned_channels(shape, span, seed):
    generator = np.random.default_rng(seed)
    pruned = generator.random(shape[1]) < 0.5
    codes = generator.integers(0, 2, shape, np.uint8)
    expected = np.where(pruned[:, None] & (codes == 0), 9, codes).ravel()
    start, stop = sorted(min(each, codes.size) for each in span)
    for run in (key_kernels.mark_channels, key_kernels.mark_channels._interpret):
        found = codes.ravel()[start:stop].copy()
        run(pruned, shape[2], start, np.uint8(9), found)
        np.testing.assert_array_equal(found, expected[start:stop])


@pytest.mark.parametrize("start", [0, 3, 17])
def test_mark_rows_applies_a_cut_per_row(start):
    bits = np.random.default_rng(0).integers(0, 4, 35).astype(np.uint16)
    thresholds, last_ties = np.array([0, 1, 2, 3, 4], np.uint16), np.array([6, -1, 3, 0, 2])
    rows, columns = np.divmod(np.arange(35), 7)
    below_cut = (bits < thresholds[rows]) | (
        (bits == thresholds[rows]) & (columns <= last_ties[rows])
    )
    codes = np.zeros(30 - start, np.uint8)
    codes[1] = 5
    expected = np.where(codes == 0, below_cut[start:30], codes)
    magnitude, step = np.uint16(0x7FFF), np.uint8(1)
    key_kernels.mark_rows(bits[start:30], magnitude, thresholds, last_ties, 7, start, step, codes)
    np.testing.assert_array_equal(codes, expected)
