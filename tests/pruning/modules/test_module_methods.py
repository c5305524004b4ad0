"""The methods of the module API, one by one."""

import math

import pytest
import torch
from pruned_layers import layer_of, pruned_rows
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning


def test_non_finite_values_rank_as_the_largest():
    layer = layer_of(torch.tensor([[math.nan, -9.0, math.inf, 8.0, -math.inf]]))
    pruning.l1_unstructured(layer, "weight", 2)
    assert layer.weight_mask.tolist() == [[1, 0, 1, 0, 1]]


def test_integers_and_complex_numbers_rank_by_absolute_value():
    mask = pruning.L1Unstructured(2).compute_mask(torch.tensor([-3, 1, 2, -1]), torch.ones(4))
    assert mask.tolist() == [1, 0, 1, 0]
    t = torch.tensor([3 + 4j, 0 + 6j, 1 + 1j])
    assert pruning.L1Unstructured(2).compute_mask(t, torch.ones(3)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("odd", [0.5, -1.0, 2.0, float("nan"), float("inf")])
def test_a_non_binary_mask_is_refused_unlike_in_torch(odd):
    mask = torch.tensor([1.0, odd, 0.0])
    layer = nn.Linear(4, 3)
    with pytest.raises(ValueError, match="0 and 1"):
        pruning.custom_from_mask(layer, "bias", mask)
    assert not pruning.is_pruned(layer)
    torch.testing.assert_close(
        reference.custom_from_mask(nn.Linear(4, 3), "bias", mask).bias_mask, mask, equal_nan=True
    )


def test_a_mask_of_another_shape_or_type_is_refused():
    with pytest.raises(AssertionError, match="shape"):
        pruning.custom_from_mask(nn.Linear(4, 3), "weight", torch.ones(4, 3))
    with pytest.raises(TypeError, match="list"):
        pruning.custom_from_mask(nn.Linear(4, 3), "bias", [1, 0, 1])


def test_the_custom_mask_is_copied():
    mask = torch.tensor([1.0, 0.0, 1.0])
    layer = pruning.custom_from_mask(nn.Linear(4, 3), "bias", mask)
    mask.zero_()
    assert layer.bias_mask.tolist() == [1, 0, 1]


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
