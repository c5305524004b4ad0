import pytest

from prune_gui.checkpoint import TensorInfo
from prune_gui.checkpoint.parameters import parameters
from prune_gui.checkpoint.tensor_info import RawTensor


def raw(shape=(2, 3), view=None, special=None):
    return RawTensor(shape, "float32", view, special)


def test_an_original_and_its_mask_are_one_parameter_at_the_position_of_the_first():
    infos, remarks = parameters({"a.b": raw(), "a.w_mask": raw(), "c": raw(), "a.w_orig": raw()})
    assert list(infos) == ["a.b", "a.w", "c"]
    assert infos["a.w"].pair == ("a.w_orig", "a.w_mask")
    assert remarks == []


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"w": raw(), "w_orig": raw(), "w_mask": raw()}, "'w' exists too"),
        ({"w_orig": raw(), "w_mask": raw((2,))}, "their shapes differ"),
        ({"w_orig": raw(), "w_mask": raw(special="sparse")}, "not both dense (sparse)"),
    ],
)
def test_tensors_that_only_look_like_a_pair_stay_separate_with_a_remark(tensors, reason):
    infos, remarks = parameters(tensors)
    assert list(infos) == list(tensors)
    assert all(info.pair is None for info in infos.values())
    (remark,) = remarks
    assert reason in remark


@pytest.mark.parametrize("key", ["w_orig", "w_mask", "_orig", "attention_mask"])
def test_half_a_pair_is_an_ordinary_tensor(key):
    infos, remarks = parameters({key: raw()})
    assert list(infos) == [key]
    assert remarks == []


def test_equal_views_are_one_parameter_with_aliases():
    infos, _ = parameters({"emb": raw(view=1), "x": raw(view=2), "head": raw(view=1)})
    assert list(infos) == ["emb", "x"]
    assert infos["emb"].aliases == ("head",)


def test_tied_pairs_are_one_parameter_only_if_their_masks_are_tied():
    tied = {f"{name}_orig": raw(view=1) for name in "abc"}
    masks = {"a_mask": raw(view=2), "b_mask": raw(view=2), "c_mask": raw(view=3)}
    infos, _ = parameters(tied | masks)
    assert list(infos) == ["a", "c"]
    assert infos["a"].aliases == ("b",)
    assert infos["c"].aliases == ()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["module.a", "module.b"], "'module.', which DataParallel"),
        (["_orig_mod.a"], "'_orig_mod.', which torch.compile"),
        (["a._orig_mod.b", "c"], "'_orig_mod.', which torch.compile"),
        (["module.a", "b"], ""),
    ],
)
def test_prefixes_from_training_are_kept_with_a_remark(names, words):
    infos, remarks = parameters({name: raw() for name in names})
    assert list(infos) == names
    assert [words in remark for remark in remarks] == [True] * bool(words)


def test_the_number_of_remarks_of_one_kind_is_limited(monkeypatch):
    pairs = {f"{i}_{half}": raw((i,)) for i in range(9) for half in ("orig",)}
    pairs |= {f"{i}_mask": raw() for i in range(9)}
    assert len(parameters(pairs)[1]) == 6


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
def test_only_nonempty_real_floating_point_tensors_are_prunable(shape, dtype, special, reason):
    assert TensorInfo("x", shape, dtype, special=special).not_prunable == reason


def test_sizes_count_elements_and_packed_bytes():
    assert TensorInfo("x", (2, 3), "bfloat16").nbytes == 12
    assert TensorInfo("x", (), "float64").numel == 1
    assert TensorInfo("x", (4, 2), "float6_e2m3").nbytes == 6
