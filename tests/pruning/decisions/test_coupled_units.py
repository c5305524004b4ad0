"""Pruning of the units of coupled groups, by their weights, by a file, or without effect."""

import numpy as np
import pytest
import torch
from coupled_groups import HIDDEN, decide, decisions_of, groups_of, tensors_of, units_of
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import RecipeError
from prune_gui.pruning.decisions.target import GroupScores
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.selection.scores import TensorScores


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
    kept = torch.arange(8) >= 4
    pruned = decide(tensors_of([8]), groups_of([8]), masks=masks_of(kept, kept, kept), amount=0.5)
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


def whole_tensors(count, space):
    """Return tensors of a group of units that have two whole tensors each."""
    tensors = {f"{i}.{part}": torch.randn(3, 2) for i in range(count) for part in ("a", "b")}
    members = tuple(Member(name, None, int(name[0])) for name in tensors)
    return tensors, [CoupledGroup(space, "blocks", count, members)]


@pytest.mark.parametrize("method", ["layers", "experts", "listed_units"])
def test_listed_units_may_be_whole_tensors(method):
    tensors, groups = whole_tensors(3, method)
    field = method.removeprefix("listed_")
    pruned = decide(tensors, groups, method, **{field: "0, 2"})
    assert [bool(mask.all()) for mask in pruned.values()] == [True, True, False, False, True, True]
    assert not pruned["1.a"].any()
    with pytest.raises(RecipeError, match=r"blocks has 3 units; 3 does not exist. Use 0 to 2"):
        decide(tensors, groups, method, **{field: [3]})
    with pytest.raises(RecipeError, match=r"blocks has 1 unit; 3 does not exist. Use 0\."):
        decide(*whole_tensors(1, method), method, **{field: [3]})


def test_the_rank_of_an_element_names_its_unit():
    decisions = decisions_of(tensors_of([4], width=2), groups_of([4], 2), amount=1)
    first = decisions["0.up"].predicate.element_rank(5 * HIDDEN)
    assert first == decisions["0.down"].predicate.element_rank(5)
    assert (first.unit, first.ranked) == ("unit 2 of layer 0", 4)
    assert first.pruned == (first.rank == 0)


def test_groups_of_vectors_cannot_be_ranked():
    groups = [CoupledGroup("ffn", "norms", 4, (Member("scale", 0),))]
    with pytest.raises(RecipeError, match="norms has no tensor with two dimensions"):
        decide({"scale": torch.ones(4)}, groups)


FILE = "/scores.safetensors"
reductions = st.sampled_from(["mean", "sum", "max"])


def of_units(*vectors):
    """Return the scores of groups, one vector each."""
    return [GroupScores(FILE, TensorScores.of(torch.as_tensor(one)), {}) for one in vectors]


def of_weights(*tensors_by_name):
    """Return the scores of the weights of groups."""
    return [
        GroupScores(FILE, None, {name: TensorScores.of(one) for name, one in tensors.items()})
        for tensors in tensors_by_name
    ]


def lowest(scores, k):
    """Return the k lowest of a vector as a bool array; of equal ones, the first."""
    pruned = np.zeros(len(scores), bool)
    pruned[np.argsort(scores, kind="stable")[:k]] = True
    return pruned


@st.composite
def vectors(draw):
    """Draw vectors with many ties and infinities."""
    score = st.sampled_from([0.0, 0.5, 1.0, 2.5, np.inf])
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    return [np.array([draw(score) for _ in range(size)]) for size in sizes]


@given(vectors(), st.floats(0, 1), st.integers(1, 2), st.sampled_from(["local", "global"]))
def test_the_units_of_lowest_score_go_and_of_equal_ones_the_first(scores, amount, width, scope):
    sizes = [len(one) for one in scores]
    fields = {"amount": amount, "scope": scope, "normalization": "none", "importance": FILE}
    tensors, groups = tensors_of(sizes, width=width), groups_of(sizes, width)
    pruned = decide(tensors, groups, given=of_units(*scores), **fields)
    ranked = scores if scope == "local" else [np.concatenate(scores)]
    expected = np.concatenate([lowest(own, round(amount * len(own))) for own in ranked])
    units = np.concatenate([units_of(pruned, i, width).numpy() for i in range(len(sizes))])
    assert units.tolist() == expected.tolist()


