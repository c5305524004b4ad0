"""Scopes, max_sparsity and external scores, which torch does not have."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from targets import target

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods import METHODS


def decide(method: str, *targets: Target, **parameters: object) -> list[Decision]:
    return METHODS[method].model_validate(parameters).decide(targets, Monitor())


def pruned_mask(decision: Decision, tensor: torch.Tensor) -> torch.Tensor:
    assert decision.predicate is not None
    return torch.from_numpy(decision.predicate.prunes(0, tensor.numel())).view(tensor.shape)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(st.floats(0, 1), st.integers(1, 6), st.integers(1, 9))
def test_scope_row_prunes_the_same_share_of_every_output_row(amount, rows, columns):
    weights = noise(rows, columns, 2)
    [decision] = decide("l1_unstructured", target(weights), scope="row", amount=amount)
    found = pruned_mask(decision, weights).flatten(1)
    assert found.sum(1).tolist() == [round(amount * columns * 2)] * rows
    assert decision.pruned == found.sum()
    for row, lost in zip(weights.flatten(1).abs(), found, strict=True):
        if lost.any() and not lost.all():
            assert row[lost].max() <= row[~lost].min()


def test_scope_row_treats_a_vector_as_one_row():
    weights = noise(10)
    [decision] = decide("l1_unstructured", target(weights), scope="row", amount=4)
    assert pruned_mask(decision, weights).sum() == 4


def test_a_number_larger_than_a_row_is_refused_by_name():
    with pytest.raises(RecipeError, match="row of layer"):
        decide("l1_unstructured", target(noise(3, 4), "layer"), scope="row", amount=5)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
)
def test_max_sparsity_limits_every_target_and_the_total_is_exact(sizes, amount, cap):
    tensors = [noise(n, seed=i) * 10**i for i, n in enumerate(sizes)]
    targets = [target(tensor, str(i)) for i, tensor in enumerate(tensors)]
    decisions = decide("l1_unstructured", *targets, scope="global", amount=amount, max_sparsity=cap)
    asked, possible = round(amount * sum(sizes)), sum(math.floor(cap * n) for n in sizes)
    assert sum(decision.pruned for decision in decisions) == min(asked, possible)
    assert all(d.pruned <= cap * n for d, n in zip(decisions, sizes, strict=True))
    missing = asked - min(asked, possible)
    assert any(f"{missing:,} fewer" in d.note for d in decisions) == (missing > 0)


def test_max_sparsity_of_0_29_allows_29_of_100():
    [decision] = decide("l1_unstructured", target(noise(100)), amount=0.9, max_sparsity=0.29)
    assert decision.pruned == 29
    assert "limited to 29 %" in decision.note


@given(st.sampled_from([1, 2, 3, 0.5, math.inf]), st.floats(0, 1))
def test_a_global_structured_step_normalises_norms_by_channel_size(n, amount):
    tensors = [noise(6, 4), noise(5, 3, 3, seed=1) * 2, noise(3, 50, seed=2)]
    decisions = decide(
        "ln_structured",
        *[target(t, str(i)) for i, t in enumerate(tensors)],
        scope="global",
        amount=amount,
        n=n,
    )
    means = [
        # The power mean, which is the p-norm divided by (number of elements)^(1/p).
        (t.flatten(1).double().abs() ** n).mean(1) ** (1 / n)
        if n != math.inf
        else t.flatten(1).double().abs().amax(1)
        for t in tensors
    ]
    order = torch.cat(means).argsort(stable=True)
    expected = torch.zeros(14, dtype=torch.bool)
    expected[order[: round(amount * 14)]] = True
    found = torch.cat(
        [pruned_mask(d, t).flatten(1).all(1) for d, t in zip(decisions, tensors, strict=True)]
    )
    assert torch.equal(found, expected)
    assert sum(d.pruned for d in decisions) == sum(
        int(pruned_mask(d, t).sum()) for d, t in zip(decisions, tensors, strict=True)
    )


def test_max_sparsity_limits_a_global_structured_step():
    small, large = noise(8, 3) / 100, noise(8, 3, seed=1)
    decisions = decide(
        "ln_structured",
        target(small, "small"),
        target(large, "large"),
        scope="global",
        amount=0.5,
        max_sparsity=0.75,
    )
    assert [decision.pruned for decision in decisions] == [6 * 3, 2 * 3]
    assert "limited to 75 %" in decisions[0].note


def test_the_nuclear_norm_is_refused_in_a_global_step():
    with pytest.raises(RecipeError, match="scope local"):
        decide("ln_structured", target(noise(3, 4, 4)), scope="global", n="nuc", amount=1)


def test_the_nuclear_norm_is_refused_if_a_channel_is_no_matrix():
    with pytest.raises(RecipeError, match="t has 4 dimensions; n='nuc' needs 3"):
        decide("ln_structured", target(noise(3, 4, 2, 2), "t"), n="nuc", amount=1)


def test_one_number_per_input_column_multiplies_the_weights():
    weights, activations = noise(5, 4, 3, 3), torch.tensor([0.1, 5.0, -1.0, 2.0])
    [decision] = decide(
        "l1_unstructured",
        target(weights, file=activations),
        scope="row",
        amount=0.5,
        importance="file",
    )
    scores = (weights.abs() * activations.abs()[:, None, None]).flatten(1)
    expected = scores.argsort(dim=1, stable=True).argsort(dim=1) < 18
    assert torch.equal(pruned_mask(decision, weights).flatten(1), expected)


@pytest.mark.parametrize("method", ["l1_unstructured", "ln_structured"])
def test_the_weight_delta_to_another_checkpoint_can_be_the_score(method):
    weights, before = noise(6, 8), noise(6, 8, seed=1)
    [decision] = decide(method, target(weights, base=before), amount=0.5, moved_from="base")
    [expected] = decide(method, target(weights - before), amount=0.5)
    assert torch.equal(pruned_mask(decision, weights), pruned_mask(expected, weights))


def test_two_sources_of_scores_are_refused():
    with pytest.raises(ValidationError, match="cannot be combined"):
        METHODS["l1_unstructured"].model_validate({"importance": "a", "moved_from": "b"})


def test_methods_with_amounts_1_and_1_0_differ():
    one, everything = (METHODS["l1_unstructured"].model_validate({"amount": a}) for a in (1, 1.0))
    assert one != everything
    assert one == METHODS["l1_unstructured"].model_validate({"amount": 1})
    assert len({one, everything}) == 2


@pytest.mark.parametrize("scope", ["local", "row"])
def test_the_rank_of_an_element_is_that_within_its_scope(scope):
    weights = torch.tensor([[1.0, -3.0, 2.0, 2.0], [8.0, 7.0, 6.0, 5.0]])
    [decision] = decide("l1_unstructured", target(weights), scope=scope, amount=0.5)
    assert decision.predicate is not None
    element_rank = decision.predicate.element_rank(3)
    assert (element_rank.score, element_rank.rank) == (2.0, 2)
    assert element_rank.ranked == {"local": 8, "row": 4}[scope]
    assert element_rank.cut == {"local": 3.0, "row": 2.0}[scope]
    assert element_rank.margin == {"local": -1.0, "row": 0.0}[scope]
    assert element_rank.pruned is (scope == "local")


def test_the_rank_of_an_element_is_that_of_its_channel():
    weights = torch.tensor([[3.0, 4.0], [1.0, 0.0], [math.nan, 1.0]])
    [decision] = decide("ln_structured", target(weights), amount=1)
    assert decision.predicate is not None
    first, second, third = (decision.predicate.element_rank(place) for place in (0, 3, 4))
    assert (first.unit, first.score, first.rank, first.pruned) == ("channel 0", 5.0, 1, False)
    assert (second.score, second.cut, second.rank, second.pruned) == (1.0, 1.0, 0, True)
    assert (third.rank, third.ranked, third.pruned) == (2, 3, False)
    assert np.isnan(third.score)
