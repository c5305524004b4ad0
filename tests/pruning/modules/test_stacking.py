"""Containers of several methods, of this package and of torch."""

import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning


class PlugIn(reference.BasePruningMethod):
    """A method written for torch that prunes the first `amount` elements that it gets."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        self.amount = amount

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[: self.amount] = 0
        return mask


class Recording(pruning.BasePruningMethod):
    """Records the tensor that it gets, and prunes nothing."""

    def __init__(self, pruning_type):
        self.PRUNING_TYPE = pruning_type
        self.dim = 0

    def compute_mask(self, t, default_mask):
        self.shown = t.clone()
        return default_mask


def stacked(*methods, name="weight"):
    for method in methods:
        method._tensor_name = name
    return pruning.PruningContainer(*methods)


def test_the_same_container_grows_with_every_call():
    layer = nn.Linear(4, 3)
    pruning.l1_unstructured(layer, "weight", 1)
    pruning.ln_structured(layer, "weight", 1, 2, 0)
    pruning.random_structured(layer, "weight", 1, 1)
    [hook] = layer._forward_pre_hooks.values()
    assert [type(method).__name__ for method in hook] == [
        "L1Unstructured",
        "LnStructured",
        "RandomStructured",
    ]
    assert len(hook) == 3
    assert hook[1:] == (hook[1], hook[2])
    assert hook._tensor_name == "weight"


def test_the_pruned_tensor_of_an_earlier_step_is_freed():
    layer = pruning.l1_unstructured(nn.Linear(4, 3), "weight", 1)
    earlier = weakref.ref(layer.weight)
    pruning.l1_unstructured(layer, "weight", 1)
    assert earlier() is None


@pytest.mark.parametrize(
    ("pruning_type", "shown"),
    [
        ("unstructured", [3.0, 4.0, 5.0]),
        ("structured", [[3.0, 4.0], [5.0, 6.0]]),
        ("global", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    ],
)
def test_a_method_gets_the_part_that_its_pruning_type_selects(pruning_type, shown):
    t = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    mask = torch.tensor([[0, 0], [1, 1], [1, 0]])
    method = Recording(pruning_type)
    found = stacked(method).compute_mask(t, mask)
    assert method.shown.tolist() == shown
    assert torch.equal(found, mask.float())


def test_the_mask_of_the_earlier_methods_is_not_changed():
    mask = torch.ones(2, 3)
    stacked(pruning.L1Unstructured(2)).compute_mask(torch.randn(2, 3), mask)
    assert torch.equal(mask, torch.ones(2, 3))


def test_unknown_pruning_types_and_missing_dimensions_are_errors():
    t = torch.ones(2, 3)
    with pytest.raises(ValueError, match="'odd'"):
        stacked(Recording("odd")).compute_mask(t, t)
    method = Recording("structured")
    for dim in (2, -3):
        method.dim = dim
        with pytest.raises(IndexError, match=str(dim)):
            stacked(method).compute_mask(t, t)
    del method.dim
    with pytest.raises(AttributeError, match="dim"):
        stacked(method).compute_mask(t, t)


def test_a_container_takes_only_methods_of_one_parameter():
    container = stacked(pruning.Identity())
    other = pruning.Identity()
    other._tensor_name = "bias"
    with pytest.raises(ValueError, match="'bias'"):
        container.add_pruning_method(other)
    for thing in (None, 10, "ugh"):
        with pytest.raises(TypeError, match="not a pruning method"):
            container.add_pruning_method(thing)


def test_a_method_written_for_torch_can_be_added_to_our_container():
    plug_in = PlugIn(2)
    container = stacked(pruning.L1Unstructured(1), plug_in)
    mask = container.compute_mask(torch.ones(2, 3), torch.tensor([[0, 1, 1], [1, 1, 1]]))
    assert mask.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_torch_recognises_modules_that_we_pruned():
    layer = nn.Linear(4, 3)
    pruning.l1_unstructured(layer, "weight", 5)
    assert reference.is_pruned(layer)
    PlugIn.apply(layer, "weight", 2)
    assert int((layer.weight_mask == 0).sum()) == 7
    reference.remove(layer, "weight")
    assert not reference.is_pruned(layer)
    assert int((layer.weight == 0).sum()) == 7


@pytest.mark.parametrize("times", [1, 2])
def test_modules_pruned_by_torch_can_be_pruned_further(times):
    layer = nn.Linear(4, 3)
    for _ in range(times):
        reference.l1_unstructured(layer, "weight", 2)
    assert pruning.is_pruned(layer)
    pruning.l1_unstructured(layer, "weight", 3)
    [hook] = layer._forward_pre_hooks.values()
    assert type(hook) is pruning.PruningContainer
    assert len(hook) == times + 1
    assert int((layer.weight_mask == 0).sum()) == 2 * times + 3
    pruning.remove(layer, "weight")
    assert not pruning.is_pruned(layer)


def test_two_hooks_on_one_parameter_are_refused():
    layer = pruning.identity(nn.Linear(4, 3), "weight")
    [hook] = layer._forward_pre_hooks.values()
    layer.register_forward_pre_hook(hook)
    with pytest.raises(AssertionError, match="PruningContainer"):
        pruning.identity(layer, "weight")
