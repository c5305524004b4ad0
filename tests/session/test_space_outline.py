"""The tree of spaces, groups and parameters."""

from __future__ import annotations

import pytest
from small_bert import EMBEDDINGS

from prune_gui.errors import RecipeError
from prune_gui.session import ModuleIndex
from prune_gui.session.space_outline import SpaceOutline

UP = "encoder.layer.1.intermediate.dense.weight"


@pytest.fixture
def outline(bert):
    return SpaceOutline.of(bert, None, ModuleIndex(bert.tensors.values()))


def names(outline, number=0):
    return {child.node.name: names(outline, child.number) for child in outline.children(number)}


def test_the_parameters_are_below_the_groups_that_they_are_members_of(outline, bert):
    tree = names(outline)
    assert list(tree) == ["FFN neurons", "attention heads", "layers", "Other parameters"]
    assert list(tree["FFN neurons"]["1"]) == [
        "intermediate.dense.weight",
        "intermediate.dense.bias",
        "output.dense.weight",
    ]
    assert list(tree["attention heads"]) == ["0.attention", "1.attention"]
    assert list(tree["layers"]["encoder.layer"]) == ["layer 0", "layer 1"]
    assert tree["FFN neurons"]["1"].items() <= tree["layers"]["encoder.layer"]["layer 1"].items()
    assert list(tree["Other parameters"]) == [EMBEDDINGS]
    shown = {
        outline[number].node.path
        for number in range(1, len(outline._nodes))
        if outline[number].node.tensor
    }
    assert shown == set(bert.tensors)


def test_units_and_indices_of_a_group_are_those_of_its_members(outline, bert):
    [space, *_] = outline.children(0)
    assert space.node.units == 24
    group = outline.children(space.number)[1]
    assert (group.node.units, group.node.path) == (12, "encoder.layer.1")
    tensors = list(bert.tensors)
    leaves = outline.children(group.number)
    assert [leaf.node.path for leaf in leaves] == [tensors[i] for i in group.places]
    assert [tensors[i] for leaf in leaves for i in leaf.places] == [one.node.path for one in leaves]
    assert list(outline.group_numbers(space.number)) == [
        one.number for one in outline.children(space.number)
    ]


def test_a_parameter_is_found_in_its_first_group_and_has_a_node_in_each(outline):
    found = outline.find(UP)
    assert outline[found.parent].node.path == "encoder.layer.1"
    assert outline[outline[found.parent].parent].node.name == "FFN neurons"
    assert list(outline.nodes_of(UP)) == [found]
    names(outline)
    assert len(outline.nodes_of(UP)) == 2  # also as a part of a layer
    assert outline[outline.find(EMBEDDINGS).parent].node.name == "Other parameters"
    assert outline.find("missing") is None
    assert list(outline.nodes_of("missing")) == []


def test_a_table_that_does_not_fit_is_refused(bert, tmp_path):
    with pytest.raises(RecipeError, match=r"none.yaml: the table cannot be read"):
        SpaceOutline.of(bert, tmp_path / "none.yaml", ModuleIndex(()))
