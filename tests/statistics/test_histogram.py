"""Histograms equal those of numpy, newly counted and updated after a moved cut."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import parallel
from prune_gui.errors import StepError
from prune_gui.monitor import Monitor
from prune_gui.pruning.selection import digit_histograms, radix_select
from prune_gui.recipe import Recipe, Step, initial_resolution
from prune_gui.statistics import kernels
from prune_gui.statistics.histogram import aligned_edges, bin_edges, histogram, value_range

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
# Few distinct values, so that ties are common; both zeros, infinities and NaN among them.
FEW = [0.0, -0.0, 0.25, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0, 1.25, -3.0, np.inf, -np.inf, np.nan]
values = st.lists(
    st.sampled_from(FEW) | st.floats(-1.5, 1.5, width=32), min_size=1, max_size=60
) | st.lists(st.sampled_from(FEW), min_size=30, max_size=60)
all_values = st.floats(width=32, allow_nan=True, allow_infinity=True)
HALF = {"method": "l1_unstructured", "amount": 0.5}
shares = st.sampled_from([0.1, 0.25, 0.4, 0.5, 0.75]) | st.floats(0, 1)
cut_steps = st.one_of(
    st.builds(
        lambda amount, scope: {"method": "l1_unstructured", "amount": amount, "scope": scope},
        shares,
        st.sampled_from(["local", "global"]),
    ),
    st.builds(
        lambda value: {"method": "threshold", "value": value},
        st.sampled_from([0.0, 0.5, 1.0, 3.5, 1e9]) | st.floats(0, 1.5, width=32),
    ),
    st.builds(lambda amount: {"method": "erk", "amount": amount}, shares),
)
other_steps = st.sampled_from(
    [
        {"method": "random_unstructured", "amount": 0.3},
        {"method": "l1_unstructured", "amount": 0.3, "scope": "row"},
        {"method": "n_m", "n": 1, "m": 2},
        {"method": "ln_structured", "amount": 0.5, "n": 2, "dim": 0},
    ]
)


@given(
    values=st.lists(all_values, min_size=1, max_size=60),
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
    assert bin_edges(-1.0, 2.0, 4, symmetric=True).tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_aligned_bins_of_16_bit_weights_have_no_comb(resolved, dtype):
    weights = torch.rand(1 << 20, generator=torch.Generator().manual_seed(0)) * 0.4 - 0.2
    resolution = resolved(w=weights.to(dtype))
    edges = bin_edges(*value_range(resolution, "w", Monitor()), 900, symmetric=True)

    def roughness(edges):
        [counts] = histogram(resolution, "w", edges, Monitor()).counts
        inner = counts[5:-5]
        return (inner.max() - inner.min()) / inner.mean()

    aligned = aligned_edges(edges, 0.2, [torch.float32, dtype])
    assert aligned[0] <= edges[0]
    assert aligned[-1] >= edges[-1]
    assert (aligned == -aligned[::-1]).all()
    assert roughness(edges) > 0.4
    assert roughness(aligned) < 0.3  # at random
    assert aligned_edges(edges, 0.2, [torch.float32]) is edges


def after(resolution, step):
    return resolution.with_step(Step.model_validate({"targets": ["*"], **step}), Monitor())


def whole(edges, weights, codes):
    """Return the counts by definition, for the codes that occur."""
    finite = np.isfinite(weights)
    return {
        code: np.histogram(weights[finite & (codes == code)], edges)[0] for code in np.unique(codes)
    }


@pytest.mark.very_slow
@pytest.mark.slow
@settings(max_examples=300)
@given(
    parts=st.lists(values, min_size=1, max_size=2),
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=2, max_size=2),
    start=st.sampled_from(["dense", "zeros"]),
    base=st.lists(cut_steps | other_steps, max_size=2),
    cuts=st.lists(cut_steps, min_size=1, max_size=5),
    bins=st.sampled_from([1, 2, 3, 4, 6, 7, 40]),
    symmetric=st.booleans(),
    chunk=st.sampled_from([7, 1 << 21]),
    min_grouped=st.sampled_from([1, 1 << 20]),
)
def test_bins_equal_those_of_numpy_after_any_move_of_the_cut(
    in_memory, parts, dtypes, start, base, cuts, bins, symmetric, chunk, min_grouped
):
    tensors = {
        name: torch.tensor(part, dtype=torch.float64).to(dtype)
        for name, part, dtype in zip("wv", parts, dtypes, strict=False)
    }
    weights = tensors["w"].double().numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        patch.setattr(digit_histograms, "MIN_GROUPED_ELEMENTS", min_grouped)
        patch.setattr(radix_select, "MAX_SMALL_ELEMENTS", 0 if min_grouped == 1 else 1 << 14)
        first = initial_resolution(Recipe(start=start), in_memory(tensors), Monitor())
        for step in base:
            try:
                first = after(first, step)
            except StepError:  # the parameter has no rows or groups
                continue
        edges = bin_edges(*value_range(first, "w", Monitor()), bins, symmetric=symmetric)
        found = histogram(first, "w", edges, Monitor())
        for step in cuts:
            moved = after(first, step)
            found = histogram(moved, "w", edges, Monitor(), found)
            codes = moved.pruned_by("w").numpy()
            expected = whole(edges, weights, codes)
            assert set(expected) <= set(found.codes)
            for code, counts in zip(found.codes, found.counts, strict=True):
                np.testing.assert_array_equal(counts, expected.get(code, np.zeros(bins)))


@pytest.fixture
def passes(calls_of):
    """Return a list that grows with every full count of all elements."""
    return calls_of(kernels, "count_bins")


def weights_and_edges(resolved, **recipe):
    weights = torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
    first = resolved(w=weights, **recipe)
    return first, bin_edges(*value_range(first, "w", Monitor()), 16, symmetric=True)


@pytest.mark.parametrize(
    "draft",
    [
        lambda share: {"method": "l1_unstructured", "amount": share},
        lambda share: {"method": "l1_unstructured", "amount": share, "scope": "global"},
        lambda share: {"method": "threshold", "value": share},
        lambda share: {"method": "lamp", "amount": share},
        lambda share: {"method": "erk", "amount": share},
    ],
)
def test_after_a_moved_cut_at_most_one_bin_is_counted(resolved, passes, draft):
    first, edges = weights_and_edges(resolved)
    first = after(first, {"method": "l1_unstructured", "amount": 0.1})
    found = histogram(first, "w", edges, Monitor())
    for share in (0.2, 0.6, 0.4):
        found = histogram(after(first, draft(share)), "w", edges, Monitor(), found)
    assert len(passes) == 1


@pytest.mark.parametrize(
    "draft",
    [
        {"method": "random_unstructured"},
        {"method": "l1_unstructured", "scope": "row"},
        {"method": "ln_structured", "amount": 0.5},
        {"method": "n_m", "n": 1, "m": 2},
        {"method": "l1_unstructured", "importance": "scores"},
    ],
)
def test_a_step_without_a_cut_in_the_weights_is_counted_fully(resolved, passes, tmp_path, draft):
    first, edges = weights_and_edges(resolved)
    if "importance" in draft:
        save_file({"w": torch.rand(40, 30)}, tmp_path / "scores.safetensors")
        draft = {**draft, "importance": str(tmp_path / "scores.safetensors")}
    found = histogram(first, "w", edges, Monitor())
    histogram(after(first, draft), "w", edges, Monitor(), found)
    assert len(passes) == 2


def test_a_histogram_of_other_steps_or_bins_is_not_reused(resolved, passes):
    first, edges = weights_and_edges(resolved)
    found = histogram(after(first, HALF), "w", edges, Monitor())
    histogram(after(first, HALF), "w", 2 * edges, Monitor(), found)
    below = after(first, {"method": "random_unstructured", "amount": 0.1})
    histogram(after(below, HALF), "w", edges, Monitor(), found)
    assert len(passes) == 3
