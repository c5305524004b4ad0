"""New keys of tensors in numbered modules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.recipe.compaction.renaming import Renumbering


def flags(size, gone):
    return np.isin(np.arange(size), list(gone))


@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_experts_in_renumbered_layers_are_renumbered_themselves(layers, experts, data):
    gone = data.draw(st.sets(st.integers(0, layers - 1)))
    experts_gone = [data.draw(st.sets(st.integers(0, experts - 1))) for _ in range(layers)]
    name = "model.layers.{}.experts.{}.w".format
    names = [name(i, j) for i in range(layers) for j in range(experts)]
    blocks = CoupledGroup(
        "layers",
        "model.layers",
        layers,
        tuple(Member(each, None, int(each.split(".")[2]), number_at=2) for each in names),
    )
    groups = [blocks] + [
        CoupledGroup(
            "experts",
            f"model.layers.{i}",
            experts,
            tuple(Member(name(i, j), None, j, number_at=4) for j in range(experts)),
        )
        for i in range(layers)
    ]
    removed = [flags(layers, gone), *(flags(experts, some) for some in experts_gone)]
    renumbering = Renumbering(groups, removed, names)
    expected = [
        name(new_i, new_j)
        for new_i, i in enumerate(i for i in range(layers) if i not in gone)
        for new_j, _ in enumerate(j for j in range(experts) if j not in experts_gone[i])
    ]
    assert [new for each in names if (new := renumbering.new_key(each))] == expected


def test_what_is_common_to_all_blocks_stays_in_the_first_and_aliases_go_along():
    members = [Member(f"block.{i}.w", None, i, number_at=1) for i in range(3)]
    group = CoupledGroup("layers", "block", 3, tuple(members))
    names = ["block.0.bias_of_all", *(member.name for member in members)]
    renumbering = Renumbering([group], [flags(3, {0})], names)
    assert renumbering.new_key("block.0.bias_of_all") == "block.0.bias_of_all"
    assert renumbering.new_key("block.0.w") is None
    assert renumbering.new_key("block.2.w") == "block.1.w"
    assert renumbering.new_key("block.2.alias") == "block.1.alias"


@pytest.mark.parametrize(
    ("numbers", "expected"), [((4, 5, 9), ("4", "5")), ((0, 1, 2), ("0", "1"))]
)
def test_remaining_blocks_get_the_first_of_the_old_numbers(numbers, expected):
    members = tuple(Member(f"b.{n}.w", None, i, number_at=1) for i, n in enumerate(numbers))
    group = CoupledGroup("layers", "b", 3, members)
    renumbering = Renumbering([group], [flags(3, {1})], [member.name for member in members])
    new = [renumbering.new_key(members[i].name) for i in (0, 2)]
    assert new == [f"b.{number}.w" for number in expected]