@given(
    st.lists(st.integers(2, 8), min_size=1, max_size=2),
    st.integers(1, 3),
    reductions,
    st.sets(st.sampled_from(["up", "up_bias", "down"]), min_size=1),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_scores_of_weights_are_reduced_over_the_tensors_in_the_file(
    sizes, width, reduction, names, dtype
):
    tensors, groups = tensors_of(sizes, width=width), groups_of(sizes, width)
    importances = {
        name: tensor.to(dtype) for name, tensor in tensors_of(sizes, seed=1, width=width).items()
    }
    by_group = [
        {f"{i}.{name}": importances[f"{i}.{name}"] for name in names} for i in range(len(sizes))
    ]
    fields = {"amount": 1, "importance": FILE, "reduction": reduction}
    decisions = decisions_of(tensors, groups, given=of_weights(*by_group), **fields)
    for i, size in enumerate(sizes):
        slices = {
            "up": importances[f"{i}.up"].reshape(size, -1),
            "up_bias": importances[f"{i}.up_bias"].reshape(size, -1),
            "down": importances[f"{i}.down"].T.reshape(size, -1),
        }
        chosen = [slices[name].double().abs().numpy() for name in sorted(names)]
        expected = {
            "sum": sum(one.sum(1) for one in chosen),
            "mean": np.mean([one.mean(1) for one in chosen], axis=0),
            "max": np.max([one.mean(1) for one in chosen], axis=0),
        }[reduction]
        [units] = decisions[f"{i}.up_bias"].predicate.slices
        np.testing.assert_allclose(units.units.ranks, expected, rtol=1e-5)


def test_scores_are_copied_from_the_file():
    vector = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    fields = {"amount": 1, "importance": FILE}
    decisions = decisions_of(tensors_of([3]), groups_of([3]), given=of_units(vector), **fields)
    vector.zero_()
    [units] = decisions["0.up"].predicate.slices
    assert units.units.ranks.tolist() == [3, 1, 2]


def test_scores_of_pruned_weights_count_as_zeros():
    masks = {"0.up": torch.ones(3, HIDDEN, dtype=torch.bool)}
    masks["0.up"][2, 1:] = False
    given = of_weights({"0.up": torch.tensor([[1.0], [2.0], [3.0]]).expand(3, HIDDEN)})
    fields = {"masks": masks, "amount": 1, "importance": FILE}
    pruned = decide(tensors_of([3]), groups_of([3]), given=given, **fields)
    assert units_of(pruned, 0).tolist() == [False, False, True]


def test_one_score_per_input_column_multiplies_the_weights():
    weight = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    groups = [CoupledGroup("ffn", "layer", 3, (Member("w", 0),))]
    for factors, unit in (([1.0, 1.0], 0), ([9.0, 1.0], 1)):
        given_scores = of_weights({"w": torch.tensor(factors)})
        pruned = decide({"w": weight}, groups, amount=1, importance=FILE, given=given_scores)
        assert pruned["w"].all(1).nonzero().tolist() == [[unit]]


@pytest.mark.parametrize("name", ["layers", "experts"])
@pytest.mark.parametrize("amount", [2, 0.5])
@pytest.mark.parametrize("by_unit", [True, False])
def test_whole_tensors_go_by_their_scores(name, amount, by_unit):
    tensors, groups = whole_tensors(4, name)
    weights = {f"{i}.a": torch.full((3, 2), s) for i, s in enumerate((5.0, -1.0, 7.0, 2.0))}
    scores = of_units([5.0, 1.0, 7.0, 2.0]) if by_unit else of_weights(weights)
    fields = {"amount": amount, "importance": FILE}
    pruned = decide(tensors, groups, name, given=scores, **fields)
    assert [bool(pruned[f"{i}.b"].all()) for i in range(4)] == [False, True, False, True]
    assert not pruned["0.a"].any()
    decisions = decisions_of(tensors, groups, name, given=of_units([5.0, 1.0, 7.0, 2.0]), **fields)
    rank = decisions["3.a"].predicate.element_rank(5)
    assert rank.unit == "unit 3 of blocks, score from scores.safetensors"
    assert (rank.pruned, rank.score, rank.cut, rank.rank, rank.ranked) == (True, 2.0, 2.0, 1, 4)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            of_units([1.0, np.nan, 2.0]),
            r"/scores.safetensors: layer 0.ffn has a NaN score, of unit 1",
        ),
        (of_units([1.0, 2.0, -0.5]), r"layer 0.ffn has a negative score, -0.5 of unit 2\. Add"),
        (of_units([-np.inf, 2.0, 1.0]), r"negative score, -inf of unit 0"),
        (
            of_weights({"0.up_bias": torch.tensor([1.0, 2.0, np.nan])}),
            r"layer 0 has a NaN score, of unit 2",
        ),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(scores, message):
    with pytest.raises(RecipeError, match=message):
        decide(tensors_of([3]), groups_of([3]), importance=FILE, given=scores)


SIZE = 8
units = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).map(torch.tensor)


def masks_of(up, bias, down):
    """Return masks of a group, given which units each tensor keeps."""
    return {
        "0.up": up[:, None].repeat(1, 6),
        "0.up_bias": bias,
        "0.down": down.repeat(6, 1),
    }


def forward(tensors, masks, x):
    kept = {name: tensor * masks[name] for name, tensor in tensors.items()}
    return torch.relu(x @ kept["0.up"].T + kept["0.up_bias"]) @ kept["0.down"].T


@given(units, units, units)
def test_the_outputs_stay_as_they_are_and_all_units_without_effect_go(up, bias, down):
    tensors, groups = tensors_of([SIZE]), groups_of([SIZE])
    masks = masks_of(up, bias, down)
    pruned = decide(tensors, groups, "dead_units", masks=masks)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    left = {name: mask & ~pruned[name] for name, mask in masks.items()}
    assert torch.equal(forward(tensors, left, x), forward(tensors, masks, x))
    assert torch.equal(units_of(pruned, 0), ~down | ~(up | bias))


@pytest.mark.parametrize("fold", [True, False])
def test_a_unit_that_emits_a_constant_stays_and_is_counted(fold):
    every = torch.ones(SIZE, dtype=torch.bool)
    fields = {"masks": masks_of(~every, every, every), "fold_constants": fold}
    decisions = decisions_of(tensors_of([SIZE]), groups_of([SIZE]), "dead_units", **fields)
    assert not any(decision.pruned for decision in decisions.values())
    (note,) = {decision.note for decision in decisions.values()}
    constant = "8 units have no weights and emit a constant, because a bias or a norm of them"
    assert note.startswith(f"{constant} remains")
    assert ("the compact form leaves them out" in note) == fold
