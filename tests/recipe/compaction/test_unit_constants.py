"""The constants of units without weights, compared with torch and transformers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from prune_gui.architecture.unit_values import Activation, BatchNorm, Bias, Product, Sum
from prune_gui.recipe.compaction.folding import ACTIVATIONS, constants

X = torch.linspace(-9, 9, 401, dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_function_is_that_of_transformers_with_the_same_name(name):
    from transformers.activations import ACT2FN

    expected = ACT2FN[name](X)
    # The constant 0.7978845608 of gelu_fast has ten digits.
    torch.testing.assert_close(ACTIVATIONS[name](X), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("affine", [True, False])
def test_a_value_is_what_the_layers_compute_from_zeros(affine):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(5, affine=affine).double().eval()
    state = norm.state_dict()
    for name in state.keys() - {"num_batches_tracked"}:
        state[name].uniform_(0.2, 2)
    state["scale"] = torch.randn(5, dtype=torch.float64)
    before = Bias("scale")
    normed = BatchNorm(
        before,
        "weight" if affine else None,
        "bias" if affine else None,
        "running_mean",
        "running_var",
    )
    value = Product(Activation(Sum(normed, before), "silu"), Bias("scale"))
    scale = state["scale"]
    expected = functional.silu(norm(scale[None, :, None, None])[0, :, 0, 0] + scale) * scale
    torch.testing.assert_close(constants(value, state.__getitem__, 5), expected)
    assert torch.equal(constants(Bias(None), state.__getitem__, 5), torch.zeros(5).double())
