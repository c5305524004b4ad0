"""The index of the module tree of a checkpoint."""

from __future__ import annotations

from fnmatch import fnmatch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.session import ModuleIndex, module_index

parts = st.sampled_from(["a", "b", "0", "10", "2", "weight", ""])
names = st.lists(parts, min_size=1, max_size=5).map(".".join)


@st.composite
def tensors(draw):
    every = draw(st.lists(names, unique=True, max_size=20))
    shapes = st.sampled_from([(2, 3), (4,), (), (0, 2)])
    dtypes = st.sampled_from(["float32", "int64"])
    return [TensorInfo(name, draw(shapes), draw(dtypes)) for name in every]


def all_nodes(index):
    pending = [0]
    while pending:
        number = pending.pop()
        yield index[number]
        pending += [child.number for child in index.children(number)]


@given(tensors(), st.sampled_from([0, 1000]))
def test_each_node_has_the_indices_of_its_parameters(some, large):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module_index, "LARGE_PARAMETER_COUNT", large)
        index = ModuleIndex(some)
    leaf_tensors = set()
    for node in all_nodes(index):
        found = [index.tensors[place] for place in node.places]
        assert found == list(node.node.tensors)
        assert index.elements[node.places].sum() == node.node.numel
        assert all(child.parent == node.number for child in index.children(node.number))
        assert index.find(node.node.path) is node or node.node.path == ""
        leaf_tensors |= {node.node.tensor} - {None}
    assert leaf_tensors == set(some)


@given(tensors())
def test_pruned_counts_are_at_the_indices_of_their_parameters(some):
    index = ModuleIndex(some)
    counts = {t.name: (i, t.numel) for i, t in enumerate(some) if not t.not_prunable}
    pruned = index.pruned(counts)
    assert pruned.tolist() == [counts.get(t.name, (0, 0))[0] for t in index.tensors]


@given(tensors(), st.sampled_from(["", "A", "0", "a.b", "*.weight", "a.*", "[ab]*", "?"]))
def test_names_that_contain_the_text_or_match_the_glob_are_found(some, text):
    index = ModuleIndex(some)
    found = index.matches(text)
    lowercase_text = text.lower()
    glob = any(sign in text for sign in "*?[")
    for tensor, matches in zip(index.tensors, found, strict=True):
        assert matches == (
            fnmatch(tensor.name, lowercase_text) if glob else lowercase_text in tensor.name
        )


SOME = [
    TensorInfo("block.weight", (2, 2), "float32"),
    TensorInfo("block.bias", (2,), "float32"),
    TensorInfo("block.ids", (2, 2), "int64"),
    TensorInfo("norm.weight", (2,), "float32"),
]


def selected(text: str, *paths: str) -> set[str]:
    index = ModuleIndex(SOME)
    return set(index.selected_parameters(map(index.find, paths), index.matches(text)))


def test_a_module_stands_for_its_weights_or_else_all_prunable_parameters():
    assert selected("", "block") == {"block.weight"}
    assert selected("", "norm") == {"norm.weight"}
    assert selected("", "block.bias", "norm") == {"block.bias", "norm.weight"}
    assert selected("", "block.ids") == set()


def test_a_module_stands_for_embeddings_only_without_other_weights():
    embedding = TensorInfo("embeddings.word_embeddings.weight", (9, 2), "float32")
    tied = TensorInfo("wte.weight", (9, 2), "float32")
    index = ModuleIndex([*SOME, embedding, tied])
    everything = index.matches("")
    assert index.selected_parameters([index[0]], everything) == {"block.weight"}
    assert index.selected_parameters([index.find("wte")], everything) == {tied.name}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("type:LINEAR", ["block.weight"]),
        ("block dims>1 dtype:float*", ["block.weight"]),
        ("size<3 sparsity>=50%", ["norm.weight"]),
        ("*.weight shape:2x*", ["block.weight"]),
        ("norm, ids", ["block.ids", "norm.weight"]),
        ("dims>1, !ids", ["block.weight"]),
        ("!bias, !norm", ["block.weight", "block.ids"]),
        ("!dtype:int64 dims:2", ["block.weight", "block.bias", "norm.weight"]),
    ],
)
def test_conditions_restrict_a_filter(text, names):
    module_types = {"block.weight": frozenset({"Linear", "Attention"})}
    index = ModuleIndex(SOME, lambda: module_types)
    found = index.matches(text, {"norm.weight": (1, 2), "block.bias": (0, 2)})
    assert [SOME[place].name for place in np.flatnonzero(found)] == names


def test_a_filter_is_quick_once_its_condition_values_are_loaded(monkeypatch):
    monkeypatch.setattr(module_index, "LARGE_PARAMETER_COUNT", 1)
    some = ModuleIndex(TensorInfo(name, (2, 2), "float32") for name in ("a.weight", "b.weight"))
    text = "weight dtype:float*, !size>9 sparsity>0"
    assert some.is_quick("weight sparsity>0")
    assert not some.is_quick(text)
    before = some.matches("weight")
    some.load_condition_values(text)
    assert some.is_quick(text)
    assert some.matches(text).tolist() == before.tolist()
    with pytest.raises(RecipeError):
        some.is_quick("size>")


def test_parameters_that_are_not_shown_are_not_selected():
    assert selected("bias", "block") == {"block.bias"}
    assert selected("norm", "block") == set()


def test_values_by_name_are_arranged_by_parameter():
    index = ModuleIndex([TensorInfo(name, (2,), "float32") for name in "abc"])
    assert index.values_of({"c": 3, "a": 0}, missing=-1).tolist() == [0, -1, 3]


def test_masks_are_countable_if_nothing_can_be_pruned():
    masks = ModuleIndex([TensorInfo("a.weight", (2, 3), "bool"), TensorInfo("n", (), "int64")])
    assert masks.countable({}).tolist() == [0, 0]
    assert masks.countable({"a.weight": (4, 6)}).tolist() == [6, 0]
    mixed = ModuleIndex([TensorInfo("causal", (6,), "bool"), TensorInfo("w", (4,), "float32")])
    assert mixed.countable({"w": (0, 4)}).tolist() == [0, 4]
