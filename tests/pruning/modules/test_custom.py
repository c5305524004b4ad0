import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.bfloat16])
def test_the_new_mask_is_the_product_of_old_and_custom_mask(dtype):
    layer = nn.Linear(4, 2)
    pruning.custom_from_mask(layer, "weight", torch.tensor([[1, 0, 1, 1], [1, 1, 0, 1]]).to(dtype))
    pruning.custom_from_mask(layer, "weight", torch.tensor([[0, 1, 1, 1], [1, 1, 0, 1]]).to(dtype))
    assert layer.weight_mask.tolist() == [[0, 0, 1, 1], [1, 1, 0, 1]]
    assert layer.weight_mask.dtype == layer.weight_orig.dtype


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
