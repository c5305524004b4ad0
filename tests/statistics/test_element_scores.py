import numpy as np
import pytest
import torch

from prune_gui.statistics.element_scores import StepCut, weight_cuts

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
    generator = torch.Generator().manual_seed(0)
    small, large = (torch.randn(40, generator=generator) * scale for scale in (0.1, 1.0))
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
