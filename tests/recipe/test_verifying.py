"""Verifying reads a saved checkpoint and names every difference."""

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from applied import CancelAfter, exported
from command_line import prune_gui
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.safetensors.format import SafetensorsCheckpoint
from prune_gui.checkpoint.write import content
from prune_gui.checkpoint.write.content import CHECKSUMS_KEY, checksums_in, with_checksums
from prune_gui.errors import Cancelled
from prune_gui.recipe import Recipe, export, resolve, verify
from prune_gui.recipe.recipe import PREFIX, Provenance
from prune_gui.session import Session

HALF = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.5}
FLOATS = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
)  # fmt: skip
KINDS = {
    "safetensors": ("out.safetensors", None),
    "torch": ("out.pt", None),
    "shards": ("out", 300),
    "torch shards": ("out", 300),
}
"""The output path, and the maximum shard size in bytes."""


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    return {
        "fc.weight": torch.randn(8, 8),
        "fc.bias": torch.randn(8),
        "half.weight": torch.randn(40).bfloat16(),
        "steps": torch.tensor(3),
        "empty": torch.zeros(0, 2),
    }


def saved(state, folder: Path, kind: str, form: str = "finalized") -> Path:
    source = folder / ("in.pt" if "torch" in kind else "in.safetensors")
    if "torch" in kind:
        torch.save({"model": state, "optimizer": [torch.full((9,), 1232.0)]}, source)
        if "shards" in kind:
            torch.save(state, source)
    else:
        save_file(state, source)
    name, shard_size = KINDS[kind]
    exported(source, folder / name, Recipe(steps=[HALF]), form, shard_size=shard_size)
    return folder / name


def problems(path: Path) -> list[tuple[str, str]]:
    return [tuple(problem) for problem in verify(path).problems]


