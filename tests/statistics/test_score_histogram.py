import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, resolve
from prune_gui.statistics.element_scores import scored_steps, scores_of, weights_of
from prune_gui.statistics.score_histogram import (
    ScoreHistogramCache,
    binned,
    common_edges,
    cumulative,
    score_histogram,
    thinned,
)

HALF = {"method": "l1_unstructured", "amount": 0.5}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2]
METHODS = [
    {"method": "l1_unstructured", "amount": 0.4},
    {"method": "l1_unstructured", "amount": 0.4, "scope": "row"},
    {"method": "n_m", "n": 1, "m": 2, "tail": "keep"},
    {"method": "threshold", "value": 1.0},
    {"method": "lamp", "amount": 0.4},
    {"method": "erk", "amount": 0.4},
    {"method": "random_unstructured", "amount": 0.4},
]

values_32 = st.floats(width=32, allow_nan=True, allow_infinity=True)
tensors = st.lists(values_32, min_size=1, max_size=60)


def score_histograms(resolution, name, scored):
    found = score_histogram(resolution.checkpoint, name, scored.keys, scored.layers, Monitor())
    return found, found.with_lowest(*scored.lowest) if scored.lowest else found


@settings(max_examples=15)
@given(tensors, st.sampled_from(DTYPES), st.sampled_from(METHODS), st.sampled_from([29, 1 << 20]))
def test_groups_equal_those_of_numpy_for_each_step(resolved, values, dtype, last, chunk):
    weights = torch.tensor(values).to(dtype).view(1, -1)
    resolution = resolved({**HALF, "amount": 0.3}, last, w=weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        found, left = score_histograms(resolution, "w", weights_of(resolution, "w"))
    scores, codes = weights.double().abs().numpy(), resolution.pruned_by("w").numpy()
    finite = np.isfinite(scores)
    for code, counts, non_finite in zip(left.codes, left.counts, left.non_finite, strict=True):
        chosen = scores[finite & (codes == code)]
        positions = np.searchsorted(left.bounds, chosen, side="right") - 1
        np.testing.assert_array_equal(counts, np.bincount(positions, minlength=len(counts)))
        assert non_finite == np.count_nonzero(~finite & (codes == code))
    still = (codes == 0) | ((codes == 2) & (2 not in found.codes))
    np.testing.assert_allclose(found.energy.sum(), np.square(scores[finite & still]).sum())


@settings(max_examples=30)
@given(tensors, st.sampled_from(DTYPES), st.integers(1, 30), st.booleans())
def test_bins_are_exact_between_the_common_edges(resolved, values, dtype, bins, log):
    weights = torch.tensor(values).to(dtype)
    resolution = resolved(HALF, w=weights)
    _, left = score_histograms(resolution, "w", weights_of(resolution, "w"))
    edges = common_edges([left], bins, log=log)
    assert len(edges) <= bins + 2
    assert np.all(np.diff(edges) > 0)
    scores, codes = weights.double().abs().numpy(), resolution.pruned_by("w").numpy()
    for code, counts in zip(left.codes, binned(left, edges), strict=True):
        chosen = scores[np.isfinite(scores) & (codes == code)]
        chosen = chosen[(chosen > 0) & (chosen >= edges[0])] if log else chosen
        np.testing.assert_array_equal(counts, np.histogram(chosen, edges)[0])
    if log and left.counts[:, 1:].any():
        assert edges[0] <= scores[np.isfinite(scores) & (scores >= left.bounds[1])].min()


any_lamp_weight = st.floats(allow_nan=True, allow_infinity=True)
few_weights = st.lists(st.sampled_from([0.0, -0.5, 0.5, 3.0]), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=60)
@given(few_weights | st.lists(any_lamp_weight, min_size=1, max_size=20), st.booleans())
def test_every_lamp_score_is_in_a_bin_even_if_few_or_extreme(resolved, values, log):
    weights = torch.tensor(values, dtype=torch.float64)
    resolution = resolved({"method": "lamp", "amount": 1}, w=weights)
    scored = scores_of(resolution, "w", 1)
    found = ScoreHistogramCache(resolution.checkpoint).found("w", scored, Monitor())
    edges = common_edges([found], 20, log=log)
    assert len(edges) > 1
    assert np.all(np.diff(edges) > 0)
    shown = found.counts[:, found.bounds[:-1] > 0] if log else found.counts
    assert binned(found, edges).sum() == shown.sum()


@pytest.mark.very_slow
@pytest.mark.slow
@settings(max_examples=30)
@given(tensors, tensors, st.sampled_from(DTYPES))
def test_the_curve_equals_that_of_numpy_at_every_score(resolved, values, others, dtype):
    parts = [torch.tensor(values).to(dtype), torch.tensor(others).to(dtype)]
    resolution = resolved({**HALF, "scope": "global"}, a=parts[0], b=parts[1])
    found = [
        score_histograms(resolution, name, weights_of(resolution, name))[0] for name in ("a", "b")
    ]
    curve = cumulative(found)
    scores = torch.cat(parts).double().abs().numpy()
    finite = scores[np.isfinite(scores)]
    whole = np.square(finite).sum()
    assert curve.remaining == len(scores)
    for score, pruned, energy in zip(curve.scores, curve.pruned, curve.energy, strict=True):
        assert pruned == pytest.approx(np.count_nonzero(finite < score) / len(scores))
        if whole > 0:
            kept = np.square(finite[finite >= score]).sum() / whole
            assert energy == pytest.approx(kept, abs=1e-9)


def test_a_thinned_curve_has_points_of_the_whole_one(resolved):
    resolution = resolved(w=torch.randn(50, 40))
    found, _ = score_histograms(resolution, "w", weights_of(resolution, "w"))
    curve, near = cumulative([found]), common_edges([found], 30, log=True)
    thin = thinned(curve, near)
    np.testing.assert_array_equal(thin.scores, near)
    assert set(zip(thin.scores, thin.pruned, thin.energy, strict=True)) <= set(
        zip(curve.scores, curve.pruned, curve.energy, strict=True)
    )


def lamp_scores(weights):
    squares = weights.double().square().numpy()
    return np.array([w / squares[squares >= w].sum() for w in squares])


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(2, 200), st.sampled_from([torch.float32, torch.bfloat16]))
def test_lamp_scores_equal_their_definition(resolved, seed, size, dtype):
    weights = torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)
    resolution = resolved({"method": "lamp", "amount": 0.3}, w=weights)
    scored = scores_of(resolution, "w", 1)
    assert scored.kind == "lamp"
    found = ScoreHistogramCache(resolution.checkpoint).left("w", scored, Monitor())
    scores, codes = lamp_scores(weights), resolution.pruned_by("w").numpy()
    for code, counts in zip(found.codes, found.counts, strict=True):
        upper = np.cumsum(counts)
        rounding = 1 + 1e-9
        for bound, count in zip(found.bounds[1:], upper, strict=True):
            # A score at a bound is the first of the next group; at the last, of this one.
            least = np.count_nonzero(scores[codes == code] < bound / rounding)
            most = np.count_nonzero(scores[codes == code] <= bound * rounding)
            assert least <= count <= most
    assert found.bounds[-1] == 1.0


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(2, 30), st.sampled_from([torch.float32, torch.float16]))
def test_lamp_scores_of_other_scores_equal_their_definition_to_a_group(resolved, seed, size, dtype):
    weights = torch.randn(size, 7, generator=torch.Generator().manual_seed(seed)).to(dtype)
    resolution = resolved({"method": "balanced", "amount": 0.3}, w=weights)
    scored = scores_of(resolution, "w", 1)
    assert scored.kind == "lamp_of_scores"
    found = ScoreHistogramCache(resolution.checkpoint).left("w", scored, Monitor())
    scores = lamp_scores(scored.keys.scores.part(0, weights.numel()))
    upper, width = np.cumsum(found.counts.sum(0)), 1.002
    for bound, count in zip(found.bounds[1:], upper, strict=True):
        assert np.count_nonzero(scores < bound / width) <= count
        assert count <= np.count_nonzero(scores <= bound * width)
    assert found.bounds[-1] == 1.0


