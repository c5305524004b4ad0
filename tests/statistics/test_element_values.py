import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui.errors import RecipeError
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
from prune_gui.statistics import element_values
from prune_gui.statistics.element_scores import StepCut, weight_cuts
from prune_gui.statistics.element_values import StepScore, element_at

RANKING = [
    {"method": "l1_unstructured", "amount": 0.4},
    {"method": "l1_unstructured", "amount": 0},
    {"method": "l1_unstructured", "amount": 0.4, "scope": "row"},
    {"method": "random_unstructured", "amount": 0.3, "seed": 3},
    {"method": "ln_structured", "amount": 1, "n": 2, "dim": 1},
    {"method": "lamp", "amount": 0.4},
    {"method": "threshold", "value": 0.5},
    {"method": "n_m", "n": 1, "m": 2, "dim": 0, "tail": "keep"},
    {"method": "n_m", "n": 2, "m": 3, "dim": 1, "tail": "keep"},
    {"method": "block", "height": 2, "width": 2, "amount": 1, "tail": "keep"},
]
TYPES = [torch.float32, torch.bfloat16, torch.float64]


def _read(measure, start, stop):
    numbers, present = measure(start, stop)
    return numbers, present if present.size else np.ones(stop - start, np.bool_)


@settings(max_examples=15)
@given(
    steps=st.lists(st.sampled_from(RANKING), min_size=1, max_size=3),
    shape=st.tuples(st.integers(4, 9), st.integers(4, 9)),
    dtype=st.sampled_from(TYPES),
    non_finite=st.booleans(),
    data=st.data(),
)
def test_scores_and_margins_equal_those_of_single_elements(
    resolved, steps, shape, dtype, non_finite, data
):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    if non_finite:
        weights[0, 0], weights[1, 1] = torch.nan, torch.inf
    resolution = resolved(*steps, w=weights.to(dtype))
    size = weights.numel()
    start = data.draw(st.integers(0, size - 1))
    stop = data.draw(st.integers(start + 1, size))
    for layer in resolution.layers["w"]:
        before = resolution.layers["w"][: resolution.layers["w"].index(layer)]
        assert layer.step in element_values.ranking_steps(resolution, "w")
        scores, scored = _read(element_values.scores(resolution, "w", layer.step), start, stop)
        margins, cut = _read(element_values.margins(resolution, "w", layer.step), start, stop)
        for flat in range(start, stop):
            element_rank = layer.predicate.element_rank(flat)
            gone = any(other.predicate.prunes(flat, flat + 1)[0] for other in before)
            here = flat - start
            assert scored[here] == (element_rank.score is not None and not gone)
            if scored[here]:
                assert scores[here] == pytest.approx(element_rank.score, nan_ok=True)
            if not gone:
                assert cut[here] == (element_rank.margin is not None)
            if cut[here]:
                assert margins[here] == pytest.approx(element_rank.margin, nan_ok=True)
                assert (
                    math.isnan(margins[here])
                    or element_rank.pruned == (margins[here] <= 0)
                    or (
                        margins[here] == 0  # ties, some of which are pruned
                    )
                )


def test_a_step_that_ranks_nothing_has_no_score(resolved):
    resolution = resolved({"method": "channels", "dim": 0, "channels": [1]}, w=torch.ones(4, 3))
    _, scored = element_values.scores(resolution, "w", 1)(0, 12)
    assert not scored.any()


