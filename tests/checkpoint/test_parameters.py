from __future__ import annotations

import pytest

from prune_gui.checkpoint import TensorInfo
from prune_gui.checkpoint.parameters import RawTensor, parameters


def raw(shape=(2, 3), view=None, special=None):
    return RawTensor(shape, "float32", view, special)


def test_an_original_and_its_mask_are_one_parameter_in_the_place_of_the_first():
    found, remarks = parameters(
        {"a.b": raw(), "a.w_mask": raw(), "c": raw(), "a.w_orig": raw()},
    )
    assert list(found) == ["a.b", "a.w", "c"]
    assert found["a.w"].pair == ("a.w_orig", "a.w_mask")
    assert remarks == []


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"w": raw(), "w_orig": raw(), "w_mask": raw()}, "'w' exists too"),
        ({"w_orig": raw(), "w_mask": raw((2,))}, "their shapes differ"),
        ({"w_orig": raw(), "w_mask": raw(special="sparse")}, "not both dense (sparse)"),
    ],
)
def test_what_only_looks_like_a_pair_stays_apart_and_is_remarked_on(tensors, reason):
    found, remarks = parameters(tensors)
    assert list(found) == list(tensors)
    assert all(info.pair is None for info in found.values())
    (remark,) = remarks
    assert reason in remark


@pytest.mark.parametrize("key", ["w_orig", "w_mask", "_orig", "attention_mask"])
def test_half_a_pair_is_a_tensor_like_any_other(key):
    found, remarks = parameters({key: raw()})
    assert list(found) == [key]
    assert remarks == []


def test_the_very_same_view_is_one_parameter_with_aliases():
    found, _ = parameters({"emb": raw(view=1), "x": raw(view=2), "head": raw(view=1)})
    assert list(found) == ["emb", "x"]
    assert found["emb"].aliases == ("head",)


def test_tied_pairs_are_one_parameter_only_if_their_masks_are_tied_too():
    tied = {f"{name}_orig": raw(view=1) for name in "abc"}
    masks = {"a_mask": raw(view=2), "b_mask": raw(view=2), "c_mask": raw(view=3)}
    found, _ = parameters(tied | masks)
    assert list(found) == ["a", "c"]
    assert found["a"].aliases == ("b",)
    assert found["c"].aliases == ()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["module.a", "module.b"], "'module.', as DataParallel"),
        (["_orig_mod.a"], "'_orig_mod.', as torch.compile"),
        (["a._orig_mod.b", "c"], "'_orig_mod.', as torch.compile"),
    ],
)
def test_what_training_puts_before_names_is_kept_and_remarked_on(names, words):
    found, remarks = parameters({name: raw() for name in names})
    assert list(found) == names
    (remark,) = remarks
    assert words in remark


def test_some_names_with_the_prefix_are_nothing_to_remark_on():
    assert parameters({"module.a": raw(), "b": raw()})[1] == []


def test_many_remarks_of_a_kind_are_few(monkeypatch):
    pairs = {f"{i}_{half}": raw((i,)) for i in range(9) for half in ("orig",)}
    pairs |= {f"{i}_mask": raw() for i in range(9)}
    assert len(parameters(pairs)[1]) == 6


def test_a_tensor_without_a_view_is_tied_to_none():
    found, _ = parameters({"a": raw(), "b": raw()})
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("shape", "dtype", "special", "reason"),
    [
        ((2, 3), "float32", None, None),
        ((), "bfloat16", None, None),
        ((4,), "float8_e5m2", None, None),
        ((0, 3), "float32", None, "empty"),
        ((3,), "int64", None, "integer"),
        ((3,), "uint8", None, "integer"),
        ((3,), "bool", None, "boolean"),
        ((3,), "complex64", None, "complex"),
        ((3,), "quint8", "quantized", "quantized"),
        ((3,), "float32", "sparse", "sparse"),
        ((4,), "float4_e2m1", None, "packed"),
        ((4,), "float8_e8m0fnu", None, "cannot hold a zero"),
    ],
)
def test_only_real_floating_point_with_entries_can_be_pruned(shape, dtype, special, reason):
    assert TensorInfo("x", shape, dtype, special=special).not_prunable == reason


def test_sizes_count_entries_and_packed_bytes():
    assert TensorInfo("x", (2, 3), "bfloat16").nbytes == 12
    assert TensorInfo("x", (), "float64").numel == 1
    assert TensorInfo("x", (4, 2), "float6_e2m3").nbytes == 6
