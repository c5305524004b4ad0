"""`prune-gui verify` as a process, on intact and damaged files."""

from __future__ import annotations

import json

import pytest
import torch
from command_line import prune_gui
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe, export, resolve


@pytest.fixture
def two_files(tmp_path):
    """Return an intact file, and one with a changed byte."""
    save_file({"w": torch.arange(1.0, 9), "b": torch.ones(2)}, tmp_path / "in.safetensors")
    step = {"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}
    with open_checkpoint(tmp_path / "in.safetensors") as checkpoint:
        resolution = resolve(Recipe(steps=[step]), checkpoint)
        for name in ("good", "bad"):
            export(resolution, tmp_path / f"{name}.safetensors")
    with (tmp_path / "bad.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    return tmp_path / "good.safetensors", tmp_path / "bad.safetensors"


def test_a_damaged_tensor_is_named_and_the_exit_code_is_1(two_files, tmp_path):
    result = prune_gui("verify", *two_files, tmp_path / "none.pt")
    problem = f"{two_files[1]}: 'w': its values are not those that were saved."
    assert result.returncode == 1
    assert result.stderr == f"prune-gui: {problem} And 1 more.\n"
    assert result.stdout.splitlines() == [
        f"{two_files[0]}: sound: 2 tensors, 40 bytes, 2 compared with checksums",
        problem,
        f"{tmp_path / 'none.pt'} does not exist. Check its name.",
    ]


def test_an_intact_file_exits_with_0_and_json_is_one_object(two_files, tmp_path):
    result = prune_gui("verify", "--json", two_files[0])
    [good] = json.loads(result.stdout)["files"]
    assert (result.returncode, result.stderr) == (0, "")
    assert (good["sound"], good["problems"], good["compared"]) == (True, [], 2)
    result = prune_gui("verify", "--json", two_files[1], tmp_path / "none.pt")
    bad, none = json.loads(result.stdout)["files"]
    assert result.returncode == 1
    assert bad["problems"] == [{"name": "w", "text": "its values are not those that were saved"}]
    assert none["sound"] is False
    assert "does not exist" in none["error"]
