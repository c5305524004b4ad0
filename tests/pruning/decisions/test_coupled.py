"""Pruning of the units of coupled groups."""

from __future__ import annotations

import pytest
import torch
from coupled_groups import HIDDEN, decide, groups_of, target, tensors_of, units_of
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.methods import METHODS


@given(
    st.lists(st.integers(2, 12), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    st.sampled_from(["mean", "sum", "max"]),
    st.sampled_from([1, 2, 3.5]),
)
def test_the_units_of_smallest_score_go_from_all_members(sizes, width, amount, reduction, n):
    tensors, groups = tensors_of(sizes, width=width), groups_of(sizes, width)
    pruned = decide(tensors, groups, amount=amount, reduction=reduction, n=n)
    for i, size in enumerate(sizes):
        ups = tensors[f"{i}.up"].double().abs().view(size, width * HIDDEN)
        downs = tensors[f"{i}.down"].double().abs().T.reshape(size, width * HIDDEN)
        powers = torch.stack([(ups**n).sum(1), (downs**n).sum(1)])
        norms = (powers / (width * HIDDEN)) ** (1 / n)
        expected = {
            "sum": powers.sum(0) ** (1 / n),
            "mean": norms.mean(0),
            "max": norms.max(0).values,
        }[reduction]
        units = units_of(pruned, i, width)
        assert units.sum() == round(amount * size)
        if 0 < units.sum() < size:
            assert expected[units].max() <= expected[~units].min() * (1 + 1e-5)
        channels = units.repeat_interleave(width)
        assert torch.equal(pruned[f"{i}.up"], channels[:, None].expand(-1, HIDDEN))
        assert torch.equal(pruned[f"{i}.down"], channels.expand(HIDDEN, -1))


def test_layers_are_comparable_in_a_global_step_whatever_their_scale():
    tensors, groups = tensors_of([8, 8]), groups_of([8, 8])
    for name in ("1.up", "1.up_bias", "1.down"):
        tensors[name] *= 1000
    plain = decide(tensors, groups, scope="global", normalization="none")
    assert units_of(plain, 0).all()
    assert not units_of(plain, 1).any()
    normalized = decide(tensors, groups, scope="global")
    assert 0 < units_of(normalized, 0).sum() < 8
    assert units_of(normalized, 0).sum() + units_of(normalized, 1).sum() == 8


def test_a_uniform_step_keeps_equally_many_units_in_every_layer():
    tensors, groups = tensors_of([8, 12]), groups_of([8, 12])
    pruned = decide(tensors, groups, scope="global", uniform=True, amount=0.5)
    assert [int((~units_of(pruned, i)).sum()) for i in (0, 1)] == [5, 5]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_kept_number_is_rounded_up(scope):
    tensors, groups = tensors_of([16, 16]), groups_of([16, 16])
    pruned = decide(tensors, groups, scope=scope, amount=0.55, round_to=4)
    for i in (0, 1):
        assert (~units_of(pruned, i)).sum() % 4 == 0


def test_units_that_are_pruned_already_are_not_ranked():
    tensors, groups = tensors_of([8]), groups_of([8])
    gone = torch.arange(8) < 4
    masks = {
        "0.up": ~gone[:, None].expand(8, HIDDEN),
        "0.up_bias": ~gone,
        "0.down": ~gone.expand(HIDDEN, 8),
    }
    masks = {name: mask.contiguous() for name, mask in masks.items()}
    pruned = decide(tensors, groups, masks=masks, amount=0.5)
    assert units_of(pruned, 0)[:4].sum() == 0
    assert units_of(pruned, 0)[4:].sum() == 2


def test_a_tensor_of_two_groups_loses_rows_and_columns():
    tensors = {"a": torch.randn(4, 3), "b": torch.randn(5, 4), "c": torch.randn(2, 5)}
    groups = [
        CoupledGroup("channels", "a", 4, (Member("a", 0), Member("b", 1, role="consumes"))),
        CoupledGroup("channels", "b", 5, (Member("b", 0), Member("c", 1, role="consumes"))),
    ]
    pruned = decide(tensors, groups, amount=2, space="channels")
    rows, columns = pruned["c"][0], pruned["a"][:, 0]
    assert rows.sum() == columns.sum() == 2
    assert torch.equal(pruned["b"], rows[:, None] | columns[None])


@pytest.mark.parametrize("method", ["layers", "experts", "listed_units"])
def test_listed_units_may_be_whole_tensors(method):
    tensors = {f"{i}.{part}": torch.randn(3, 2) for i in range(3) for part in ("a", "b")}
    members = tuple(Member(name, None, int(name[0])) for name in tensors)
    groups = [CoupledGroup(method, "blocks", 3, members)]
    field = method.removeprefix("listed_")
    pruned = decide(tensors, groups, method, **{field: "0, 2"})
    assert [bool(mask.all()) for mask in pruned.values()] == [True, True, False, False, True, True]
    assert not pruned["1.a"].any()
    with pytest.raises(RecipeError, match=r"blocks has 3 units; 3 does not exist. Use 0 to 2"):
        decide(tensors, groups, method, **{field: [3]})


def test_the_rank_of_an_element_names_its_unit():
    tensors, groups = tensors_of([4], width=2), groups_of([4], 2)
    targets = [target(name, tensor) for name, tensor in tensors.items()]
    method = METHODS["coupled"].model_validate({"amount": 1})
    [up, _, down] = method.decide_groups(groups, targets, Monitor())
    first, second = up.predicate.element_rank(5 * HIDDEN), down.predicate.element_rank(5)
    assert first == second
    assert first.unit == "unit 2 of layer 0"
    assert first.ranked == 4
    assert first.pruned == (first.rank == 0)


def test_groups_of_vectors_cannot_be_ranked():
    groups = [CoupledGroup("ffn", "norms", 4, (Member("scale", 0),))]
    with pytest.raises(RecipeError, match="norms has no tensor with two dimensions"):
        decide({"scale": torch.ones(4)}, groups)
