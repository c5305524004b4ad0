import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import parallel
from prune_gui.checkpoint import open_checkpoint
from prune_gui.comparison.difference import difference
from prune_gui.comparison.tensor_diff import Side, TensorDiff, Zeros, common_dtype, diff_tensors
from prune_gui.errors import CheckpointError
from prune_gui.pruning.selection.scores import TensorScores
from prune_gui.recipe import Recipe, export, resolve


def _states(found):
    return {row.name: row.state for row in found.rows}


def test_every_tensor_of_either_file_has_one_row_with_its_state(in_memory):
    same = torch.randn(3, 4)
    a = in_memory(
        {
            "same": same,
            "moved": same,
            "wide": same,
            "typed": same,
            "gone": same,
            "whole": same.int(),
        }
    )
    b = in_memory(
        {
            "new": same, "whole": same.int(), "typed": same.double(),
            "wide": same.view(4, 3), "moved": same + 1, "same": same.clone(),
        }
    )  # fmt: skip
    found = difference(a, b)
    assert _states(found) == {
        "same": "identical", "moved": "changed", "wide": "shape", "typed": "equal",
        "gone": "only_in_a", "whole": "identical", "new": "only_in_b",
    }  # fmt: skip
    assert list(_states(found)) == [*a.tensors, "new"]
    assert not found.identical
    assert found.states["identical"] == 2


@given(st.integers(0, 12), st.sampled_from([8, 16, 1 << 20]))
def test_the_whole_is_the_sum_of_its_tensors(in_memory, pruned, chunk):
    random = torch.Generator().manual_seed(pruned)
    before = {name: torch.randn(6, 4, generator=random) for name in "xyz"}
    before["x"].view(-1)[:5] = 0
    after = {name: tensor.clone() for name, tensor in before.items()}
    for tensor in after.values():
        tensor.view(-1)[:pruned] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        found = difference(in_memory(before), in_memory(after))
    a, b = (torch.stack([*some.values()]) == 0 for some in (before, after))
    assert (found.zeros.a, found.zeros.b) == (int(a.sum()), int(b.sum()))
    assert (found.zeros.gained, found.zeros.lost) == (int((b & ~a).sum()), int((a & ~b).sum()))


