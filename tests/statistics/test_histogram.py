import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.monitor import Monitor
from prune_gui.pruning import parallel
from prune_gui.statistics.histogram import bin_edges, histogram, value_range

HALF = {"method": "l1_unstructured", "amount": 0.5}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2]

values_32 = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(
    values=st.lists(values_32, min_size=1, max_size=60),
    dtype=st.sampled_from(DTYPES),
    bins=st.integers(1, 40),
    symmetric=st.booleans(),
    steps=st.lists(st.just(HALF), max_size=2),
    chunk=st.sampled_from([7, 1 << 21]),
)
def test_bins_equal_those_of_numpy_for_each_step(
    resolved, values, dtype, bins, symmetric, steps, chunk
):
    weights = torch.tensor(values).to(dtype)
    resolution = resolved(*steps, w=weights)
    wide, codes = weights.double().numpy(), resolution.pruned_by("w").numpy()
    finite = np.isfinite(wide)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        low, high = value_range(resolution, "w", Monitor())
        edges = bin_edges(low, high, bins, symmetric=symmetric)
        found = histogram(resolution, "w", edges, Monitor())
    if finite.any():
        assert (low, high) == (wide[finite].min(), wide[finite].max())
    for code, counts in zip(found.codes, found.counts, strict=True):
        chosen = wide[finite & (codes == code)]
        expected, _ = np.histogram(chosen, edges)
        np.testing.assert_array_equal(counts, expected)
    assert found.counts.sum() == np.count_nonzero(finite)
    assert (found.nan, found.infinite) == (np.isnan(wide).sum(), np.isinf(wide).sum())


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e300), st.integers(1, 300))
def test_edges_ascend_from_the_minimum_to_the_maximum(low, width, bins):
    high = min(low + width, 1.7e308)
    edges = bin_edges(min(low, high), high, bins, symmetric=False)
    assert len(edges) == bins + 1
    assert np.all(np.isfinite(edges))
    assert np.all(np.diff(edges) >= 0)
    assert edges[0] <= min(low, high)
    assert edges[-1] >= high


def test_symmetric_edges_are_symmetric_about_zero():
    np.testing.assert_array_equal(
        bin_edges(-1.0, 2.0, 4, symmetric=True), [-2.0, -1.0, 0.0, 1.0, 2.0]
    )


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 2, 2)])
def test_all_elements_are_counted_for_any_shape(resolved, shape):
    resolution = resolved(HALF, w=torch.full(shape, 0.25))
    edges = bin_edges(*value_range(resolution, "w", Monitor()), 8, symmetric=False)
    assert histogram(resolution, "w", edges, Monitor()).counts.sum() == math.prod(shape)


def test_a_parameter_without_finite_weights_is_no_error(resolved):
    resolution = resolved(w=torch.tensor([math.nan, math.inf, -math.inf]))
    low, high = value_range(resolution, "w", Monitor())
    found = histogram(resolution, "w", bin_edges(low, high, 4, symmetric=True), Monitor())
    assert (found.counts.sum(), found.nan, found.infinite) == (0, 1, 2)
