"""The outline of a checkpoint."""

from __future__ import annotations

from fnmatch import fnmatch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.session import ModuleIndex
from prune_gui.session import module_index as outline_module

parts = st.sampled_from(["a", "b", "0", "10", "2", "weight", ""])
names = st.lists(parts, min_size=1, max_size=5).map(".".join)


@st.composite
def tensors(draw):
    every = draw(st.lists(names, unique=True, max_size=20))
    shapes = st.sampled_from([(2, 3), (4,), (), (0, 2)])
    dtypes = st.sampled_from(["float32", "int64"])
    return [TensorInfo(name, draw(shapes), draw(dtypes)) for name in every]


def walk(outline):
    waiting = [0]
    while waiting:
        number = waiting.pop()
        yield outline[number]
        waiting += [child.number for child in outline.children(number)]


@given(tensors(), st.sampled_from([0, 1000]))
def test_each_branch_has_the_places_of_the_parameters_of_its_node(some, large):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outline_module, "LARGE", large)
        outline = ModuleIndex(some)
    leaves = set()
    for branch in walk(outline):
        found = [outline.tensors[place] for place in branch.places]
        assert found == list(branch.node.tensors)
        assert outline.entries[branch.places].sum() == branch.node.numel
        assert all(child.parent == branch.number for child in outline.children(branch.number))
        assert outline.find(branch.node.path) is branch or branch.node.path == ""
        leaves |= {branch.node.tensor} - {None}
    assert leaves == set(some)


@given(tensors())
def test_pruned_entries_stand_in_their_places(some):
    outline = ModuleIndex(some)
    counts = {t.name: (i, t.numel) for i, t in enumerate(some) if not t.not_prunable}
    pruned = outline.pruned(counts)
    assert pruned.tolist() == [counts.get(t.name, (0, 0))[0] for t in outline.tensors]


@given(tensors(), st.sampled_from(["", "A", "0", "a.b", "*.weight", "a.*", "[ab]*", "?"]))
def test_names_that_hold_the_text_or_fit_the_glob_match(some, text):
    outline = ModuleIndex(some)
    found = outline.matches(text)
    lowered = text.lower()
    glob = any(sign in text for sign in "*?[")
    for tensor, matches in zip(outline.tensors, found, strict=True):
        assert matches == (fnmatch(tensor.name, lowered) if glob else lowered in tensor.name)


SOME = [
    TensorInfo("block.weight", (2, 2), "float32"),
    TensorInfo("block.bias", (2,), "float32"),
    TensorInfo("block.ids", (2, 2), "int64"),
    TensorInfo("norm.weight", (2,), "float32"),
]


def meant(text: str, *paths: str) -> set[str]:
    outline = ModuleIndex(SOME)
    return set(outline.meant_by(map(outline.find, paths), outline.matches(text)))


def test_a_module_means_its_weights_or_else_all_that_can_be_pruned():
    assert meant("", "block") == {"block.weight"}
    assert meant("", "norm") == {"norm.weight"}
    assert meant("", "block.bias", "norm") == {"block.bias", "norm.weight"}
    assert meant("", "block.ids") == set()


def test_a_module_means_no_embedding_unless_it_has_nothing_else():
    embedding = TensorInfo("embeddings.word_embeddings.weight", (9, 2), "float32")
    tied = TensorInfo("wte.weight", (9, 2), "float32")
    outline = ModuleIndex([*SOME, embedding, tied])
    everything = outline.matches("")
    assert outline.meant_by([outline[0]], everything) == {"block.weight"}
    assert outline.meant_by([outline.find("wte")], everything) == {tied.name}


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
def test_conditions_narrow_a_filter_down(text, names):
    kinds = {"block.weight": frozenset({"Linear", "Attention"})}
    outline = ModuleIndex(SOME, lambda: kinds)
    found = outline.matches(text, {"norm.weight": (1, 2), "block.bias": (0, 2)})
    assert [SOME[place].name for place in np.flatnonzero(found)] == names


def test_a_filter_is_quick_once_it_was_looked_at_what_it_is_about(monkeypatch):
    monkeypatch.setattr(outline_module, "LARGE", 1)
    some = ModuleIndex(TensorInfo(name, (2, 2), "float32") for name in ("a.weight", "b.weight"))
    text = "weight dtype:float*, !size>9 sparsity>0"
    assert some.is_quick("weight sparsity>0")
    assert not some.is_quick(text)
    before = some.matches("weight")
    some.look(text)
    assert some.is_quick(text)
    assert some.matches(text).tolist() == before.tolist()
    with pytest.raises(RecipeError):
        some.is_quick("size>")


def test_what_is_filtered_away_is_not_meant():
    assert meant("bias", "block") == {"block.bias"}
    assert meant("norm", "block") == set()
