"""`prune-gui inspect` as a process, and the choice of a state dict."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save


def prune_gui(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "prune_gui", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.fixture
def training(tmp_path):
    """Return a training checkpoint with two state dicts."""
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3)).state_dict()
    torch.save({"model": model, "ema": {"w": torch.ones(2, 2)}}, tmp_path / "t.pt")
    return tmp_path / "t.pt"


@pytest.mark.slow
def test_inspect_marks_module_types_as_inferred_and_shows_roles_of_tensors(training):
    text = prune_gui("inspect", training)
    assert (text.returncode, text.stderr) == (0, "")
    assert "magnitude of a weight norm" in text.stdout
    assert "original1: direction of the weight-normalized weight" in text.stdout
    printed = json.loads(prune_gui("inspect", training, "--json").stdout)
    assert printed["modules"] == [{"path": "", "kind": "Linear", "inferred": True}]
    roles = {each["name"].rpartition(".")[2]: each["role"] for each in printed["tensors"]}
    assert roles["bias"] is None
    assert "magnitude" in roles["original0"]


@pytest.mark.slow
def test_a_state_dict_is_chosen_by_its_name(training, tmp_path):
    printed = json.loads(prune_gui("inspect", training, "--json").stdout)
    assert (printed["state_dict"], printed["state_dicts"]) == ("model", ["model", "ema"])
    assert "'ema'" in printed["warnings"][0]
    assert "--state" in printed["warnings"][0]
    other = json.loads(prune_gui("inspect", training, "--json", "--state", "ema").stdout)
    assert [each["name"] for each in other["tensors"]] == ["w"]
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "out.pt"
    recipe.write_text("steps: [{method: l1_unstructured, targets: [w], amount: 1}]\n")
    result = prune_gui("apply", recipe, training, "-o", out, "--state", "ema")
    assert (result.returncode, "'ema'" in result.stderr) == (0, True)
    written = torch.load(out, weights_only=True)
    assert written["ema"]["w"].count_nonzero() == 3
    assert written["model"].keys() == torch.load(training, weights_only=True)["model"].keys()
    wrong = prune_gui("inspect", training, "--state", "none")
    assert wrong.returncode == 1
    assert "Choose one of 'model', 'ema'" in wrong.stderr


@pytest.mark.slow
def test_names_reach_the_terminal_as_plain_text(tmp_path):
    path = tmp_path / "a\nb\udcff.safetensors"
    path.write_bytes(save({"\x1b[2Jw": torch.ones(2), "n" * 3000: torch.ones(2)}))
    text = prune_gui("inspect", path)
    assert (text.returncode, text.stderr) == (0, "")
    assert "\x1b" not in text.stdout
    assert "\\x1b[2Jw" in text.stdout
    assert max(map(len, text.stdout.splitlines())) < 400
    printed = prune_gui("inspect", path, "--json")
    assert json.loads(printed.stdout)["tensors"][0]["name"] == "\x1b[2Jw"
    assert prune_gui("inspect", f"{path}.none").stderr.count("\n") == 1
