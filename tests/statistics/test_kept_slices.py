"""Slices that a compact tensor keeps are found from values, and put back in their places."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import parallel
from prune_gui.statistics import kept_slices
from prune_gui.statistics.kept_slices import StoredTensor, find_kept, whole_reader


def _stored(values):
    return StoredTensor(values.shape, lambda start, stop: values.ravel()[start:stop])


def _part_of(values, *kept):
    return np.ascontiguousarray(values[np.ix_(*map(np.flatnonzero, kept))])


@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    dims=st.sets(st.integers(0, 3), max_size=3),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([np.float32, np.float64]),
    chunk=st.sampled_from([1, 7, 1 << 20]),
)
def test_a_part_is_put_back_in_its_place(shape, dims, seed, dtype, chunk):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape).astype(dtype)
    kept = [
        random.random(n) < 0.5 if dim in dims else np.ones(n, bool) for dim, n in enumerate(shape)
    ]
    part = _part_of(values, *kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        found = find_kept(_stored(values), _stored(part))
    assert found is not None
    if part.size:
        assert [one.tolist() for one in found] == [one.tolist() for one in kept]
    expected = np.zeros_like(values)
    expected[np.ix_(*kept)] = part
    read = whole_reader(values.shape, found, lambda start, stop: part.ravel()[start:stop])
    spans = [(at, min(at + 5, values.size)) for at in range(0, values.size, 5)]
    assert np.concatenate([read(*span) for span in spans]).tolist() == expected.ravel().tolist()


@pytest.mark.parametrize("kept", [([1, 0, 1], [1, 1]), ([1, 0, 1], [0, 1])])
def test_changed_or_reordered_slices_are_not_found(kept):
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    part = _part_of(values, *kept)
    assert find_kept(_stored(values), _stored(part)) is not None
    for other in (part + 1, part[::-1].copy()):
        assert find_kept(_stored(values), _stored(other)) is None
    assert find_kept(_stored(part), _stored(values)) is None


def test_slices_of_equal_values_are_the_first_ones():
    values = np.array([[1, 1], [1, 1], [2, 2]], np.float32)
    assert [one.tolist() for one in find_kept(_stored(values), _stored(values[1:]))] == [
        [True, False, True],
        [True, True],
    ]
    assert find_kept(_stored(values), _stored(values[1:, 1:].copy())) is None  # nothing tells which


def test_large_tensors_are_not_sorted(monkeypatch):
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    part = values[1:, 1:].copy()
    assert find_kept(_stored(values), _stored(part)) is not None
    monkeypatch.setattr(kept_slices, "MAX_SORTED_ELEMENTS", 5)
    assert find_kept(_stored(values), _stored(part)) is None
