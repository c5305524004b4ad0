"""The package replaces `torch.nn.utils.prune`: names, signatures, types, lazy import."""

import inspect
import subprocess
import sys
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.utils import prune as reference

import prune_gui.pruning

NAMES = sorted(
    name
    for name, thing in vars(reference).items()
    if getattr(thing, "__module__", None) == reference.__name__
)
CLASSES = [name for name in NAMES if inspect.isclass(getattr(reference, name))]
METHODS = ("__init__", "apply", "apply_mask", "compute_mask", "prune", "remove", "__call__")


def parameters(function):
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def test_every_name_of_the_reference_exists():
    assert len(NAMES) > 20
    assert set(NAMES) <= set(prune_gui.pruning.__all__)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(CLASSES)))
def test_functions_have_the_signatures_of_the_reference(name):
    assert parameters(getattr(prune_gui.pruning, name)) == parameters(getattr(reference, name))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("method", METHODS)
def test_methods_have_the_signatures_of_the_reference(name, method):
    ours, theirs = getattr(prune_gui.pruning, name), getattr(reference, name)
    assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method))


@pytest.mark.parametrize("name", CLASSES)
def test_our_classes_are_virtual_subclasses_of_those_of_torch(name):
    ours, theirs = getattr(prune_gui.pruning, name), getattr(reference, name)
    assert issubclass(ours, theirs)
    assert theirs not in ours.__mro__


def test_importing_the_package_imports_torch_only_on_first_use():
    code = (
        "import sys, prune_gui.pruning as p; assert 'torch' not in sys.modules; "
        "import prune_gui.pruning.amount; assert 'torch' not in sys.modules; "
        "p._compute_norm; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_method_can_be_monkeypatched_by_name():
    layer = nn.Linear(5, 2)
    mask = torch.ones_like(layer.weight)
    mask[1, 3] = 0
    with mock.patch("prune_gui.pruning.RandomUnstructured.compute_mask", return_value=mask):
        prune_gui.pruning.random_unstructured(layer, "weight", amount=0.9)
    assert torch.equal(layer.weight_mask, mask)
