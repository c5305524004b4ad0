"""What the name of an output means: its format, or a folder."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from sharded_files import write_shards

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import OutputPath, Recipe, export, resolve, verify
from prune_gui.recipe.batch import outputs
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.output import OutputOptions

RECIPE = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["w"], "amount": 2}]}
)


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("model.pth.tar", "model-pruned.pth.tar"),
        ("model.pyth", "model-pruned.pyth"),
        ("model.PKL", "model-pruned.PKL"),
        ("model.model", "model-pruned.model"),
        ("model", "model-pruned"),
        ("model-v1.5", "model-v1-pruned.5"),
        ("model.pt.bak", "model-pruned.pt.bak"),
    ],
)
def test_a_copy_with_the_suffix_of_its_source_has_its_format(tmp_path, name, copy, legacy, form):
    torch.save({"w": torch.arange(4.0)}, tmp_path / name, _use_new_zipfile_serialization=not legacy)
    [out] = outputs([tmp_path / name], tmp_path)
    assert out.name == copy
    with open_checkpoint(tmp_path / name) as checkpoint:
        export(resolve(RECIPE, checkpoint), out, form)
    state = torch.load(out, weights_only=True)
    assert {
        "finalized": lambda: state["w"].tolist() == [0, 0, 2, 3],
        "reparametrized": lambda: state["w_mask"].tolist() == [0, 0, 1, 1],
        "masks": lambda: state["w"].tolist() == [False, False, True, True],
    }[form]()
    assert not verify(out).problems


@pytest.mark.parametrize(
    ("source", "out"),
    [
        ("model", "out/"),
        ("model", ""),
        ("model.pyth", ""),
        ("model", "out.tar"),
        ("model.pyth", "out"),
        ("model.pyth", "out.pkl"),
        ("model.yaml", "out.yaml"),
        ("model.csv", "out.csv"),
    ],
)
def test_other_names_are_refused(tmp_path, source, out):
    save_file({"w": torch.arange(4.0)}, tmp_path / source)
    with (
        open_checkpoint(tmp_path / source) as checkpoint,
        pytest.raises(
            CheckpointError, match="no suffix of a known format" if out else "is a folder"
        ),
    ):
        export(resolve(RECIPE, checkpoint), f"{tmp_path}/{out}")
    assert [path.name for path in tmp_path.iterdir()] == [source]


def test_a_known_suffix_decides_the_format_and_shards_are_in_a_folder(tmp_path):
    save_file({"w": torch.arange(4.0), "v": torch.ones(4)}, tmp_path / "model")
    with open_checkpoint(tmp_path / "model") as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        for name, is_folder, file_format in (
            ("a", False, "safetensors"),
            ("a.pt", False, "torch"),
        ):
            target = OutputPath.of(checkpoint, tmp_path / name)
            assert (target.is_folder, target.format.name) == (is_folder, file_format)
        export(resolution, tmp_path / "out", shard_size=16)
        (tmp_path / "there").mkdir()
        with pytest.raises(CheckpointError, match="is a folder"):
            export(resolution, tmp_path / "there")
        export(resolution, tmp_path / "copy")
    assert len([*(tmp_path / "out").glob("*.safetensors")]) == 2
    assert load_file(tmp_path / "copy")["w"].tolist() == [0, 0, 2, 3]
    with open_checkpoint(tmp_path / "out") as checkpoint:
        assert OutputPath.of(checkpoint, tmp_path / "b").is_folder


@pytest.mark.parametrize("form", ["finalized", "masks"])
@pytest.mark.parametrize("name", ["m-2.safetensors", "link.safetensors"])
def test_a_shard_of_the_open_checkpoint_is_never_replaced_by_a_whole_one(tmp_path, name, form):
    shards = {f"m-{number}.safetensors": {f"w{number}": torch.ones(4)} for number in (1, 2)}
    folder = tmp_path / "in"
    write_shards(folder, shards)
    (folder / "link.safetensors").symlink_to("m-2.safetensors")
    with (
        open_checkpoint(folder) as checkpoint,
        pytest.raises(CheckpointError, match="one of the shards of the open checkpoint"),
    ):
        export(resolve(Recipe(), checkpoint), folder / name, form, overwrite=True)
    with open_checkpoint(folder) as checkpoint:
        assert [*checkpoint.tensors] == ["w1", "w2"]


WEIGHTS = {"a.weight": torch.ones(2, 2)}
STATE = {**WEIGHTS, "a._extra_state": b"scales", "note": "kept"}


def nested(folder):
    torch.save({"model": STATE, "epoch": 3, "optimizer": {"state": {}}}, folder / "m.pt")
    return folder / "m.pt"


def flat(folder):
    torch.save(STATE, folder / "m.pt")
    return folder / "m.pt"


def tensors_alone(folder):
    torch.save(WEIGHTS, folder / "m.pt")
    return folder / "m.pt"


def safetensors(folder):
    save_file(WEIGHTS, folder / "m.safetensors", {"by": "hand"})
    return folder / "m.safetensors"


def torch_shards(folder):
    write_shards(folder / "shards", {"m-1.safetensors": WEIGHTS})
    (folder / "shards" / "m-1.safetensors").unlink()
    torch.save(STATE, folder / "shards" / "m-1.bin")
    index = folder / "shards" / "model.safetensors.index.json"
    text = index.read_text().replace("safetensors", "bin")
    index.unlink()
    (folder / "shards" / "pytorch_model.bin.index.json").write_text(text)
    return folder / "shards"


def shards_with_metadata(folder):
    write_shards(folder / "shards", {"m-1.safetensors": WEIGHTS, "m-2.safetensors": {}})
    for number, tensors in enumerate([WEIGHTS, {"b.weight": torch.ones(2)}], 1):
        metadata = {"part": str(number), "by": "hand"}
        save_file(tensors, folder / "shards" / f"m-{number}.safetensors", metadata)
    index = folder / "shards" / "model.safetensors.index.json"
    index.write_text(
        '{"weight_map": {"a.weight": "m-1.safetensors", "b.weight": "m-2.safetensors"}}'
    )
    return folder / "shards"


@pytest.mark.parametrize(
    ("source", "out", "shard_size", "lost"),
    [
        (nested, "o.safetensors", None, ["epoch", "optimizer", "a._extra_state", "note"]),
        (nested, "o", 100, ["epoch", "optimizer", "a._extra_state", "note"]),
        (nested, "o.pt", None, None),
        (flat, "o.npz", None, ["a._extra_state", "note"]),
        (tensors_alone, "o.safetensors", None, None),
        (safetensors, "o.pt", None, None),
        (torch_shards, "o.safetensors", None, ["a._extra_state", "note"]),
        (torch_shards, "o", 100, ["a._extra_state", "note"]),
        (torch_shards, "o", None, None),
        (shards_with_metadata, "o.safetensors", None, ["different metadata (part)"]),
        (shards_with_metadata, "o", 100, ["different metadata (part)"]),
        (shards_with_metadata, "o", None, None),
    ],
)
def test_what_is_lost_is_named(tmp_path, source, out, shard_size, lost):
    with open_checkpoint(source(tmp_path)) as checkpoint:
        target = OutputPath.of(checkpoint, tmp_path / out, OutputOptions(shard_size=shard_size))
        note = contents_note(resolve(Recipe(steps=[]), checkpoint), target, "finalized", ())
    if lost is None:
        assert "without" not in note
        assert "different" not in note
    else:
        assert ", ".join(lost) in note
