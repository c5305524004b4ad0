import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.statistics.channel_statistics import (
    channels,
    channels_up_to,
    norms,
    norms_by_step,
    ranks,
    shared_rank,
)

HALF = {"method": "l1_unstructured", "amount": 0.5}
ROWS = {"method": "ln_structured", "amount": 2, "dim": 0}


@given(
    shape=st.lists(st.integers(1, 6), max_size=4).map(tuple),
    steps=st.integers(0, 2),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float8_e4m3fn]),
    chunk=st.sampled_from([1, 7, 1 << 21]),
    data=st.data(),
)
def test_counts_and_dead_channels_equal_those_of_the_full_mask(
    resolved, shape, steps, dtype, chunk, data
):
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(steps))
    weights = drawn.masked_fill(torch.rand(shape) < 0.3, 0).to(dtype)
    resolution = resolved(*[HALF] * steps, w=weights)
    dim = data.draw(st.integers(0, max(len(shape) - 1, 0)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        found = channels(resolution, "w", dim, Monitor())
    lined_up = shape or (1,)
    codes = np.moveaxis(resolution.pruned_by("w").numpy().reshape(lined_up), dim, 0)
    values = np.moveaxis(weights.float().numpy().reshape(lined_up), dim, 0)
    codes, values = (a.reshape(lined_up[dim], -1) for a in (codes, values))
    assert found.size == codes.shape[1]
    for code, counts in zip(found.codes, found.counts, strict=True):
        np.testing.assert_array_equal(counts, (codes == code).sum(1))
    np.testing.assert_array_equal(found.pruned, (codes != 0).sum(1))
    np.testing.assert_array_equal(found.dead, ~((codes == 0) & (values != 0)).any(1))


@given(st.integers(0, 2**31), st.integers(0, 6), st.floats(0, 5), st.booleans())
def test_a_cut_in_ranks_counts_the_channels_that_it_prunes(resolved, seed, amount, rank, earlier):
    weights = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    first = {"method": "channels", "channels": [1, 4]}
    amount = min(amount, 4 if earlier else 6)
    resolution = resolved(*[first] * earlier, {**ROWS, "amount": amount}, w=weights)
    chosen = resolution.outcomes[-1].predicates["w"].chosen()
    found, cut = ranks(chosen)
    left = [i for i in range(6) if not (earlier and i in (1, 4))]
    expected = weights.norm(dim=1)[left].tolist()
    assert found[left] == pytest.approx(expected)
    assert cut == pytest.approx(sorted(expected)[amount - 1] if amount else 0.0)
    below = sum(norm <= rank for norm in found[left].tolist())
    assert channels_up_to([chosen, chosen], rank) == (2 * below, 2 * len(left), 12)
    assert channels_up_to([chosen], cut)[0] == amount or cut == 0.0


@pytest.mark.parametrize("n", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
@pytest.mark.parametrize(("shape", "dim"), [((), 0), ((7,), 0), ((5, 3), 1), ((4, 3, 2, 2), 2)])
def test_norms_equal_those_of_numpy(resolved, shape, dim, n):
    weights = torch.randn(shape)
    found = norms(resolved(w=weights).checkpoint, "w", dim, n, Monitor())
    lined_up = np.moveaxis(weights.double().numpy().reshape(shape or (1,)), dim, 0)
    lined_up = lined_up.reshape(len(lined_up), -1)
    np.testing.assert_allclose(found, np.linalg.norm(lined_up, n, axis=1), rtol=1e-6)


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    n=st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, math.inf, -math.inf, -1.0]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    data=st.data(),
)
def test_each_step_leaves_the_norm_of_the_elements_that_it_does_not_prune(
    resolved, shape, n, dtype, data
):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)
    resolution = resolved(HALF, HALF, w=weights)
    dim = data.draw(st.integers(0, len(shape) - 1))
    whole = norms(resolution.checkpoint, "w", dim, n, Monitor())
    found = norms_by_step(resolution, "w", dim, n, whole, Monitor())
    codes = np.moveaxis(resolution.pruned_by("w").numpy(), dim, 0).reshape(shape[dim], -1)
    values = np.moveaxis(weights.double().numpy(), dim, 0).reshape(shape[dim], -1)
    np.testing.assert_array_equal(found[2], whole)
    for row, left in enumerate([codes == 0, (codes == 0) | (codes == 1)]):
        with np.errstate(divide="ignore"):
            expected = np.linalg.norm(np.where(left, values, 0.0), n, axis=1)
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)
    if n == 2:
        gone = np.linalg.norm(np.where(codes == 0, 0.0, values), 2, axis=1)
        np.testing.assert_allclose(found[0] ** 2 + gone**2, whole**2, rtol=1e-5)


@pytest.mark.parametrize(("max_sparsity", "is_limited"), [(0.25, True), (1.0, False)])
def test_the_rank_that_all_targets_share_is_known_where_a_limit_stops_the_step(
    resolved, max_sparsity, is_limited
):
    weights = torch.randn(8, 4)
    step = {**ROWS, "amount": 6, "scope": "global", "max_sparsity": max_sparsity}
    resolution = resolved({**step, "amount": 6 if is_limited else 8}, a=weights, b=weights * 1.5)
    chosen = {name: p.chosen() for name, p in resolution.outcomes[0].predicates.items()}
    shared = shared_rank(chosen["a"], chosen.values())
    if is_limited:
        assert shared is None or shared > ranks(chosen["a"])[1]
    assert (shared is not None) is is_limited
