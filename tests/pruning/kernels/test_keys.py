import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning.kernels import keys as key_kernels

SIZES = st.sampled_from([0, 1, 7, 8, 9, *(key_kernels.BLOCK + i for i in (-1, 0, 1, 9, 5000))])
TYPES = st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64])


@st.composite
def keys_and_a_stretch(draw):
    """Bits of few or of many values, their magnitude, and two keys in order."""
    dtype, seed = draw(TYPES), draw(st.integers(0, 99))
    magnitude = np.iinfo(dtype).max // 2
    most = draw(st.sampled_from([3, 100, magnitude]))
    generator = np.random.default_rng(seed)
    size = draw(SIZES)
    signs = generator.integers(0, 2, size).astype(dtype) * dtype(magnitude + 1)
    bits = generator.integers(0, most, size, dtype, endpoint=True) | signs
    least, threshold = sorted(draw(st.tuples(*[st.integers(0, most)] * 2)))
    return bits, dtype(magnitude), dtype(least), dtype(threshold)


@given(keys_and_a_stretch(), st.integers(-3, 10_000), st.integers(0, 2))
def test_marking_sets_what_goes_and_is_not_marked_yet(drawn, last_tie, marked):
    bits, magnitude, _, threshold = drawn
    codes = np.arange(bits.size).astype(np.uint8) % 3 * marked
    keys = bits & magnitude
    goes = (keys < threshold) | ((keys == threshold) & (np.arange(bits.size) <= last_tie))
    expected = np.where(goes & (codes == 0), 9, codes)
    key_kernels.mark_below(bits, magnitude, threshold, last_tie, np.uint8(9), codes)
    np.testing.assert_array_equal(codes, expected)


@given(keys_and_a_stretch())
def test_all_that_lie_between_are_found_in_order(drawn):
    bits, magnitude, least, most = drawn
    keys = bits & magnitude
    found = np.empty(bits.size, np.uint32)
    count = key_kernels.find_between(bits, magnitude, least, most, found)
    np.testing.assert_array_equal(found[:count], np.flatnonzero((keys >= least) & (keys <= most)))


@given(keys_and_a_stretch(), st.booleans(), st.integers(0, 3))
def test_digits_of_the_keys_between_are_counted(drawn, some, shift):
    bits, magnitude, least, most = drawn
    remaining_mask = np.random.default_rng(0).random(bits.size) < 0.5 if some else None
    keys = bits & magnitude
    chosen = (keys >= least) & (keys <= most) & (True if remaining_mask is None else remaining_mask)
    counts, key = np.zeros(16, np.uint32), bits.dtype.type
    key_kernels.count_digits_between(
        bits, magnitude, remaining_mask, least, most, key(shift), key(15), counts
    )
    digits = keys[chosen] >> key(shift) & key(15)
    np.testing.assert_array_equal(counts, np.bincount(digits.astype(int), minlength=16))


@pytest.mark.parametrize("start", [0, 3, 17])
def test_each_row_is_marked_by_its_own_cut(start):
    bits = np.random.default_rng(0).integers(0, 4, 35).astype(np.uint16)
    thresholds, last_ties = np.array([0, 1, 2, 3, 4], np.uint16), np.array([6, -1, 3, 0, 2])
    rows, places = np.divmod(np.arange(35), 7)
    goes = (bits < thresholds[rows]) | ((bits == thresholds[rows]) & (places <= last_ties[rows]))
    codes = np.zeros(30 - start, np.uint8)
    codes[1] = 5
    expected = np.where(codes == 0, goes[start:30], codes)
    magnitude, step = np.uint16(0x7FFF), np.uint8(1)
    key_kernels.mark_rows(bits[start:30], magnitude, thresholds, last_ties, 7, start, step, codes)
    np.testing.assert_array_equal(codes, expected)
