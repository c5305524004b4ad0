import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import parallel
from prune_gui.checkpoint import open_checkpoint
from prune_gui.comparison.difference import difference
from prune_gui.errors import CheckpointError
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


def test_names_tied_in_both_are_one_row_and_those_tied_in_one_are_two(tmp_path):
    w = torch.randn(4, 4)
    torch.save({"x": w, "y": w, "z": w}, tmp_path / "a.pt")
    torch.save({"x": w, "y": w, "z": w.clone()}, tmp_path / "b.pt")
    with open_checkpoint(tmp_path / "a.pt") as a, open_checkpoint(tmp_path / "b.pt") as b:
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


def test_special_tensors_and_those_without_a_common_dtype_are_not_compared(tmp_path):
    torch.save({"s": torch.eye(3).to_sparse(), "i": torch.ones(2)}, tmp_path / "a.pt")
    torch.save({"s": torch.eye(3), "i": torch.ones(2).long()}, tmp_path / "b.pt")
    with open_checkpoint(tmp_path / "a.pt") as a, open_checkpoint(tmp_path / "b.pt") as b:
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
