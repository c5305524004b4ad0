"""The command line, run as a process: its exit code, standard output and standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from command_line import prune_gui
from safetensors.torch import load_file, save_file

from prune_gui.pruning.methods import METHODS

RECIPE = 'steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5, scope: global}]\n'


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path / "recipe.yaml"


@pytest.mark.slow
def test_apply_prunes_and_prints_what_it_wrote(demo_checkpoint, recipe, tmp_path):
    out = tmp_path / "out.safetensors"
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", out)
    assert (result.returncode, result.stderr) == (0, "")
    assert str(out) in result.stdout
    zeros = sum(int((t == 0).sum()) for n, t in load_file(out).items() if n.endswith(".weight"))
    assert f"{zeros:,}" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
def test_apply_prints_one_json_object_and_nothing_else(demo_checkpoint, recipe, tmp_path, form):
    out = tmp_path / "out.safetensors"
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", out, "--form", form, "--json")
    printed = json.loads(result.stdout)
    assert result.returncode == 0
    file = {"path": str(out), "form": form, "bytes": out.stat().st_size, "note": ""}
    assert printed["files"] == [file]
    assert (
        printed["pruned"]
        == printed["steps"][0]["pruned"]
        == sum(each["pruned"] for each in printed["parameters"].values())
    )


@pytest.mark.slow
def test_apply_lists_the_loaders_that_it_wrote(demo_checkpoint, recipe, tmp_path):
    out, loader = tmp_path / "out.safetensors", tmp_path / "load_out_safetensors.py"
    arguments = ("apply", recipe, demo_checkpoint, "-o", out, "--form", "reparametrized")
    assert f"Wrote {loader} " in prune_gui(*arguments).stdout
    assert "def load(" in loader.read_text()
    out.unlink()
    refused = prune_gui(*arguments)
    assert refused.returncode == 1
    assert f"{loader} already exists" in refused.stderr
    printed = json.loads(prune_gui(*arguments, "--overwrite", "--json").stdout)
    assert printed["loaders"] == [str(loader)]


@pytest.mark.slow
def test_inspect_shows_every_tensor_and_its_zeros(tmp_path):
    tensors = {
        "layer.weight": torch.tensor([[0.0, 1.0], [2.0, 0.0]]),
        "layer.bias": torch.ones(2),
        "steps": torch.tensor(3),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    text = prune_gui("inspect", tmp_path / "model.safetensors")
    assert text.returncode == 0
    assert "50.0%" in text.stdout
    assert "integer" in text.stdout
    printed = json.loads(prune_gui("inspect", tmp_path / "model.safetensors", "--json").stdout)
    assert {each["name"]: each["zeros"] for each in printed["tensors"]} == {
        "layer.weight": 2, "layer.bias": 0, "steps": None,
    }  # fmt: skip
    assert (printed["parameters"], printed["zeros"]) == (6, 2)


@pytest.mark.slow
def test_apply_writes_a_compressed_file_that_torch_loads(demo_checkpoint, recipe, tmp_path):
    plain, compressed = tmp_path / "plain.pt", tmp_path / "compressed.pt"
    assert prune_gui("apply", recipe, demo_checkpoint, "-o", plain).returncode == 0
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", compressed, "--compressed")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"{compressed.stat().st_size:,} bytes" in result.stdout
    assert compressed.stat().st_size < 0.9 * plain.stat().st_size
    one, other = (torch.load(path, weights_only=True) for path in (plain, compressed))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.slow
def test_apply_zeroes_moments_on_request(recipe, tmp_path):
    path, out = tmp_path / "train.pt", tmp_path / "out.pt"
    model = torch.nn.Sequential(torch.nn.Linear(20, 10))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(20)).square().sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    recipe.write_text(
        "version: 1\nsteps:\n- {method: l1_unstructured, targets: ['*'], amount: 0.5}\n"
    )
    result = prune_gui("apply", recipe, path, "-o", out, "--zero-moments")
    assert (result.returncode, result.stderr) == (0, "")
    assert "byte for byte" in result.stdout
    loaded = torch.load(out)
    assert not loaded["optimizer"]["state"][0]["exp_avg"][loaded["model"]["0.weight"] == 0].any()


@pytest.mark.slow
def test_apply_writes_shards_and_prunes_sharded_checkpoints(demo_checkpoint, recipe, tmp_path):
    whole, split, again = tmp_path / "whole.safetensors", tmp_path / "split", tmp_path / "again"
    assert prune_gui("apply", recipe, demo_checkpoint, "-o", whole).returncode == 0
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", split, "--shard-size", "0.1MB")
    assert (result.returncode, result.stderr) == (0, "")
    shards = sorted(split.glob("model-*-of-00003.safetensors"))
    assert len(shards) == 3
    result = prune_gui("apply", recipe, split, "-o", f"{again}/", "--json")
    (file,) = json.loads(result.stdout)["files"]
    assert file["bytes"] == sum(path.stat().st_size for path in again.iterdir())
    assert sorted(path.name for path in again.iterdir()) == sorted(
        path.name for path in split.iterdir()
    )
    expected = load_file(whole)
    written = {key: tensor for path in shards for key, tensor in load_file(path).items()}
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[key], expected[key]) for key in expected)


@pytest.mark.slow
def test_inspect_describes_a_folder_of_shards(demo_checkpoint, recipe, tmp_path):
    split = tmp_path / "split"
    prune_gui("apply", recipe, demo_checkpoint, "-o", split, "--shard-size", "0.1MB")
    (split / "config.json").write_text('{"model_type": "cnn", "torch_dtype": "float32"}')
    text = prune_gui("inspect", split).stdout
    assert "safetensors, 3 shards, 22 tensors" in text
    assert "Model: cnn, float32\n" in text
    printed = json.loads(prune_gui("inspect", split, "--json").stdout)
    assert printed["description"] == "cnn, float32"
    assert printed["path"] == str(split / "model.safetensors.index.json")
    assert printed["files"] == [str(path) for path in sorted(split.glob("*.safetensors"))]


def test_methods_lists_every_method_with_its_parameters():
    text = prune_gui("methods").stdout
    printed = json.loads(prune_gui("methods", "--json").stdout)
    assert printed.keys() == METHODS.keys()
    for name, method in METHODS.items():
        assert name in text
        assert printed[name]["properties"].keys() == method.model_fields.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["apply"], 2, "RECIPE"),
        (["apply", "{recipe}", "{demo}"], 2, "--out"),
        (["apply", "{recipe}", "{demo}", "-o", "{out}", "--form", "huge"], 2, "huge"),
        (["apply", "{recipe}", "{demo}", "-o", "{out}", "--shard-size", "5"], 2, "5GB or 2GiB"),
        (["inspect", "--colour"], 2, "--colour"),
        (["apply", "{recipe}", "{demo}", "-o", "{out}", "--shard-size", "1GB"], 1, "single file"),
        (["apply", "nowhere.yaml", "{demo}", "-o", "{out}"], 1, "nowhere.yaml"),
        (["apply", "{recipe}", "nowhere.pt", "-o", "{out}"], 1, "nowhere.pt"),
        (["apply", "{recipe}", "{recipe}", "-o", "{out}"], 1, "recipe.yaml"),
        (["apply", "{recipe}", "{demo}", "-o", "{recipe}"], 1, "recipe.yaml"),
        (["apply", "{recipe}", "{demo}", "-o", "/nowhere/out.safetensors"], 1, "/nowhere"),
        (["inspect", "nowhere.pt"], 1, "nowhere.pt"),
        (["diff", "{demo}", "nowhere.pt"], 1, "nowhere.pt"),
        (["diff", "{demo}", "{recipe}"], 1, "recipe.yaml"),
        (["diff", "{demo}"], 2, "B"),
        (["report", "{demo}"], 2, "--out"),
        (["report", "nowhere.pt", "-o", "{out}.html"], 1, "nowhere.pt"),
        (["report", "{demo}", "-o", "/nowhere/r.html"], 1, "does not exist"),
        (["verify"], 2, "FILE"),
    ],
)
def test_a_problem_is_one_line_on_standard_error(
    demo_checkpoint, recipe, tmp_path, arguments, code, message
):
    names = {"recipe": recipe, "demo": demo_checkpoint, "out": tmp_path / "out.safetensors"}
    result = prune_gui(*[argument.format(**names) for argument in arguments])
    assert result.returncode == code
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


@pytest.mark.slow
def test_the_demo_without_a_display_reports_it_and_prunes_in_the_terminal(tmp_path):
    unset = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    result = prune_gui("demo", cwd=tmp_path, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "no display" in result.stdout
    files = sorted(tmp_path.glob("prune-gui-demo/*"))
    assert len(files) == 3  # two checkpoints, and the loader of the reparametrized one
    for path in files:
        assert str(path.relative_to(tmp_path)) in result.stdout
    assert "Sparsity" in result.stdout


def test_importing_the_package_and_its_command_line_loads_neither_torch_nor_qt():
    program = (
        "import sys, prune_gui, prune_gui.pruning.methods, prune_gui.cli\n"
        "print(prune_gui.Recipe, *sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = result.stdout.split()
    assert "torch" not in loaded
    assert "numba" not in loaded
    assert "PySide6" not in loaded
