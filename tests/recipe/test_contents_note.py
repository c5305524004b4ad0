"""What a file of another format or division does not keep is said before and after it is saved."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from sharded_files import write_shards

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import OutputPath, Recipe, resolve
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.output import OutputOptions

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
