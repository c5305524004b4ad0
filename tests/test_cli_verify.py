"""What the command line says of files that are as they were saved, and of others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe, export, resolve


def verify(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "prune_gui", "verify", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.fixture
def two(tmp_path):
    """Return a file that is as it was saved, and one with a changed byte."""
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


def test_the_tensor_that_differs_is_named_and_the_exit_code_is_1(two, tmp_path):
    done = verify(*two, tmp_path / "none.pt")
    problem = f"{two[1]}: 'w': its values are not those that were saved."
    assert done.returncode == 1
    assert done.stderr == f"prune-gui: {problem} And 1 more.\n"
    assert done.stdout.splitlines() == [
        f"{two[0]}: sound: 2 tensors, 40 bytes, 2 compared with checksums",
        problem,
        f"{tmp_path / 'none.pt'} does not exist. Check its name.",
    ]


def test_a_sound_file_exits_with_0_and_json_is_one_object(two, tmp_path):
    done = verify("--json", two[0])
    [good] = json.loads(done.stdout)["files"]
    assert (done.returncode, done.stderr) == (0, "")
    assert (good["sound"], good["problems"], good["compared"]) == (True, [], 2)
    done = verify("--json", two[1], tmp_path / "none.pt")
    bad, none = json.loads(done.stdout)["files"]
    assert done.returncode == 1
    assert bad["problems"] == [{"name": "w", "text": "its values are not those that were saved"}]
    assert none["sound"] is False
    assert "does not exist" in none["error"]


def test_without_a_file_it_is_wrong_usage():
    assert verify().returncode == 2