def test_a_step_has_no_score_for_a_parameter_that_it_does_not_target(resolved):
    step = {"method": "l1_unstructured", "amount": 1, "targets": ["a"]}
    resolution = resolved(step, a=torch.ones(4), b=torch.ones(4))
    assert element_values.ranking_steps(resolution, "a") == (1,)
    assert element_values.ranking_steps(resolution, "b") == ()
    with pytest.raises(RecipeError, match="Step 1 has no score for b"):
        element_values.scores(resolution, "b", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_difference_is_elementwise(resolved, tmp_path, dtype):
    here, present = torch.randn(4, 3).to(dtype), torch.randn(4, 3)
    save_file({"w": present}, tmp_path / "other.safetensors")
    files, path = AuxiliaryFiles(), str(tmp_path / "other.safetensors")
    measure = element_values.difference(resolved(w=here), "w", files, path)
    found, counted = measure(2, 11)
    assert counted.size == 0
    np.testing.assert_array_equal(found, (here.float() - present).reshape(-1)[2:11].numpy())


@pytest.mark.parametrize(
    ("other", "words"), [({"v": (4, 3)}, "no tensor named w"), ({"w": (3, 4)}, "has shape")]
)
def test_a_file_without_such_a_parameter_is_refused(resolved, tmp_path, other, words):
    path = tmp_path / "other.safetensors"
    save_file({name: torch.ones(shape) for name, shape in other.items()}, path)
    with pytest.raises(RecipeError, match=words):
        element_values.difference(resolved(w=torch.ones(4, 3)), "w", AuxiliaryFiles(), str(path))


def test_an_element_has_its_score_in_every_step_up_to_the_deciding_one(resolved):
    weights = torch.tensor([[1.0, -2.0, 3.0, 4.0]])
    steps = [{"method": "l1_unstructured", "amount": amount} for amount in (1, 2)]
    resolution, layout = resolved(*steps, w=weights), SliceLayout.flattened((1, 4))
    told = [element_at(resolution, "w", layout.flat(0, column)) for column in range(4)]
    assert [(weight.code, weight.scores) for weight in told] == [
        (1, (StepScore(1, 1.0, 1.0),)),
        (2, (StepScore(1, 2.0, 1.0), StepScore(2, 2.0, 3.0))),
        (2, (StepScore(1, 3.0, 1.0), StepScore(2, 3.0, 3.0))),
        (0, (StepScore(1, 4.0, 1.0), StepScore(2, 4.0, 3.0))),
    ]
    assert told[1].value == -2.0


def test_an_element_that_no_step_ranked_has_no_score(resolved):
    assert element_at(resolved(w=torch.ones(2, 2)), "w", 0).scores == ()
    by_hand = resolved({"method": "channels", "dim": 0, "channels": [0]}, w=torch.ones(2, 2))
    assert element_at(by_hand, "w", 0).scores == (StepScore(1),)


HALF = {"method": "l1_unstructured", "amount": 0.5}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cut_is_the_largest_absolute_value_that_its_step_prunes(resolved, dtype):
    weights = torch.arange(-8, 8).to(dtype)
    resolution = resolved({**HALF, "amount": 5}, w=weights)
    pruned = weights.double()[~resolution.mask("w")].abs()
    assert weight_cuts(resolution, "w") == {1: StepCut(float(pruned.max()))}


def test_a_global_cut_over_two_dtypes_is_one_value(resolved):
    resolution = resolved(
        {**HALF, "scope": "global"},
        a=torch.arange(1.0, 9).to(torch.bfloat16),
        b=torch.arange(1.0, 9) / 2,
    )
    # Of equal weights those of an earlier target go first, so "b" keeps its 3.0.
    assert weight_cuts(resolution, "a") == {1: StepCut(3.0)}
    assert weight_cuts(resolution, "b") == {1: StepCut(3.0, inclusive=False)}


def test_a_threshold_excludes_the_weights_that_equal_it(resolved):
    resolution = resolved({"method": "threshold", "value": 2.0}, w=torch.arange(4.0))
    assert weight_cuts(resolution, "w") == {1: StepCut(2.0, inclusive=False)}


def test_steps_that_do_not_rank_absolute_weights_have_no_cut(resolved):
    resolution = resolved(
        {"method": "random_unstructured"},
        {"method": "ln_structured", "amount": 1},
        start="zeros",
        w=torch.randn(4, 4),
    )
    assert weight_cuts(resolution, "w") == {}


@pytest.mark.parametrize("method", ["l1_unstructured", "lamp"])
def test_a_limited_parameter_has_its_own_cut_below_that_of_all_targets(resolved, method):
    small, large = (torch.randn(40) * scale for scale in (0.1, 1.0))
    scope = {} if method == "lamp" else {"scope": "global"}
    step = {"method": method, "amount": 0.5, "max_sparsity": 0.55, **scope}
    resolution = resolved(step, small=small, large=large)
    [own], [other] = (weight_cuts(resolution, name).values() for name in ("small", "large"))
    assert other.shared is None
    if method == "lamp":  # the cut of all targets is a LAMP score, and no absolute weight
        assert own.shared is None
    else:
        assert resolution.counts["small"] == (22, 40)
        assert own == StepCut(float(np.sort(small.abs())[21]), shared=other.value)
