"""The correction of a model in memory, each layer for the inputs that corrected layers give."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import prune_gui
from prune_gui.errors import RecordingError
from prune_gui.recipe.correction.corrected_values import refitted


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


@pytest.fixture
def batches() -> list[torch.Tensor]:
    return list(torch.randn(120, 8, generator=torch.Generator().manual_seed(1)).split(40))


def masks_of(network: nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return {
        name: torch.rand(network.get_parameter(name).shape, generator=generator) < 0.5
        for name in ("0.weight", "2.weight")
    }


def test_each_layer_is_solved_for_the_inputs_of_the_corrected_layers(network, batches):
    masks = masks_of(network)
    dense = {name: network.get_parameter(name).detach().clone() for name in masks}
    notes = prune_gui.refit(network, masks, batches)
    assert notes == {"0.weight": "", "2.weight": ""}
    inputs = torch.cat(batches)
    for name, layer in (("0.weight", network[:1]), ("2.weight", network[2:])):
        mask = masks[name]
        expected, _ = refitted(dense[name], mask, inputs.T @ inputs, 0.01, transposed=False)
        weight = network.get_parameter(name)
        torch.testing.assert_close(weight[mask], expected[mask])
        assert (weight[~mask] == 0).all()
        inputs = layer(inputs).relu().detach()


def test_modules_that_torch_pruned_stay_pruned(network, batches):
    dense = network(torch.cat(batches)).detach()
    for layer in (network[0], network[2]):
        prune.l1_unstructured(layer, "weight", 0.5)
    before = network(torch.cat(batches)).detach()
    mask = network[0].weight_mask.clone()
    prune_gui.refit(network, None, batches)
    after = network(torch.cat(batches)).detach()
    assert torch.equal(network[0].weight_mask, mask)
    assert ((network[0].weight == 0) == (mask == 0)).all()
    assert (after - dense).square().sum() < 0.7 * (before - dense).square().sum()


def test_a_mask_that_does_not_fit_is_named(network, batches):
    with pytest.raises(RecordingError, match=r"mask of 0\.weight has shape"):
        prune_gui.refit(network, {"0.weight": torch.ones(2, 2)}, batches)
    with pytest.raises(RecordingError, match="No layer with a mask ran"):
        prune_gui.refit(network, {}, batches)