def flip(path: Path, tensor: torch.Tensor) -> None:
    """Change a bit of a tensor in a file, or in the shard that contains it."""
    octets = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    for file in [path] if path.is_file() else path.iterdir():
        content = bytearray(file.read_bytes())
        found = content.find(octets)
        if found >= 0:
            content[found + len(octets) // 2] ^= 4
            file.write_bytes(content)
            return
    raise AssertionError("not found")


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_checkpoint_has_no_problems(state, tmp_path, kind, form):
    found = verify(saved(state, tmp_path, kind, form))
    assert (found.problems, found.notes) == ([], [])
    assert (
        found.tensors == found.compared == {"finalized": 5, "reparametrized": 7, "masks": 2}[form]
    )
    assert found.nbytes > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_bit_is_detected_and_its_tensor_named(state, tmp_path, kind):
    path = saved(state, tmp_path, kind)
    flip(path, state["fc.bias"])
    found = problems(path)
    assert ("fc.bias", "its values are not those that were saved") in found
    assert {name for name, _ in found} <= {"fc.bias", *(file.name for file in tmp_path.rglob("*"))}


def test_a_changed_bit_outside_the_state_dict_of_a_torch_file_is_detected(state, tmp_path):
    path = saved(state, tmp_path, "torch")
    flip(path, torch.full((9,), 1232.0))
    [(name, text)] = problems(path)
    assert name == "out.pt"
    assert "is damaged" in text


def rewritten(path: Path, change) -> Path:
    """Change the tensors of a file and keep its metadata, as another program might."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata)
    return path


def test_values_changed_by_another_program_are_detected(state, tmp_path):
    path = saved(state, tmp_path, "safetensors")
    rewritten(path, lambda tensors: tensors["fc.weight"].fill_(1.0))
    assert problems(path) == [
        ("fc.weight", "its values are not those that were saved"),
        ("fc.weight", "32 of its elements were pruned, and 0 are zero"),
    ]


def test_verifying_ignores_order_but_not_names(state, tmp_path):
    path = saved(state, tmp_path, "safetensors")

    def rename(tensors):
        tensors["other"] = tensors.pop("fc.bias")

    rewritten(path, lambda tensors: None)
    assert problems(path) == []
    assert sorted(problems(rewritten(path, rename))) == [
        ("fc.bias", "it was saved in this file, and is missing"),
        ("other", "it was not in the file when the file was saved"),
    ]


@pytest.mark.parametrize("form", ["reparametrized", "masks"])
def test_masks_have_exactly_as_many_zeros_as_were_pruned(state, tmp_path, form):
    path = saved(state, tmp_path, "safetensors", form)
    name = "fc.weight_mask" if form == "reparametrized" else "fc.weight"
    rewritten(path, lambda tensors: tensors[name].zero_())
    assert problems(path) == [
        (name, "its values are not those that were saved"),
        (name, "32 of its elements were pruned, and 64 are zero"),
    ]


def test_without_checksums_zeros_and_finite_values_are_still_checked(state, tmp_path):
    path = saved(state, tmp_path, "safetensors")
    with safe_open(path, "pt") as file:
        metadata = {key: text for key, text in file.metadata().items() if key != CHECKSUMS_KEY}
    save_file(load_file(path) | {"half.weight": state["half.weight"]}, path, metadata)
    found = verify(path)
    assert [tuple(problem) for problem in found.problems] == [
        ("half.weight", "20 of its elements were pruned, and 0 are zero")
    ]
    assert found.compared == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_non_finite_values_are_counted(tmp_path, dtype, value):
    tensor = torch.ones(7)
    tensor[2:4] = value
    tensor = tensor.to(dtype)
    expected = int((~torch.isfinite(tensor.to(torch.complex128))).sum())
    torch.save({"w": tensor, "v": torch.ones(3)}, tmp_path / "m.pt")
    assert problems(tmp_path / "m.pt") == [
        ("w", f"{count} of its values are not finite") for count in [expected] if count
    ]


def test_values_that_were_non_finite_at_saving_are_a_note(state, tmp_path):
    state["fc.bias"][3] = float("nan")
    path = saved(state, tmp_path, "safetensors")
    found = verify(path)
    assert found.problems == []
    assert [tuple(note) for note in found.notes] == [
        ("fc.bias", "1 of its values is not finite, as when it was saved")
    ]
    rewritten(path, lambda tensors: tensors["fc.weight"].fill_(float("inf")))
    assert ("fc.weight", "64 of its values are not finite") in problems(path)


def test_a_file_of_another_program_has_a_note_about_missing_checksums(tmp_path):
    save_file({"w": torch.ones(3)}, tmp_path / "m.safetensors")
    found = verify(tmp_path / "m.safetensors")
    assert found.problems == []
    assert [tuple(note) for note in found.notes] == [
        ("m.safetensors", "no checksums are recorded in it")
    ]


@pytest.mark.parametrize(
    "record", ["x", "[]", "1", '{"w": 7}', '{"w": "0"}', '{"w": "0000000g"}', "[" * 99_999]
)
def test_malformed_checksums_are_a_problem(tmp_path, record):
    save_file({"w": torch.ones(3)}, tmp_path / "m.safetensors", {CHECKSUMS_KEY: record})
    assert problems(tmp_path / "m.safetensors") == [
        ("m.safetensors", "the checksums recorded in it are invalid")
    ]


def test_a_file_truncated_during_verifying_names_the_tensor(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.ones(9), "b": torch.ones(1 << 19)}, path)
    reader = SafetensorsCheckpoint.stored_reader

    @contextmanager
    def cut(checkpoint):
        with reader(checkpoint) as read:
            os.truncate(path, path.stat().st_size - 1)
            yield read

    monkeypatch.setattr(SafetensorsCheckpoint, "stored_reader", cut)
    assert problems(path) == [("b", "it cannot be read: the file ended early")]


def test_large_tensors_are_read_in_chunks(tmp_path, monkeypatch):
    state = {"fc.weight": torch.randn(3 << 20), "b": torch.randn(3)}  # three chunks and one
    path = saved(state, tmp_path, "safetensors")
    seen: list[tuple[int, int]] = []
    assert verify(path, lambda *step: seen.append(step)).problems == []
    assert seen[-1] == (12 + (12 << 20), 12 + (12 << 20))
    with pytest.raises(Cancelled):
        verify(path, cancel=CancelAfter(0))
    flip(path, state["b"])
    rewritten(path, lambda tensors: tensors["fc.weight"][-1:].fill_(9.0))
    assert {name for name, _ in problems(path)} == {"fc.weight", "b"}


def test_the_size_of_the_record_does_not_depend_on_the_checksums():
    keys = ["a", 'b"', "é"]
    wide = with_checksums({CHECKSUMS_KEY: "", "k": "v"}, keys, dict.fromkeys(keys, 0xFFFFFFFF))
    empty = with_checksums({CHECKSUMS_KEY: "of an earlier save", "k": "v"}, keys)
    assert len(json.dumps(wide)) == len(json.dumps(empty))
    assert checksums_in(wide) == dict.fromkeys(keys, 0xFFFFFFFF)
    assert with_checksums({"k": "v"}, keys) == {"k": "v"}


def test_checksums_that_do_not_fit_into_a_header_are_omitted(monkeypatch):
    monkeypatch.setattr(content, "MAX_RECORD_CHARS", 20)
    assert with_checksums({CHECKSUMS_KEY: "old"}, ["a", "b"]) == {CHECKSUMS_KEY: ""}
    assert checksums_in({CHECKSUMS_KEY: ""}) == {}


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


def test_the_recipe_does_not_reveal_absolute_paths(on_disk, tmp_path):
    checkpoint = on_disk({"w": torch.tensor([1.0, 2.0])})
    text = "steps: [{method: lamp, targets: [w], amount: 1, importance: model.safetensors}]"
    recipe = Recipe.from_yaml(text, folder=tmp_path)
    export(resolve(recipe, checkpoint), tmp_path / "out.safetensors")
    with open_checkpoint(tmp_path / "out.safetensors") as written:
        assert str(tmp_path) not in "".join(written.metadata.values())
        made = Provenance.of(written.metadata, tmp_path)
    assert made is not None
    assert made.recipe == recipe
    assert made.remarks == ()


@pytest.mark.parametrize(
    "recipe", [BOMB, "version: 2024-13-45", "[" * 10_000, "!!float x", "\0", "9" * 5000]
)
def test_a_hostile_recipe_in_the_metadata_is_ignored_with_a_remark(on_disk, recipe):
    metadata = {PREFIX + "version": "1", PREFIX + "form": "finalized", PREFIX + "recipe": recipe}
    began = time.monotonic()
    session = Session(on_disk({"w": torch.tensor([0.0, 2.0])}, metadata=metadata))
    assert session.made is not None
    assert session.made.recipe is None
    [remark] = session.remarks
    assert remark.startswith("The recipe in the metadata is ignored. ")
    told = prune_gui("inspect", session.checkpoint.path, "--json")
    assert json.loads(told.stdout)["warnings"] == [remark]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "pruned",
    [
        "[" * 100_000,
        '{"w": 1' + "0" * 5000 + "}",
        '{"w": 1e999}',
        '{"w": NaN}',
        *('{"w": true}', '{"w": "many"}', '{"a": -1}', "[]", "", "{"),
    ],
)
def test_hostile_counts_in_the_metadata_are_ignored(on_disk, pruned):
    metadata = {PREFIX + "version": "1", PREFIX + "form": "finalized", PREFIX + "pruned": pruned}
    checkpoint = on_disk({"w": torch.tensor([0.0, 2.0])}, metadata=metadata)
    assert resolve(Recipe(), checkpoint).counts == {"w": (0, 2)}
