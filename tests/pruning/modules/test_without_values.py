"""Modules on the device meta and with fake tensors: pruned wherever torch prunes them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import prune as reference

from prune_gui import pruning

SCORES = torch.arange(6.0).view(3, 2)
# By name, what is done to a linear layer of shape (3, 2) by a package.
CALLS = {
    "identity": lambda by, m: by.identity(m, "weight"),
    "custom": lambda by, m: by.custom_from_mask(m, "weight", torch.ones_like(m.weight)),
    "custom with values": lambda by, m: by.custom_from_mask(m, "weight", SCORES > 2),
    "l1": lambda by, m: by.l1_unstructured(m, "weight", 0.5),
    "l1 of none": lambda by, m: by.l1_unstructured(m, "weight", 0),
    "l1 of all": lambda by, m: by.l1_unstructured(m, "weight", 6),
    "l1 of too many": lambda by, m: by.l1_unstructured(m, "weight", 7),
    "l1 of a bias": lambda by, m: by.l1_unstructured(m, "bias", 1),
    "l1 of scores": lambda by, m: by.l1_unstructured(m, "weight", 1, importance_scores=SCORES),
    "random": lambda by, m: by.random_unstructured(m, "weight", 2),
    "ln": lambda by, m: by.ln_structured(m, "weight", 1, 2, 0),
    "ln of infinite order": lambda by, m: by.ln_structured(m, "weight", 0.5, float("inf"), 1),
    "ln of too many": lambda by, m: by.ln_structured(m, "weight", 4, 2, 0),
    "random structured": lambda by, m: by.random_structured(m, "weight", 0.5, 0),
    "removed": lambda by, m: by.remove(by.l1_unstructured(m, "weight", 1), "weight"),
    "twice": lambda by, m: by.l1_unstructured(by.identity(m, "weight"), "weight", 1),
    "custom twice": lambda by, m: by.custom_from_mask(
        by.identity(m, "weight"), "weight", torch.ones_like(m.weight)
    ),
    "global": lambda by, m: by.global_unstructured(
        [(m, "weight"), (m, "bias")], by.L1Unstructured, amount=3
    ),
}


def outcome(package, call, mode, device, dtype):
    """Return the tensors of a pruned layer in words, or the error."""
    with mode():
        layer = nn.Linear(2, 3, device=device, dtype=dtype)
        try:
            CALLS[call](package, layer)
            layer(torch.ones(1, 2, device=device, dtype=dtype))
        except Exception as error:  # noqa: BLE001 - torch raises anything
            return error
        tensors = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
        tensors["weight"] = layer.weight
        assert package.is_pruned(layer) == reference.is_pruned(layer) == (call != "removed")
        return {
            name: (type(one), one.shape, one.dtype, one.device) for name, one in tensors.items()
        }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("mode", "device"),
    [
        (nullcontext, "meta"),
        (lambda: FakeTensorMode(allow_non_fake_inputs=True), "cpu"),
        (lambda: FakeTensorMode(allow_non_fake_inputs=True), "meta"),
    ],
    ids=["meta", "fake", "fake meta"],
)
@pytest.mark.parametrize("call", CALLS)
def test_a_layer_without_values_is_pruned_where_torch_prunes_it(call, mode, device, dtype):
    expected = outcome(reference, call, mode, device, dtype)
    found = outcome(pruning, call, mode, device, dtype)
    if isinstance(expected, Exception):
        assert isinstance(found, Exception) or call == "custom with values"
    else:
        assert found == expected


@pytest.mark.parametrize(
    "prune",
    [
        lambda layer: pruning.identity(layer, "weight"),
        lambda layer: pruning.ln_structured(layer, "weight", 1, n=2, dim=0),
        lambda layer: pruning.random_unstructured(layer, "weight", 0.5),
    ],
)
def test_loaded_tensors_take_the_place_of_those_on_meta(prune):
    source = nn.Linear(4, 3)
    pruning.l1_unstructured(source, "weight", 0.5)
    layer = nn.Linear(4, 3, device="meta")
    prune(layer)
    layer.load_state_dict(source.state_dict(), assign=True)
    x = torch.randn(2, 4)
    assert torch.equal(layer(x), source(x))
    layer(x).sum().backward()
    assert torch.equal(layer.weight_orig.grad != 0, layer.weight_mask == 1)
    assert torch.equal(pruning.remove(layer, "weight").weight, source.weight)


def test_the_values_of_a_mask_are_not_lost_on_meta():
    with pytest.raises(ValueError, match="parameter on meta has none"):
        pruning.custom_from_mask(nn.Linear(2, 3, device="meta"), "weight", SCORES > 2)
