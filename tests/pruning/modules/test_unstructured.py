import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


def layer_of(values):
    layer = nn.Linear(1, 1, bias=False)
    layer.weight = nn.Parameter(values, requires_grad=False)
    return layer


def zeros(mask):
    return int((mask.float() == 0).sum())


def test_non_finite_values_rank_as_the_largest():
    layer = layer_of(torch.tensor([[math.nan, -9.0, math.inf, 8.0, -math.inf]]))
    pruning.l1_unstructured(layer, "weight", 2)
    assert layer.weight_mask.tolist() == [[1, 0, 1, 0, 1]]


def test_scores_rank_by_absolute_value():
    layer, scores = layer_of(torch.ones(1, 3)), torch.tensor([[-5.0, 1.0, 3.0]])
    pruning.l1_unstructured(layer, "weight", 1, importance_scores=scores)
    assert layer.weight_mask.tolist() == [[1, 0, 1]]


def test_pruning_half_twice_leaves_a_quarter():
    layer = nn.Linear(16, 8)
    for _ in range(2):
        pruning.l1_unstructured(layer, "weight", 0.5)
    assert zeros(layer.weight_mask) == 96


@pytest.mark.parametrize("dtype", DTYPES + FLOAT8)
def test_every_float_dtype_can_be_pruned_and_is_kept(dtype):
    layer = layer_of(torch.randn(8, 16).to(dtype))
    for _ in range(2):
        pruning.l1_unstructured(layer, "weight", 24)
        pruning.random_unstructured(layer, "weight", 8)
    assert layer.weight_mask.dtype == layer.weight.dtype == dtype
    assert zeros(layer.weight_mask) == 64
    pruning.remove(layer, "weight")
    assert layer.weight.dtype == dtype


def test_integers_and_complex_numbers_rank_by_absolute_value():
    mask = pruning.L1Unstructured(2).compute_mask(torch.tensor([-3, 1, 2, -1]), torch.ones(4))
    assert mask.tolist() == [1, 0, 1, 0]
    t = torch.tensor([3 + 4j, 0 + 6j, 1 + 1j])
    assert pruning.L1Unstructured(2).compute_mask(t, torch.ones(3)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("amount", [0, 0.3, 1.0])
def test_a_seed_gives_the_mask_and_the_generator_state_of_torch(dtype, amount):
    ours = layer_of(torch.randn(20, 30, dtype=dtype))
    theirs = copy.deepcopy(ours)
    after = []
    for package, layer in ((pruning, ours), (reference, theirs)):
        torch.manual_seed(5)
        package.random_unstructured(layer, "weight", amount)
        package.random_unstructured(layer, "weight", 0.5)
        after.append(torch.rand(1))
    assert torch.equal(ours.weight_mask, theirs.weight_mask)
    assert after[0] == after[1]


def test_more_than_remain_are_an_error_with_both_numbers():
    layer = pruning.l1_unstructured(nn.Linear(5, 2), "weight", 4)
    with pytest.raises(ValueError, match=r"7.*6"):
        pruning.l1_unstructured(layer, "weight", 7)
    with pytest.raises(ValueError, match=r"7.*6"):
        pruning.random_unstructured(layer, "weight", 7)


def test_identity_keeps_everything():
    layer = nn.Linear(5, 2)
    bias = layer.bias.detach().clone()
    assert pruning.identity(layer, "bias").bias_mask.tolist() == [1, 1]
    assert torch.equal(layer.bias, bias)
