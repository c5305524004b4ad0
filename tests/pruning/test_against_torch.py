"""Our masks held against those of `torch.nn.utils.prune`, on stacks of steps made at random.

Weights have distinct absolute values, and sums of them are exact, so that ties, which torch leaves
open, are met only where two norms coincide; such stacks are passed over.
"""

import copy
import math
from functools import partial

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune as reference

from prune_gui import pruning

shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4)
shares = st.floats(0, 1)
orders = st.sampled_from([0, 1, 2, 3, 0.5, math.inf, -math.inf, "fro"])
seeds = st.integers(0, 2**32)


def distinct(draw, shape):
    """Draw a tensor of the shape whose absolute values all differ."""
    size = math.prod(shape)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(draw(seeds)))
    signs = torch.tensor(draw(st.lists(st.sampled_from([-1, 1]), min_size=size, max_size=size)))
    return ((order + 1) * signs / 8).reshape(shape)


def module_of(**tensors):
    module = nn.Module()
    for name, tensor in tensors.items():
        module.register_parameter(name, nn.Parameter(tensor))
    return module


@st.composite
def steps(draw, shape):
    """Draw a step as a function of (package, module, name)."""
    kinds = ["identity", "random", "l1", "scores", "custom"]
    kind = draw(st.sampled_from(kinds + ["ln", "random_structured"] * (len(shape) > 1)))
    amount = draw(shares | st.integers(0, math.prod(shape)))
    if kind == "identity":
        return lambda package, *target: package.identity(*target)
    if kind == "random":
        return lambda package, *target: package.random_unstructured(*target, amount)
    if kind == "l1":
        return lambda package, *target: package.l1_unstructured(*target, amount)
    if kind == "scores":
        given_scores = distinct(draw, shape)
        return lambda package, *target: package.l1_unstructured(*target, amount, given_scores)
    if kind == "custom":
        bits = draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape)))
        mask = torch.tensor(bits).reshape(shape)
        return lambda package, *target: package.custom_from_mask(*target, mask)
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    channels = draw(shares | st.integers(0, shape[dim]))
    if kind == "ln":
        n = draw(orders.filter(lambda n: n != "fro" or len(shape) < 4))
        return partial(ln_without_ties, channels=channels, n=n, dim=dim)
    return lambda package, *target: package.random_structured(*target, channels, dim)


def ln_without_ties(package, module, name, channels, n, dim):
    weights = getattr(module, name).detach()
    mask = getattr(module, name + "_mask", torch.ones_like(weights))
    others = [d for d in range(weights.dim()) if d != dim % weights.dim()]
    norms = package._compute_norm(weights, n, dim)[mask.sum(others) > 0].double().sort().values
    assume((norms.diff() > 1e-5 * norms[1:]).all())
    package.ln_structured(module, name, channels, n, dim)


def outcome(call):
    """Return the type of the error of a call, or None."""
    try:
        call()
    except (ValueError, IndexError) as error:
        return type(error)
    return None


@settings(max_examples=300)
@given(st.data(), shapes, seeds)
def test_a_stack_of_methods_prunes_what_torch_prunes(data, shape, seed):
    ours = module_of(weight=distinct(data.draw, shape))
    theirs = copy.deepcopy(ours)
    stack = data.draw(st.lists(steps(shape), min_size=1, max_size=4))
    for i, step in enumerate(stack):
        outcomes = []
        for package, module in ((pruning, ours), (reference, theirs)):
            torch.manual_seed(seed + i)
            outcomes.append(outcome(partial(step, package, module, "weight")))
        assert outcomes[0] == outcomes[1]
        if outcomes[0] is not None:
            return  # torch's module is broken from here on
        assert torch.equal(ours.weight_mask, theirs.weight_mask)
        assert torch.equal(ours.weight, theirs.weight)
        assert list(ours.state_dict()) == list(theirs.state_dict())
    for package, module in ((pruning, ours), (reference, theirs)):
        package.remove(module, "weight")
    assert torch.equal(ours.weight, theirs.weight)


@settings(max_examples=100)
@given(st.data(), st.lists(shapes, min_size=1, max_size=3), seeds, shares, st.integers(0, 8))
def test_global_steps_prune_what_torch_prunes(data, many, seed, share, count):
    flat = distinct(data.draw, [sum(math.prod(shape) for shape in many)])
    parts = flat.split([math.prod(shape) for shape in many])
    ours = module_of(**{f"w{i}": part.reshape(many[i]) for i, part in enumerate(parts)})
    theirs = copy.deepcopy(ours)
    names = [name for name, _ in ours.named_parameters()]
    chosen = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names)))]
    first = data.draw(steps(many[0]))
    calls = [
        lambda package, module: first(package, module, "w0"),
        lambda package, module: package.global_unstructured(
            [(module, name) for name in names], package.L1Unstructured, amount=share
        ),
        lambda package, module: package.global_unstructured(
            [(module, name) for name in chosen], package.RandomUnstructured, amount=count
        ),
        lambda package, module: package.global_unstructured(
            [(module, name) for name in chosen],
            package.L1Unstructured,
            importance_scores={(module, chosen[0]): getattr(module, chosen[0]).detach() * 100},
            amount=share,
        ),
    ]
    for call in calls:
        outcomes = []
        for package, module in ((pruning, ours), (reference, theirs)):
            torch.manual_seed(seed)
            outcomes.append(outcome(partial(call, package, module)))
        assert outcomes[0] == outcomes[1]
        if outcomes[0] is not None:
            return
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)
