import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning


def test_every_function_returns_its_module():
    layer = nn.Linear(6, 5)
    assert pruning.identity(layer, "weight") is layer
    assert pruning.random_unstructured(layer, "weight", 1) is layer
    assert pruning.l1_unstructured(layer, "weight", 1) is layer
    assert pruning.random_structured(layer, "weight", 1, 0) is layer
    assert pruning.ln_structured(layer, "weight", 1, 2, 0) is layer
    assert pruning.custom_from_mask(layer, "weight", torch.ones(5, 6)) is layer
    assert pruning.remove(layer, "weight") is layer


def test_remove_restores_the_same_parameter_object():
    layer = nn.Linear(4, 3)
    weight, before = layer.weight, layer.weight.detach().clone()
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    pruning.l1_unstructured(layer, "weight", 5)
    mask = layer.weight_mask.clone()
    pruning.remove(layer, "weight")
    assert layer.weight is weight
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert torch.equal(layer.weight, before * mask)
    assert not layer._forward_pre_hooks
    assert any(weight is p for group in optimiser.param_groups for p in group["params"])


def test_remove_uses_the_current_parameter_and_mask():
    layer = pruning.custom_from_mask(nn.Linear(2, 1), "weight", torch.tensor([[0, 1]]))
    with torch.no_grad():
        layer.weight_orig.copy_(torch.tensor([[3.0, 4.0]]))
    assert pruning.remove(layer, "weight").weight.tolist() == [[0.0, 4.0]]


def test_remove_leaves_other_parameters_pruned():
    layer = nn.Linear(4, 3)
    for name in ("weight", "bias"):
        pruning.l1_unstructured(layer, name, 1)
    pruning.remove(layer, "weight")
    assert pruning.is_pruned(layer)
    assert list(layer.state_dict()) == ["bias_orig", "weight", "bias_mask"]


def test_remove_of_an_unpruned_parameter_is_an_error():
    layer = pruning.identity(nn.Linear(4, 3), "weight")
    with pytest.raises(ValueError, match="'bias'"):
        pruning.remove(layer, "bias")


def test_a_failing_remove_leaves_the_module_unchanged():
    class Stubborn(reference.Identity):
        def remove(self, module):
            del module._buffers["weight_mask"]
            raise RuntimeError("no")

    layer = nn.Linear(4, 3)
    Stubborn.apply(layer, "weight")
    with pytest.raises(RuntimeError, match="no"):
        pruning.remove(layer, "weight")
    assert "weight_mask" in layer.state_dict()


def test_a_failing_remove_does_not_change_the_weights():
    class Frozen(nn.Linear):
        def __setattr__(self, name, value):
            if name == "weight" and vars(self).get("frozen"):
                raise RuntimeError("frozen")
            super().__setattr__(name, value)

    layer = pruning.l1_unstructured(Frozen(4, 3), "weight", 5)
    before = layer.weight_orig.detach().clone()
    layer.frozen = True
    with pytest.raises(RuntimeError, match="frozen"):
        pruning.remove(layer, "weight")
    assert torch.equal(layer.weight_orig, before)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert pruning.is_pruned(layer)


def test_a_module_is_pruned_if_any_submodule_is():
    net = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    net[0].register_forward_pre_hook(lambda module, inputs: None)
    assert not pruning.is_pruned(net)
    pruning.identity(net[1][1], "bias")
    assert pruning.is_pruned(net)
    assert not pruning.is_pruned(net[0])


def test_a_recurrent_module_works_while_pruned_and_after_remove():
    lstm, x = nn.LSTM(4, 3), torch.randn(2, 1, 4)
    pruning.l1_unstructured(lstm, "weight_ih_l0", 0.5)
    pruned = lstm(x)[0]
    pruning.remove(lstm, "weight_ih_l0")
    assert torch.equal(lstm(x)[0], pruned)
    assert all(isinstance(weight, nn.Parameter) for weight in lstm._flat_weights)
