"""Rows of a weight count as much as they matter to the output of the block."""

import copy

import pytest
import torch
from torch import nn

import prune_gui
from prune_gui.reconstruction import block as pruning
from prune_gui.reconstruction.networks import Call
from prune_gui.reconstruction.row_weights import LEAST, row_weights


class InPlace(nn.Module):
    """Changes what it gets."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, inputs):
        self.change(inputs)
        return inputs


def weights_of(block, *shape):
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for _ in range(2)]
    return row_weights(block.requires_grad_(False), [block[0]], inputs, [Call()] * 2)


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        (nn.Linear(4, 6), nn.Linear(6, 5), (4000, 4)),
        (nn.Conv2d(4, 6, 3, groups=2), nn.Conv2d(6, 5, 1), (40, 4, 12, 12)),
    ],
)
def test_the_weight_of_a_row_is_the_squared_derivative_of_the_output(first, second, shape):
    torch.manual_seed(1)
    nn.init.normal_(second.weight)
    halved = nn.Sequential(first, InPlace(lambda given: given.mul_(0.5)), second)
    [found] = weights_of(halved, *shape).values()
    squares = second.weight.flatten(1).square().sum(0)
    torch.testing.assert_close(found, squares / squares.mean() + LEAST, rtol=0.1, atol=0)


@pytest.mark.parametrize(
    "block",
    [
        nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), InPlace(lambda given: given.add_(1))),
        nn.Sequential(nn.Linear(4, 6), InPlace(lambda given: given.zero_())),
    ],
    ids=["an operator in place that gradients do not survive", "an output without effect"],
)
def test_rows_without_derivatives_have_no_weights(block):
    assert weights_of(block, 32, 4) == {}


def test_the_choice_of_a_mask_spares_the_rows_that_matter_to_the_block(monkeypatch):
    torch.manual_seed(0)
    dense = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)).requires_grad_(False)
    dense[2].weight[:, 16:] *= 0.1
    batches = list(torch.randn(8, 64, 16))
    step = {"method": "l1_unstructured", "amount": 0.6, "targets": ["0.weight"]}
    recipe = prune_gui.Recipe.model_validate({"steps": [step]})

    def pruned():
        network = copy.deepcopy(dense)
        [block] = prune_gui.reconstruct(network, recipe, batches, blocks=[network]).blocks
        return block.after, network[0].weight != 0

    error, kept = pruned()
    assert kept.sum() == 205
    assert kept[:16].sum() > 1.5 * kept[16:].sum()
    monkeypatch.setattr(pruning, "row_weights", lambda *_: {})
    assert error < 0.8 * pruned()[0]