def test_kinds_of_scores_are_distinguished(resolved, tmp_path):
    def file(name, *shape):
        save_file({"w": torch.rand(shape)}, tmp_path / f"{name}.safetensors")
        return str(tmp_path / f"{name}.safetensors")

    steps = {
        "weights": HALF,
        "scores": {**HALF, "importance": file("full", 4, 6)},
        "scores of columns": {**HALF, "importance": file("columns", 6)},
        "scores of changes": {**HALF, "moved_from": file("before", 4, 6)},
        "lamp": {"method": "lamp"},
        "random": {"method": "random_unstructured"},
    }
    structured = {"method": "ln_structured", "amount": 1}
    resolution = resolved(*steps.values(), structured, w=torch.randn(4, 6))
    kinds = [kind.split(" ")[0] for kind in steps]
    assert scored_steps(resolution, "w") == dict(enumerate(kinds, start=1))
    assert scores_of(resolution, "w", 7) is None


@pytest.mark.parametrize("scope", ["local", "row"])
def test_scores_of_a_step_are_counted_by_what_it_pruned(resolved, tmp_path, scope):
    weights, factors = torch.randn(30, 40), torch.rand(40)
    save_file({"w": factors}, tmp_path / "s.safetensors")
    source = {"importance": str(tmp_path / "s.safetensors")}
    resolution = resolved(HALF, {**HALF, "scope": scope, **source}, w=weights)
    _, left = score_histograms(resolution, "w", scores_of(resolution, "w", 2))
    codes, scores = resolution.pruned_by("w"), weights.abs() * factors
    edges = common_edges([left], 20, log=False)
    for code, counts in zip(left.codes, binned(left, edges), strict=True):
        expected = np.histogram(scores[codes == code].double().numpy(), edges)[0]
        np.testing.assert_array_equal(counts, expected)


