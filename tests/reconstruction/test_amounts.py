"""Layers get amounts of their own, by what pruning them costs the outputs of the network."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import prune_gui
from prune_gui.errors import ReconstructionError
from prune_gui.reconstruction.amounts import amounts_of

SHARE = 0.6


@given(st.data(), st.floats(0.05, 0.95), st.floats(0.01, 1.0))
def test_amounts_prune_as_much_in_all_and_stay_within_the_spread(data, share, spread):
    count = data.draw(st.integers(2, 5))
    weights = st.lists(st.integers(0, 9), min_size=12, max_size=12).filter(any)
    losses = {str(number): torch.tensor(data.draw(weights)) for number in range(count)}
    found = amounts_of(losses, share, spread)
    sizes = {name: int(one.sum()) for name, one in losses.items()}
    pruned = sum(found[name] * size for name, size in sizes.items())
    assert pruned == pytest.approx(share * sum(sizes.values()))
    assert all(abs(amount - share) <= spread + 1e-9 for amount in found.values())


def test_less_is_pruned_where_losses_are_larger():
    losses = {"small": torch.tensor([4, 4, 0, 0]), "large": torch.tensor([0, 0, 4, 4])}
    assert amounts_of(losses, 0.5, 0.2) == pytest.approx({"small": 0.7, "large": 0.3})


def network():
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(16, 48), nn.ReLU(inplace=True), nn.Linear(48, 16)) for _ in range(3)
    ]
    for block in blocks:
        block[2].weight.data = 200 * block[2].weight.data ** 3  # few large ones
    return nn.Sequential(*blocks).eval()


def pruned(spread, **step):
    """Return what pruning costs the outputs, the share of each layer, and that of all."""
    dense = network()
    model = copy.deepcopy(dense)
    batches = list(torch.randn(10, 64, 16, generator=torch.Generator().manual_seed(1)))
    fields = {"method": "l1_unstructured", "amount": SHARE, "targets": ["*.weight"], **step}
    recipe = prune_gui.Recipe.model_validate({"steps": [fields]})
    layers = prune_gui.reconstruct(model, recipe, batches, spread=spread).layers
    shares = {layer.name: 1 - layer.kept / layer.total for layer in layers}
    inputs = torch.cat(batches)
    with torch.no_grad():
        lost = float((model(inputs) - dense(inputs)).square().mean())
    total = sum(layer.total for layer in layers)
    return lost, shares, 1 - sum(layer.kept for layer in layers) / total


def test_a_network_loses_less_with_amounts_of_its_own_for_each_layer():
    lost, shares, share = pruned(0.2)
    assert share == pytest.approx(SHARE, abs=2e-3)
    assert max(shares.values()) - min(shares.values()) > 0.1
    uniform, equal, _ = pruned(0.0)
    assert max(equal.values()) - min(equal.values()) < 0.01
    assert lost < 0.9 * uniform


def test_a_network_without_gradients_is_refused():
    model = nn.Sequential(nn.Linear(16, 16), nn.Sigmoid(), nn.Hardtanh(0, 0.5, inplace=True))
    step = {"method": "l1_unstructured", "targets": ["*.weight"]}
    recipe = prune_gui.Recipe.model_validate({"steps": [step]})
    before = model[0].weight.clone()
    with pytest.raises(ReconstructionError, match="need gradients"):
        prune_gui.reconstruct(model, recipe, [torch.randn(8, 16)], blocks=[model], spread=0.1)
    assert torch.equal(model[0].weight, before)


@pytest.mark.parametrize("step", [{"scope": "global"}, {"amounts": {"0.0.weight": 0.5}}])
def test_a_recipe_with_shares_of_its_own_is_refused(step):
    with pytest.raises(ReconstructionError, match="that has one amount"):
        pruned(0.2, **step)
