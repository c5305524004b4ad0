import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning


def layer_of(values):
    layer = nn.Linear(1, 1, bias=False)
    layer.weight = nn.Parameter(values, requires_grad=False)
    return layer


def pruned_rows(layer):
    return [i for i, row in enumerate(layer.weight_mask.float()) if not row.any()]


def test_a_channel_whose_norm_is_nan_is_kept():
    layer = layer_of(torch.tensor([[math.nan, 0.0], [9.0, 9.0], [math.inf, 1.0], [8.0, 8.0]]))
    pruning.ln_structured(layer, "weight", 2, n=2, dim=0)
    assert pruned_rows(layer) == [1, 3]


def test_a_partly_pruned_channel_counts_as_one_channel():
    layer = layer_of(torch.tensor([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [5.0, 6.0]]))
    pruning.custom_from_mask(layer, "weight", torch.tensor([[0, 1], [0, 0], [1, 1], [1, 1]]))
    pruning.ln_structured(layer, "weight", 1 / 3, n=2, dim=0)
    assert pruned_rows(layer) == [0, 1]
    with pytest.raises(ValueError, match=r"3.*2"):
        pruning.ln_structured(layer, "weight", 3, n=2, dim=0)


def test_pruned_elements_do_not_contribute_to_the_norm_of_their_channel():
    scores = torch.tensor([[100.0, 1.0], [3.0, 3.0]])
    for package, expected in ((pruning, [0]), (reference, [1])):
        layer = layer_of(torch.ones(2, 2))
        package.custom_from_mask(layer, "weight", torch.tensor([[0, 1], [1, 1]]))
        package.ln_structured(layer, "weight", 1, n=2, dim=0, importance_scores=scores)
        assert pruned_rows(layer) == expected


def test_exactly_the_amount_of_channels_is_pruned_at_random():
    def counts(package):
        found = set()
        for seed in range(10):
            layer = layer_of(torch.ones(1000, 2))
            torch.manual_seed(seed)
            package.random_structured(layer, "weight", 500, 0)
            found.add(len(pruned_rows(layer)))
        return found

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert counts(pruning) == {500}
        assert max(counts(reference)) > 500
    finally:
        torch.set_default_dtype(default)


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_a_seed_gives_the_same_random_channels_as_in_torch(dim):
    ours = layer_of(torch.randn(40, 30))
    theirs = copy.deepcopy(ours)
    after = []
    for package, layer in ((pruning, ours), (reference, theirs)):
        torch.manual_seed(7)
        for amount in (0.25, 0, 5):
            package.random_structured(layer, "weight", amount, dim)
        after.append(torch.rand(1))
    assert torch.equal(ours.weight_mask, theirs.weight_mask)
    assert after[0] == after[1]


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("method", [pruning.LnStructured, pruning.RandomStructured])
def test_a_tensor_without_channels_or_without_the_dimension_is_refused(method, stacked):
    norm = {"n": 2} if method is pruning.LnStructured else {}
    layer = nn.Linear(4, 3)
    if stacked:
        pruning.identity(layer, "bias")
        pruning.identity(layer, "weight")
    with pytest.raises(ValueError, match="channels"):
        method.apply(layer, "bias", amount=1, dim=0, **norm)
    for dim in (2, -3):
        with pytest.raises(IndexError, match=str(dim)):
            method.apply(layer, "weight", amount=1, dim=dim, **norm)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16])
def test_narrow_dtypes_can_be_pruned_by_channels_after_elements(dtype):
    layer = layer_of(torch.randn(8, 6).to(dtype))
    pruning.ln_structured(layer, "weight", 2, n=1, dim=0)
    pruning.l1_unstructured(layer, "weight", 6)
    pruning.random_structured(layer, "weight", 1, dim=0)
    assert layer.weight_mask.dtype == dtype
    assert len(pruned_rows(layer)) >= 3


@pytest.mark.parametrize("n", [0.5, 2, 3, "fro"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_channels_of_tiny_and_huge_weights_are_ranked(n, scale):
    layer, scaled = nn.Linear(7, 9), nn.Linear(7, 9)
    scaled.weight = nn.Parameter(layer.weight.detach() * scale)
    for one in (layer, scaled):
        pruning.ln_structured(one, "weight", 4, n=n, dim=0)
        pruning.ln_structured(one, "weight", 2, n=n, dim=1)
    assert torch.equal(scaled.weight_mask, layer.weight_mask)
