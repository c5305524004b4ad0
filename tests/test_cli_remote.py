"""The command line reads remote checkpoints, and writes local files only."""

from __future__ import annotations

import json

import pytest
import torch
from command_line import prune_gui
from file_server import serving
from safetensors.torch import load_file, save_file


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "served"
    folder.mkdir()
    save_file({"a.weight": torch.randn(30, 40)}, folder / "model.safetensors")
    with serving(folder) as server:
        yield server


@pytest.mark.slow
def test_a_remote_checkpoint_is_inspected_and_pruned(server, tmp_path):
    url = f"{server.url}/model.safetensors"
    shown = json.loads(prune_gui("inspect", url, "--json").stdout)
    assert shown["path"] == url
    assert shown["files"] == [url]
    recipe = tmp_path / "half.yaml"
    recipe.write_text(
        "version: 1\nsteps: [{method: l1_unstructured, targets: ['*'], amount: 0.5}]\n"
    )
    pruned = json.loads(prune_gui("apply", recipe, url, "-o", tmp_path / "out.pt", "--json").stdout)
    assert pruned["checkpoint"] == url
    assert (torch.load(tmp_path / "out.pt")["a.weight"] == 0).sum() == 600
    prune_gui("apply", recipe, url, "-o", tmp_path / "out.safetensors")
    assert (load_file(tmp_path / "out.safetensors")["a.weight"] == 0).sum() == 600


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspect", "URL/other.safetensors"], 1, "other.safetensors does not exist"),
        (["inspect", "https://me:secret@host/model.pt"], 1, "carries a password"),
        (["inspect", "https:/me:secret@host/model.pt"], 1, "carries a password"),
        (["open", " s3:/me:secret@host/model.pt"], 1, "carries a password"),
        (["apply", "RECIPE", "URL/a.pt", "-o", "https://host/a.pt"], 1, "into an object store"),
        (["apply", "https://host/a.yaml", "URL/model.safetensors", "-o", "a.pt"], 2, "is a URL"),
    ],
)
def test_a_wrong_url_is_one_clear_line(server, tmp_path, arguments, code, message):
    recipe = tmp_path / "none.yaml"
    recipe.write_text("version: 1\nsteps: []\n")
    words = [each.replace("URL", server.url).replace("RECIPE", str(recipe)) for each in arguments]
    done = prune_gui(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
