"""Tensors that share memory: equal views are one parameter, different views are not prunable."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch import storages


def views(buffer: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "all": buffer,
        "turned": buffer.t(),
        "rows": buffer[1:3],
        "columns": buffer[:, :2],
        "even": buffer.view(-1)[::2],
    }


@pytest.mark.parametrize("other", ["turned", "rows", "columns", "even"])
def test_views_that_share_elements_are_not_prunable_with_the_other_name_as_reason(saved, other):
    found = views(torch.arange(24.0).view(6, 4))
    with open_checkpoint(
        saved({"a": found["all"], "b": found[other], "c": torch.ones(2)})
    ) as opened:
        reasons = {name: info.not_prunable for name, info in opened.tensors.items()}
        assert torch.equal(opened.read("b"), found[other])
    assert reasons == {"a": "shares memory with b", "b": "shares memory with a", "c": None}
    assert len(opened.warnings) == 2
    assert all("'a'" in warning and "'b'" in warning for warning in opened.warnings)


def test_tied_tensors_that_overlap_a_third_are_tied_and_not_pruned(saved):
    weight = torch.ones(4, 3)
    with open_checkpoint(saved({"a": weight, "b": weight, "c": weight[:2]})) as opened:
        assert list(opened.tensors) == ["a", "c"]
        assert opened.tensors["a"].aliases == ("b",)
        assert opened.tensors["a"].not_prunable == "shares memory with c"


def test_many_views_that_share_an_element_give_few_remarks(saved):
    weight = torch.ones(50)
    with open_checkpoint(saved({f"w{i}": weight[:i] for i in range(1, 50)})) as opened:
        assert len(opened.warnings) == 6
        assert "44 more" in opened.warnings[-1]


def test_beyond_the_limit_of_comparisons_interleaved_views_count_as_overlapping(monkeypatch):
    buffer = torch.zeros(6, 40)
    columns = {f"c{i}": buffer[:, i] for i in range(40)}
    assert storages.overlapping(columns) == {}
    bits = torch.zeros(8, dtype=torch.int32)
    of_dtypes = {"a": bits.view(torch.float32)[:5], "b": bits[4:], "c": bits[:0]}
    assert storages.overlapping(of_dtypes) == {"a": "b", "b": "a"}
    monkeypatch.setattr(storages, "MAX_COMPARISONS", 100)
    assert len(storages.overlapping(columns)) > 20


sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3)
view_strategy = st.tuples(
    sizes, st.lists(st.integers(1, 5), min_size=3, max_size=3), st.integers(0, 12)
)


@given(st.lists(view_strategy, min_size=2, max_size=5))
def test_exactly_the_tensors_that_share_an_element_are_found(view_arguments):
    buffer = torch.zeros(64)
    tensors, elements = {}, {}
    for i, (shape, strides, offset) in enumerate(view_arguments):
        view = buffer.as_strided(shape, strides[: len(shape)], offset)
        indices = torch.arange(64).as_strided(shape, strides[: len(shape)], offset)
        if len(set(indices.reshape(-1).tolist())) == math.prod(shape):
            tensors[f"{i}"], elements[f"{i}"] = view, set(indices.reshape(-1).tolist())
    found = storages.overlapping(tensors)
    for name, own in elements.items():
        others = {other for other in elements if other != name and own & elements[other]}
        assert (found[name] in others) if others else (name not in found)