def _export(tmp_path, form, source):
    recipe = Recipe.model_validate(
        {"steps": [{"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}]}
    )
    with open_checkpoint(source) as opened:
        export(resolve(recipe, opened), tmp_path / f"{form}.safetensors", form)
    return tmp_path / f"{form}.safetensors"


def test_both_forms_of_an_export_have_the_same_numbers_and_zeros(tmp_path):
    save_file({"w": torch.randn(8, 8), "b": torch.ones(3)}, tmp_path / "dense.safetensors")
    dense = tmp_path / "dense.safetensors"
    finalized, pair = (_export(tmp_path, form, dense) for form in ("finalized", "reparametrized"))
    with (
        open_checkpoint(dense) as zero,
        open_checkpoint(finalized) as a,
        open_checkpoint(pair) as b,
    ):
        assert _states(difference(a, b)) == {"w": "equal", "b": "identical"}
        assert _states(difference(b, b)) == {"w": "identical", "b": "identical"}
        for made in (a, b):
            found = difference(zero, made)
            assert (found.zeros.gained, found.zeros.lost) == (32, 0)
            assert "prune_gui.recipe" in found.metadata


def test_pairs_with_other_originals_under_the_mask_are_equal_not_identical(in_memory):
    mask = torch.tensor([1.0, 0.0])
    a, b = (
        in_memory({"w_orig": torch.tensor([3.0, hidden]), "w_mask": mask}) for hidden in (1.0, 2.0)
    )
    [row] = difference(a, b).rows
    assert (row.state, row.tensor_diff.differing, row.tensor_diff.zeros.both) == ("equal", 0, 1)


def test_a_mask_of_other_numbers_is_refused(in_memory):
    a = in_memory({"w_orig": torch.ones(2), "w_mask": torch.tensor([1.0, 0.5])})
    with pytest.raises(CheckpointError, match="other than 0 and 1"):
        difference(a, a)


def test_names_tied_in_both_are_one_row_and_those_tied_in_one_are_two(on_disk):
    w = torch.randn(4, 4)
    a = on_disk({"x": w, "y": w, "z": w}, "a.pt")
    b = on_disk({"x": w, "y": w, "z": w.clone()}, "b.pt")
    rows = difference(a, b).rows
    assert [(row.name, row.aliases, row.state) for row in rows] == [
        ("x", ("y",), "identical"), ("z", (), "identical"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "patterns"),
    [
        ([1, 0, 0, 0, 1, 0, 0, 0], ("1:4", "2:4", "4:8")),
        ([1, 1, 0, 0, 0, 1, 0, 1], ("2:4", "4:8")),
        ([1, 1, 1, 0, 0, 1, 0, 0], ("4:8",)),
        ([1, 1, 1, 0, 1, 1, 0, 0], ()),
    ],
)
def test_patterns_hold_if_every_group_of_every_row_follows_them(in_memory, kept, patterns):
    dense = torch.ones(3, 8, 1, 2)
    after = torch.zeros(3, 8, 1, 2)
    after[1] = torch.tensor(kept * 2).view(8, 1, 2)
    [row] = difference(in_memory({"w": dense}), in_memory({"w": after})).rows
    assert row.patterns == ((), patterns)


def test_special_tensors_and_those_without_a_common_dtype_are_not_compared(on_disk):
    a = on_disk({"s": torch.eye(3).to_sparse(), "i": torch.ones(2)}, "a.pt")
    b = on_disk({"s": torch.eye(3), "i": torch.ones(2).long()}, "b.pt")
    found = {row.name: (row.state, row.reason) for row in difference(a, b).rows}
    assert found["s"] == ("not_compared", "sparse")
    assert found["i"] == ("not_compared", "no type holds both exactly")


def test_packed_elements_are_compared_by_their_bytes(tmp_path):
    header = b'{"w":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}'
    for name, octets in (("a", b"12"), ("b", b"13")):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header + octets)
    paths = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    with open_checkpoint(paths[0]) as a, open_checkpoint(paths[1]) as b:
        assert difference(a, a).identical
        [row] = difference(a, b).rows
    assert (row.state, row.tensor_diff) == ("changed", None)


def test_empty_and_0_d_tensors_are_compared(in_memory):
    a = in_memory({"empty": torch.ones(0, 4), "one": torch.tensor(2.0)})
    assert difference(a, a).identical


def test_a_prefix_of_every_name_is_noted_and_not_mapped(in_memory):
    w = torch.ones(2)
    a, b = in_memory({"x": w, "y": w}), in_memory({"module.x": w, "module.y": w})
    for found in (difference(a, b), difference(b, a)):
        assert found.states == {"only_in_a": 2, "only_in_b": 2}
        assert "'module.' in front" in found.notes[0]
    assert difference(a, a).notes == ()


def test_a_comparison_reports_progress(in_memory):
    a = in_memory({"x": torch.ones(100), "y": torch.ones(50).half(), "z": torch.ones(7)})
    b = in_memory({"x": torch.ones(100), "y": torch.ones(50).half(), "z": torch.ones(8)})
    told = []
    difference(a, b, lambda done, total: told.append((done, total)))
    assert told[-1] == (1000, 1000)
    assert {total for _, total in told} == {1000}


FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
]  # fmt: skip
OTHERS = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.complex64, torch.complex128]
ODD = [0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 2.0**-9, 240.0]


@st.composite
def _two_alike(draw, dtypes):
    """Return two tensors of one size, with many equal elements, of random dtypes."""
    size = draw(st.integers(1, 40))
    values = draw(st.lists(st.sampled_from(ODD), min_size=size, max_size=size))
    others = [draw(st.sampled_from(ODD)) if draw(st.booleans()) else v for v in values]
    return tuple(
        torch.tensor(some, dtype=torch.float64).to(draw(st.sampled_from(dtypes)))
        for some in (values, others)
    )


