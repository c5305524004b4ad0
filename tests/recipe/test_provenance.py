"""The metadata of a file: malformed values are ignored."""

from __future__ import annotations

import json
import time

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.cli.program import cli
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.provenance import PREFIX, Provenance
from prune_gui.session import Session

BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


def test_the_recipe_does_not_reveal_absolute_paths(tmp_path):
    save_file({"w": torch.tensor([1.0, 2.0])}, tmp_path / "scores.safetensors")
    save_file({"w": torch.tensor([1.0, 2.0])}, tmp_path / "model.safetensors")
    text = "steps: [{method: lamp, targets: [w], amount: 1, importance: scores.safetensors}]"
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
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
def test_a_hostile_recipe_in_the_metadata_is_ignored_with_a_remark(tmp_path, recipe):
    path = tmp_path / "model.safetensors"
    metadata = {PREFIX + "version": "1", PREFIX + "form": "finalized", PREFIX + "recipe": recipe}
    save_file({"w": torch.tensor([0.0, 2.0])}, path, metadata)
    began = time.monotonic()
    with open_checkpoint(path) as checkpoint:
        session = Session(checkpoint)
    assert session.made is not None
    assert session.made.recipe is None
    [remark] = session.remarks
    assert remark.startswith("The recipe in the metadata is ignored. ")
    told = CliRunner().invoke(cli, ["inspect", str(path), "--json"])
    assert json.loads(told.stdout)["warnings"] == [remark]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "pruned",
    [
        "[" * 100_000,
        '{"w": 1' + "0" * 5000 + "}",
        '{"w": 1e999}',
        '{"w": NaN}',
        '{"w": true}',
        "[]",
    ],
)
def test_hostile_counts_in_the_metadata_are_ignored(tmp_path, pruned):
    path = tmp_path / "model.safetensors"
    metadata = {PREFIX + "version": "1", PREFIX + "form": "finalized", PREFIX + "pruned": pruned}
    save_file({"w": torch.tensor([0.0, 2.0])}, path, metadata)
    with open_checkpoint(path) as checkpoint:
        assert resolve(Recipe(), checkpoint).counts == {"w": (0, 2)}
