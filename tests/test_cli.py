"""The command line, run as a process: its exit code, standard output and standard error."""

import json
import os

import pytest
import torch
from command_line import prune_gui
from file_server import serving
from python_process import python
from safetensors.torch import load_file, save_file

from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import OutputOptions

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


def test_the_options_of_apply_are_those_of_the_output(recipe, demo_checkpoint, monkeypatch):
    asked = []
    monkeypatch.setattr("prune_gui.cli.apply.prune_and_save", lambda *all, **_: asked.append(all))
    names = ("--compressed", "--zero-moments", "--overwrite", "--tensors-only", "--copy-code")
    names += ("--no-model-files", "--allow-unloadable", "--shard-size", "0.1MB", "--form", "masks")
    prune_gui("apply", recipe, demo_checkpoint, "-o", "out", *names)
    prune_gui("apply", recipe, demo_checkpoint, "-o", "out")
    [(_, _, given), (_, _, default)] = asked
    flags = ("compressed", "zero_moments", "overwrite", "tensors_only", "copy_code")
    options = dict.fromkeys((*flags, "allow_unloadable"), True)
    expected = OutputOptions("masks", shard_size=100_000, model_files=False, **options)
    assert (given, default) == ({"out": expected}, {"out": OutputOptions("finalized")})


@pytest.mark.slow
def test_inspect_describes_a_folder_of_shards(demo_checkpoint, recipe, tmp_path):
    split = tmp_path / "split"
    size = ("--shard-size", "0.1MB", "--json")
    saved = json.loads(prune_gui("apply", recipe, demo_checkpoint, "-o", split, *size).stdout)
    assert saved["files"][0]["bytes"] == sum(path.stat().st_size for path in split.iterdir())
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
        (
            ["apply", "{recipe}", "{demo}", "-o", "{out}", "--device", "cuda:99"],
            2,
            "There is no device cuda:99. Choose automatic, or one of: cpu",
        ),
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
    result = python("-m", "prune_gui", "demo", cwd=tmp_path, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "no display" in result.stdout
    files = sorted(tmp_path.glob("prune-gui-demo/*"))
    assert len(files) == 3  # two checkpoints, and the loader of the reparametrized one
    for path in files:
        assert str(path.relative_to(tmp_path)) in result.stdout
    assert "Sparsity" in result.stdout


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "served"
    folder.mkdir()
    save_file({"a.weight": torch.randn(30, 40)}, folder / "model.safetensors")
    with serving(folder) as server:
        yield server


@pytest.mark.slow
def test_a_remote_checkpoint_is_inspected_and_pruned(server, recipe, tmp_path):
    url = f"{server.url}/model.safetensors"
    shown = json.loads(prune_gui("inspect", url, "--json").stdout)
    assert shown["path"] == url
    assert shown["files"] == [url]
    pruned = json.loads(prune_gui("apply", recipe, url, "-o", tmp_path / "out.pt", "--json").stdout)
    assert pruned["checkpoint"] == url
    assert (torch.load(tmp_path / "out.pt")["a.weight"] == 0).sum() == 600


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
def test_a_wrong_url_is_one_clear_line(server, recipe, arguments, code, message):
    words = [each.replace("URL", server.url).replace("RECIPE", str(recipe)) for each in arguments]
    done = prune_gui(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