def test_random_scores_are_between_0_and_1_and_the_lowest_are_pruned(resolved):
    resolution = resolved({"method": "random_unstructured", "amount": 0.25}, w=torch.ones(80, 50))
    found, left = score_histograms(resolution, "w", scores_of(resolution, "w", 1))
    assert found.bounds[-1] <= 1.0
    assert left.counts.sum(1).tolist() == [3000, 1000]
    assert left.counts[0, : np.searchsorted(found.bounds, 0.2)].sum() == 0


def test_a_moved_cut_needs_no_new_count(resolved, monkeypatch):
    weights = torch.randn(100, 50)
    resolution = resolved(HALF, w=weights)
    kept = ScoreHistogramCache(resolution.checkpoint)
    kept.left("w", weights_of(resolution, "w"), Monitor())
    monkeypatch.setattr("prune_gui.statistics.score_histogram.score_histogram", None)
    recipe = Recipe.model_validate({"steps": [{**HALF, "targets": ["*"], "amount": 1234}]})
    moved = resolve(recipe, resolution.checkpoint)
    found = kept.left("w", weights_of(moved, "w"), Monitor())
    assert found.counts.sum(1).tolist() == [5000 - 1234, 1234]


def test_only_zeros_give_one_bin(resolved):
    resolution = resolved(w=torch.zeros(7))
    found, _ = score_histograms(resolution, "w", weights_of(resolution, "w"))
    assert common_edges([found], 5, log=True)[0] > 0
    assert binned(found, common_edges([found], 5, log=True)).tolist() == [[0]]
    assert binned(found, common_edges([found], 5, log=False)).tolist() == [[7]]


def test_the_cache_evicts_histograms_over_its_limit_and_keeps_none_larger(resolved, monkeypatch):
    resolution = resolved(**{name: torch.randn(40, 30) for name in "ab"})
    scored = {name: weights_of(resolution, name) for name in "ab"}
    limit = "prune_gui.statistics.score_histogram.MAX_CACHE_BYTES"
    nbytes = score_histograms(resolution, "a", scored["a"])[0].nbytes

    def found(cache, name):
        return cache.found(name, scored[name], Monitor())

    monkeypatch.setattr(limit, nbytes * 3 // 2)
    cache = ScoreHistogramCache(resolution.checkpoint)
    first = found(cache, "a")
    assert found(cache, "a") is first
    found(cache, "b")
    assert found(cache, "a") is not first
    monkeypatch.setattr(limit, 1)
    cache = ScoreHistogramCache(resolution.checkpoint)
    assert found(cache, "a") is not found(cache, "a")
