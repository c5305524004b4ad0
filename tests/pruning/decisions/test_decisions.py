"""Laws of the methods, and comparison with torch on the same tensor."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from targets import target
from torch import nn
from torch.nn.utils import prune as torch_prune

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods import METHODS

SHAPES = [(7,), (6, 5), (4, 3, 2), (5, 2, 3, 3)]


def decide(method: str, *targets: Target, **parameters: object) -> list[Decision]:
    return METHODS[method].model_validate(parameters).decide(targets, Monitor())


def pruned(decision: Decision, shape: tuple[int, ...]) -> torch.Tensor:
    if decision.predicate is None:
        return torch.zeros(shape, dtype=torch.bool)
    return torch.from_numpy(decision.predicate.prunes(0, math.prod(shape))).view(shape)


@st.composite
def distinct(draw: st.DrawFn, shapes: list[tuple[int, ...]] = SHAPES) -> torch.Tensor:
    """Return a tensor without ties in absolute value, so that the mask of torch is unique."""
    shape = draw(st.sampled_from(shapes))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    magnitudes = torch.randperm(size, generator=generator) + 1.0
    signs = torch.randint(0, 2, (size,), generator=generator) * 2.0 - 1.0
    return (magnitudes * signs).view(shape)


@given(distinct(), st.floats(0, 1))
def test_l1_agrees_with_torch(tensor, amount):
    [decision] = decide("l1_unstructured", target(tensor), amount=amount)
    mask = torch_prune.L1Unstructured(amount).compute_mask(tensor, torch.ones_like(tensor))
    assert torch.equal(~pruned(decision, tensor.shape), mask.bool())


@given(distinct(SHAPES[1:]), st.floats(0, 1), st.sampled_from([0, 1, 2, 3, math.inf]), st.data())
def test_ln_agrees_with_torch(tensor, amount, n, data):
    dim = data.draw(st.integers(-tensor.dim(), tensor.dim() - 1))
    [decision] = decide("ln_structured", target(tensor), amount=amount, n=n, dim=dim)
    mask = torch_prune.LnStructured(amount, n, dim).compute_mask(tensor, torch.ones_like(tensor))
    norms = torch.linalg.vector_norm(tensor.movedim(dim, 0).flatten(1).double(), n, dim=1)
    ours, theirs = pruned(decision, tensor.shape), ~mask.bool()
    if len(norms.unique()) == len(norms):  # torch's choice among equal norms is undefined
        assert torch.equal(ours, theirs)
    assert ours.sum() == theirs.sum()


@given(st.lists(distinct(), min_size=1, max_size=4), st.floats(0, 1))
def test_a_global_step_agrees_with_torch(tensors, amount):
    scale = 1 + torch.arange(len(tensors)) / 1000  # no two tensors have a common value
    tensors = [tensor * s for tensor, s in zip(tensors, scale, strict=True)]
    modules = [nn.Module() for _ in tensors]
    for module, tensor in zip(modules, tensors, strict=True):
        module.weight = nn.Parameter(tensor.clone())
    decisions = decide(
        "l1_unstructured",
        *[target(t, str(i)) for i, t in enumerate(tensors)],
        amount=amount,
        scope="global",
    )
    torch_prune.global_unstructured(
        [(m, "weight") for m in modules], torch_prune.L1Unstructured, amount=amount
    )
    for module, tensor, decision in zip(modules, tensors, decisions, strict=True):
        assert torch.equal(~pruned(decision, tensor.shape), module.weight_mask.bool())


@given(
    st.sampled_from(
        ["l1_unstructured", "random_unstructured", "ln_structured", "random_structured"]
    ),
    st.sampled_from(SHAPES[1:]),
    st.integers(0, 99),
    st.sampled_from(["remaining", "total", "reach"]),
    st.floats(0, 1),
)
def test_the_count_is_exact_despite_ties_and_earlier_steps(name, shape, seed, amount_of, amount):
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randint(-2, 3, shape, generator=generator).float()
    remaining_mask = torch.rand(shape, generator=generator).numpy() < 0.7
    method = METHODS[name]
    if method.unit == "entry":
        total, remaining = tensor.numel(), int(remaining_mask.sum())
    else:
        total, remaining = shape[0], int(remaining_mask.reshape(shape[0], -1).any(1).sum())
    wanted = {
        "remaining": round(amount * remaining),
        "total": round(amount * total),
        "reach": max(0, round(amount * total) - (total - remaining)),
    }[amount_of]
    arguments = {"amount": amount, "amount_of": amount_of}
    if wanted > remaining:
        with pytest.raises(RecipeError, match=f"{wanted}.*{remaining}"):
            decide(name, target(tensor, remaining_mask=remaining_mask), **arguments)
        return
    [decision] = decide(name, target(tensor, remaining_mask=remaining_mask), **arguments)
    gone = pruned(decision, shape).numpy() & remaining_mask
    assert decision.pruned == gone.sum()
    units = (
        gone.sum()
        if method.unit == "entry"
        else (
            remaining_mask.reshape(shape[0], -1).any(1)
            & (~(remaining_mask & ~gone)).reshape(shape[0], -1).all(1)
        ).sum()
    )
    assert units == wanted


def test_scores_from_a_file_replace_the_weights():
    weights, scores = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-9.0, 0.5, 0.1])
    [decision] = decide(
        "l1_unstructured", target(weights, scores=scores), amount=2, importance="scores"
    )
    assert pruned(decision, (3,)).tolist() == [False, True, True]


def test_pruned_elements_do_not_contribute_to_a_norm():
    weights = torch.tensor([[9.0, 0.1], [1.0, 1.0]])
    remaining_mask = np.array([[False, True], [True, True]])
    [fresh] = decide("ln_structured", target(weights), amount=1)
    [stacked] = decide("ln_structured", target(weights, remaining_mask=remaining_mask), amount=1)
    assert pruned(fresh, (2, 2))[:, 0].tolist() == [False, True]
    assert pruned(stacked, (2, 2))[:, 0].tolist() == [True, False]
    assert stacked.pruned == 1


def test_completely_pruned_channels_are_not_counted_again():
    remaining_mask = np.array([[False, False], [True, True], [True, False]])
    [decision] = decide(
        "random_structured", target(torch.ones(3, 2), remaining_mask=remaining_mask), amount=2
    )
    assert decision.pruned == 3


def test_a_custom_mask_prunes_its_zeros_and_counts_remaining_elements():
    mask = torch.tensor([1, 0, 0, 1])
    remaining_mask = np.array([True, False, True, True])
    given_target = target(torch.ones(4), remaining_mask=remaining_mask, file=mask)
    [decision] = decide("custom_from_mask", given_target, mask="file")
    assert decision.pruned == 1
    assert pruned(decision, (4,)).tolist() == [False, True, True, False]


def test_a_non_binary_custom_mask_is_refused_by_name():
    given_target = target(torch.ones(2), "layer.weight", file=torch.tensor([0.5, 1.0]))
    with pytest.raises(RecipeError, match=r"layer\.weight"):
        decide("custom_from_mask", given_target, mask="file")


def test_identity_prunes_nothing():
    [decision] = decide("identity", target(torch.zeros(3)))
    assert decision.pruned == 0
    assert decision.predicate is None


def test_random_steps_depend_on_seed_and_name_but_not_on_order():
    a, b = (target(torch.ones(200), name) for name in "ab")
    for scope in ("local", "global"):
        first = decide("random_unstructured", a, b, amount=0.5, scope=scope, seed=1)
        again = decide("random_unstructured", b, a, amount=0.5, scope=scope, seed=1)[::-1]
        other = decide("random_unstructured", a, b, amount=0.5, scope=scope, seed=2)
        for one, two, three in zip(first, again, other, strict=True):
            assert torch.equal(pruned(one, (200,)), pruned(two, (200,)))
            assert not torch.equal(pruned(one, (200,)), pruned(three, (200,)))
        assert not torch.equal(pruned(first[0], (200,)), pruned(first[1], (200,)))


@pytest.mark.parametrize(("shape", "dim"), [((), 0), ((4,), 0), ((4, 3), 2), ((4, 3), -3)])
def test_a_target_without_channels_or_the_dimension_is_named(shape, dim):
    with pytest.raises(RecipeError, match="layer"):
        decide("ln_structured", target(torch.ones(shape), "layer"), amount=1, dim=dim)


def test_a_nan_channel_is_kept_and_noted():
    weights = torch.tensor([[math.nan, 0.0], [5.0, 5.0], [6.0, 6.0]])
    [decision] = decide("ln_structured", target(weights), amount=2)
    assert pruned(decision, (3, 2))[:, 0].tolist() == [False, True, True]
    assert decision.predicate is not None
    assert "NaN" in decision.predicate.note
