"""The package replaces `torch.nn.utils.prune`: names, signatures, types, amounts, lazy import."""

import inspect
import math
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from python_process import run_python
from torch import nn
from torch.nn.utils import prune as reference

import prune_gui.pruning
from prune_gui.pruning.amount import (
    _compute_nparams_toprune,
    _validate_pruning_amount,
    _validate_pruning_amount_init,
    units_wanted,
)

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
    run_python(
        "import sys, prune_gui.pruning as p; assert 'torch' not in sys.modules; "
        "import prune_gui.pruning.amount; assert 'torch' not in sys.modules; "
        "p._compute_norm; assert 'torch' in sys.modules"
    )


def test_a_method_can_be_monkeypatched_by_name():
    layer = nn.Linear(5, 2)
    mask = torch.ones_like(layer.weight)
    mask[1, 3] = 0
    with mock.patch("prune_gui.pruning.RandomUnstructured.compute_mask", return_value=mask):
        prune_gui.pruning.random_unstructured(layer, "weight", amount=0.9)
    assert torch.equal(layer.weight_mask, mask)


shares = st.floats(0, 1)
sizes = st.integers(0, 10**12)


@pytest.mark.parametrize(
    ("amount", "total", "expected"),
    [(0.5, 1, 0), (0.5, 3, 2), (0.5, 5, 2), (1, 9, 1), (1.0, 9, 9)],
)
def test_half_units_are_rounded_to_even_and_1_is_one_unit(amount, total, expected):
    assert _compute_nparams_toprune(amount, total) == expected


@given(shares, sizes)
def test_a_share_gives_the_same_number_of_units_as_torch(share, size):
    assert _compute_nparams_toprune(share, size) == reference._compute_nparams_toprune(share, size)


@pytest.mark.parametrize("amount", [1.1, -0.1, math.inf, -1, math.nan])
def test_an_amount_out_of_range_is_refused(amount):
    with pytest.raises(ValueError, match="amount="):
        _validate_pruning_amount_init(amount)


@pytest.mark.parametrize("amount", ["0.5", None, True, False, 0.5j])
def test_values_that_are_no_numbers_are_refused(amount):
    with pytest.raises(TypeError, match="amount="):
        _validate_pruning_amount_init(amount)


@pytest.mark.parametrize("amount", [np.int64(3), np.float32(0.25), np.float64(0.25)])
def test_numpy_numbers_are_valid_amounts(amount):
    _validate_pruning_amount_init(amount)
    assert _compute_nparams_toprune(amount, 12) == 3


def test_too_many_units_are_an_error_with_both_numbers():
    with pytest.raises(ValueError, match=r"20.*19"):
        _validate_pruning_amount(20, 19)


@pytest.mark.parametrize(
    ("amount", "amount_of", "expected"),
    [
        (0.5, "remaining", 30),
        (0.5, "total", 50),
        (0.5, "reach", 10),
        (0.25, "reach", 0),
        (1.0, "reach", 60),
        (7, "remaining", 7),
        (7, "total", 7),
        (47, "reach", 7),
        (7, "reach", 0),
    ],
)
def test_amounts_when_40_of_100_units_are_pruned(amount, amount_of, expected):
    assert units_wanted(amount, amount_of, remaining=60, total=100) == expected


@given(shares, st.integers(0, 1000), st.integers(0, 1000))
def test_reaching_a_share_is_idempotent(share, remaining, pruned):
    total = remaining + pruned
    first = units_wanted(share, "reach", remaining=remaining, total=total)
    assert units_wanted(share, "reach", remaining=remaining - first, total=total) == 0
