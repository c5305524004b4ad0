"""The recipe as a shell command, which writes the same file as `export`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.script import command_line

L1 = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.4}
MASK = {"method": "custom_from_mask", "targets": ["a.weight"], "mask": "masks.safetensors"}


def run(line: str, folder: Path) -> None:
    """Run a command in a shell in which prune-gui is this program."""
    program = folder / "prune-gui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prune_gui "$@"\n')
    program.chmod(0o755)
    subprocess.run(["sh", "-ec", f'PATH="{folder}:$PATH"; {line}'], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a here document needs a POSIX shell")
@pytest.mark.parametrize("saved", [True, False])
def test_the_command_writes_the_same_file_from_any_folder(tmp_path, saved):
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    weights = {"a.weight": torch.randn(5, 4), "b.weight": torch.randn(3, 4)}
    save_file(weights, folder / "model.safetensors")
    save_file({"a.weight": torch.ones(5, 4).tril()}, folder / "masks.safetensors")
    recipe = Recipe.from_yaml(Recipe(steps=[L1, MASK]).to_yaml(), folder=folder)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    with open_checkpoint(folder / "model.safetensors") as checkpoint:
        path = folder / "recipe.yaml" if saved else None
        line = command_line(recipe, checkpoint, folder / "out.safetensors", path)
        export(resolve(recipe, checkpoint), folder / "ours.safetensors")
    run(line, tmp_path)
    found, wanted = load_file(folder / "out.safetensors"), load_file(folder / "ours.safetensors")
    assert all(found[name].equal(wanted[name]) for name in wanted)


def test_the_command_names_the_state_dict_and_the_plugin_file(tmp_path, plugin_file):
    from prune_gui import load_methods

    path = plugin_file(
        """
        class Nothing(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                return default_mask
        """
    )
    load_methods(path)
    torch.save({"ema": {"w": torch.ones(3)}, "net": {"w": torch.ones(3)}}, tmp_path / "m.ckpt")
    recipe = Recipe(steps=[{"method": "nothing", "targets": ["*"]}])
    with open_checkpoint(tmp_path / "m.ckpt", "ema") as checkpoint:
        line = command_line(recipe, checkpoint, tmp_path / "out.ckpt", None)
    assert f"--methods {path}" in line
    assert "--state ema" in line


HOSTILE = [
    "a\nb",
    "\x03\ntouch ran\n#.d",
    "\x1b[31m",
    "it's \u202e",
    '"; touch ran; "',
    "$(touch ran)\r.d",
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_the_command_is_one_word_without_control_characters(tmp_path, name):
    (tmp_path / name).mkdir()
    path = tmp_path / name / "m.safetensors"
    save_file({"w": torch.ones(3)}, path)
    with open_checkpoint(path) as checkpoint:
        line = command_line(Recipe(), checkpoint, tmp_path / "out.pt", tmp_path / "r.yaml")
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    show = tmp_path / "prune-gui"
    show.write_text(f"#!{sys.executable}\nimport sys\nprint(ascii(sys.argv[1:]))\n")
    show.chmod(0o755)
    script = ["sh", "-ec", f'PATH="{tmp_path}:$PATH"; {line}']
    done = subprocess.run(script, check=True, capture_output=True, text=True, cwd=tmp_path)
    words = ["apply", str(tmp_path / "r.yaml"), str(path), "-o", str(tmp_path / "out.pt")]
    assert done.stdout.strip() == ascii(words)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["x\nEND_OF_RECIPE\ntouch ran\n", "END_OF_RECIPE", "\x1b[31m"])
def test_a_recipe_cannot_end_its_here_document(tmp_path, text):
    save_file({"w": torch.ones(3)}, tmp_path / "m.safetensors")
    recipe = Recipe(steps=[{"method": "identity", "targets": [text]}])
    with open_checkpoint(tmp_path / "m.safetensors") as checkpoint:
        line = command_line(recipe, checkpoint, tmp_path / "out.pt", None)
    assert line.split("\n").count("END_OF_RECIPE") == 1
    assert line.replace("\n", "").isprintable()
