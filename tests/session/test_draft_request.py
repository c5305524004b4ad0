"""Steps with units of a coupled group that the user selected by hand."""

from __future__ import annotations

import pytest
import torch

from prune_gui.architecture.groups import coupled_groups
from prune_gui.architecture.tables import own_tables
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step, resolve
from prune_gui.session.draft_request import (
    dead_units,
    drafted_channels,
    drafted_units,
    listed,
    listed_units,
    why_not_listed,
)

UP = "encoder.layer.0.intermediate.dense.weight"


@pytest.mark.parametrize(("space", "size"), [("ffn", 12), ("heads", 4), ("layers", 2)])
def test_the_step_prunes_exactly_the_units_of_one_group(bert, space, size):
    group = coupled_groups(bert, space)[-1]
    step = listed_units(frozenset({size - 1}), group, bert)
    resolution = resolve(Recipe(steps=[step]), bert)
    assert resolution.counts.keys() >= {one.name for one in group.members}
    for name, (pruned, total) in resolution.counts.items():
        members = [one for one in group.members if one.name == name]
        whole = any(one.dim is None for one in members)
        share = sum(1 / size for one in members if one.dim is not None)
        expected = whole and members[0].offset == size - 1
        assert pruned == (total if expected else total * share)
    assert drafted_units(step, None, None, group, bert) == {size - 1}
    for other in coupled_groups(bert, "ffn"):
        if other != group:
            assert drafted_units(step, None, None, other, bert) is None


def test_the_units_of_a_ranking_draft_are_known_when_it_is_resolved(bert):
    first, second = coupled_groups(bert, "ffn")
    fields = {"method": "coupled", "space": "ffn", "amount": 5}
    draft = Step.model_validate(fields | {"targets": [UP]})
    preview = resolve(Recipe(steps=[draft]), bert)
    units = drafted_units(draft, preview, 1, first, bert)
    kept = preview.mask(UP).any(1)
    assert units == frozenset((~kept).nonzero()[:, 0].tolist())
    assert len(units) == 5
    assert drafted_units(draft, preview, 1, second, bert) is None
    assert drafted_units(draft, None, None, first, bert) is None
    both = Step.model_validate(fields | {"targets": ["*.intermediate.dense.weight"]})
    preview = resolve(Recipe(steps=[both]), bert)
    assert drafted_units(both, preview, 1, first, bert) is None


def test_a_draft_of_another_method_has_no_units(bert):
    group = coupled_groups(bert, "ffn")[0]
    draft = Step.model_validate({"method": "channels", "channels": [1], "targets": [UP]})
    preview = resolve(Recipe(steps=[draft]), bert)
    assert drafted_units(draft, preview, 1, group, bert) is None


@pytest.mark.parametrize(
    ("space", "listed"), [("ffn", True), ("layers", True), ("experts", True), ("other", False)]
)
def test_only_kinds_of_units_with_a_method_can_be_listed(space, listed):
    assert (not why_not_listed(CoupledGroup(space, "a", 1, (Member("a", 0),)))) is listed


def test_every_kind_of_units_of_the_own_tables_can_be_listed_or_has_a_reason():
    kinds = {space for table in own_tables() for space in table.spaces}
    reasons = {
        kind: why_not_listed(CoupledGroup(kind, "a", 1, (Member("a", 0),))) for kind in kinds
    }
    assert {kind for kind, reason in reasons.items() if reason} == {"tokens"}
    assert reasons["tokens"] == (
        "Tokens cannot be picked here: the method Tokens prunes those of a file"
    )


def test_what_remains_of_dead_units_is_pruned_in_one_group_or_in_all(bert):
    down = [UP.replace("intermediate", "output").replace(".0.", f".{i}.") for i in range(2)]
    cut = Step.model_validate({"method": "channels", "channels": [1, 5], "dim": 1, "targets": down})
    group = coupled_groups(bert, "ffn")[0]
    for step, layers in ((dead_units(group, bert), 1), (dead_units(None, bert), 2)):
        counts = resolve(Recipe(steps=[cut, step]), bert).counts
        pruned = {name for name, (number, _) in counts.items() if number}
        assert pruned - set(down) == {
            f"encoder.layer.{i}.intermediate.dense.{leaf}"
            for i in range(layers)
            for leaf in ("weight", "bias")
        }


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_layers_of_two_stacks_are_listed_for_theirs(on_disk, stack):
    shapes = {
        f"{side}.block.{i}.layer.{j}.{leaf}.weight": (4, 4)
        for side in ("encoder", "decoder")
        for i in range(2)
        for j, leaves in enumerate(
            [
                [f"SelfAttention.{name}" for name in "qkvo"],
                *([[f"EncDecAttention.{name}" for name in "qkvo"]] if side == "decoder" else []),
                ["DenseReluDense.wi", "DenseReluDense.wo"],
            ]
        )
        for leaf in leaves
    }
    opened = on_disk({name: torch.ones(shape) for name, shape in shapes.items()})
    [group] = coupled_groups(opened, f"{stack}_layers")
    step = listed_units(frozenset({1}), group, opened)
    assert step.method.stack == stack
    counts = resolve(Recipe(steps=[step]), opened).counts
    assert {name for name, (pruned, _) in counts.items() if pruned} == {
        name for name in shapes if name.startswith(f"{stack}.block.1.")
    }


@pytest.fixture
def pair(on_disk):
    weights = torch.arange(1.0, 13.0).reshape(3, 4)
    return on_disk({"a": weights, "b": weights.clone()})


def step_of(method, target, **parameters):
    return Step(method=METHODS[method](**parameters), targets=(target,))


def drafted(pair, step, dim=0, name="a"):
    outcome = resolve(Recipe(steps=[step]), pair).outcomes[0]
    return drafted_channels(step, outcome, dim, name, pair)


def test_listed_channels_are_those_of_the_draft_before_it_is_resolved(pair):
    step = listed(frozenset({2, 0}), 1, "a", pair)
    assert step.targets == ("a",)
    assert drafted_channels(step, None, 1, "a", pair) == {0, 2}
    assert drafted_channels(step, None, 0, "a", pair) is None
    assert drafted_channels(step, None, 1, "b", pair) is None


def test_ranked_channels_are_those_of_the_outcome(pair):
    step = step_of("ln_structured", "a", amount=2, dim=0)
    assert drafted(pair, step) == {0, 1}
    assert drafted_channels(step, None, 0, "a", pair) is None
    assert drafted(pair, step, dim=1) is None
    assert drafted(pair, step_of("ln_structured", "*", amount=2)) is None


def test_other_methods_have_no_channels(pair):
    assert drafted(pair, step_of("l1_unstructured", "a", amount=2)) is None