def _tallied(a, b, mask_a=None, mask_b=None, chunk=1 << 20):
    sides = Side(TensorScores.of(a), mask_a), Side(TensorScores.of(b), mask_b)
    dtype, found = common_dtype(a.dtype, b.dtype), TensorDiff()
    for start in range(0, a.numel(), chunk):
        found += diff_tensors(*sides, dtype, (start, min(start + chunk, a.numel())))
    return found


def _fewest(zero, length):
    groups = zero[: len(zero) // length * length].reshape(-1, length)
    return int(groups.sum(1).min(initial=length))


@given(_two_alike(FLOATS), st.sampled_from([8, 16, 1 << 20]), st.data())
def test_the_sum_over_chunks_equals_the_diff_of_whole_tensors(pair, chunk, data):
    a, b = pair
    masks = [
        data.draw(st.none() | st.lists(st.booleans(), min_size=len(a), max_size=len(a)))
        for _ in range(2)
    ]
    masks = [mask if mask is None else torch.tensor(mask) for mask in masks]
    found = _tallied(a, b, *masks, chunk=chunk)
    x, y = (
        np.where(True if mask is None else mask, tensor.double(), 0.0)
        for tensor, mask in zip(pair, masks, strict=True)
    )
    both_nan = np.isnan(x) & np.isnan(y)
    same = (x == y) | both_nan
    finite = np.isfinite(x) & np.isfinite(y)
    other_bits = (
        ~same | (np.signbit(x) != np.signbit(y))
    ) & ~both_nan  # but for NaNs, any of which
    assert found.differing - found.same_number == np.count_nonzero(~same)
    assert found.differing >= np.count_nonzero(other_bits)
    assert found.differing <= np.count_nonzero(other_bits | both_nan)
    assert found.non_finite == np.count_nonzero(~same & ~finite)
    assert found.largest == np.abs(y[finite] - x[finite]).max(initial=0.0)
    zeros = [x == 0, y == 0]
    assert found.zeros == Zeros(
        *(int(zero.sum()) for zero in zeros),
        int((zeros[0] & zeros[1]).sum()),
        *((_fewest(zero, 4), _fewest(zero, 8)) for zero in zeros),
    )
    assert found.zeros.gained == np.count_nonzero(~zeros[0] & zeros[1])
    assert found.zeros.lost == np.count_nonzero(zeros[0] & ~zeros[1])
    either = np.count_nonzero(zeros[0] | zeros[1])
    assert found.zeros.iou == (found.zeros.both / either if either else 1.0)


@given(_two_alike(OTHERS).filter(lambda pair: pair[0].dtype == pair[1].dtype))
def test_elements_with_different_bytes_are_counted_for_other_dtypes(pair):
    a, b = (tensor.view(torch.uint8).reshape(len(tensor), -1) for tensor in pair)
    found = _tallied(*pair)
    assert found == TensorDiff(differing=int((a != b).any(1).sum()))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_tensor_does_not_differ_from_itself(dtype):
    values = torch.tensor([0.0, -0.0, 1.0, math.nan] * 4).to(dtype)
    found = _tallied(values, values)
    assert (found.differing, found.largest, found.zeros.lost, found.zeros.gained) == (0, 0.0, 0, 0)
    assert found.zeros.iou == 1.0


def test_nan_bits_and_signs_of_zero_differ_without_being_another_number():
    bits = torch.tensor([0x7FC00000, 0x7FC00001, 0, -(1 << 31)], dtype=torch.int32)
    a = bits.view(torch.float32)
    b = torch.tensor([math.nan, math.nan, -0.0, 1.0])
    found = _tallied(a, b)
    assert (found.differing, found.same_number, found.largest) == (3, 2, 1.0)


def test_dtypes_without_an_exact_common_dtype_are_not_widened():
    assert common_dtype(torch.int64, torch.float64) is None
    assert common_dtype(torch.uint64, torch.int64) is None
    assert common_dtype(torch.complex64, torch.float32) is None
    assert common_dtype(torch.bool, torch.float32) == torch.float64
    assert common_dtype(torch.int32, torch.int64) == torch.int64
    assert common_dtype(torch.float16, torch.bfloat16) == torch.float32
