"""Plug-in files on the command line: naming a file is consent to run it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from safetensors.torch import load_file

RECIPE = 'steps: [{method: nearest_mean, targets: ["*.conv*.weight"], amount: 0.5}]\n'


def prune_gui(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "prune_gui", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=100, **options,
    )  # fmt: skip


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path / "recipe.yaml"


@pytest.mark.slow
def test_apply_uses_the_methods_of_a_file(demo_checkpoint, nearest_mean, recipe, tmp_path):
    out = tmp_path / "out.safetensors"
    own = ["--methods", nearest_mean]
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", out, *own, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    printed = json.loads(result.stdout)
    zeros = sum(int((t == 0).sum()) for n, t in load_file(out).items() if ".conv" in n)
    assert zeros == printed["pruned"] == 72 + 2304 + 9216


def test_a_recipe_with_a_missing_method_is_refused_with_how_to_load_it(
    demo_checkpoint, recipe, tmp_path
):
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", tmp_path / "out.safetensors")
    assert result.returncode == 1
    assert "--methods FILE" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_methods_lists_the_methods_of_several_files_with_their_sources(nearest_mean, plugin_file):
    other = plugin_file(
        """
        print("This is not JSON.")
        class Nothing(prune.BasePruningMethod):
            PRUNING_TYPE = "global"
            def compute_mask(self, t, default_mask):
                print("Neither is this.")
                return default_mask
        """.replace("\n        ", "\n")
    )
    own = ["--methods", nearest_mean, "--methods", other]
    printed = json.loads(prune_gui("methods", "--json", *own).stdout)
    assert printed["nearest_mean"]["source"] == str(nearest_mean)
    assert printed["nearest_mean"]["properties"].keys() == {"amount", "scope", "seed"}
    assert printed["nothing"]["source"] == str(other)
    assert printed["identity"]["source"] == "built-in"
    text = prune_gui("methods", *own).stdout
    assert f"nearest_mean  (from {nearest_mean})\n    Prune the weights nearest" in text


def test_the_rank_of_nan_is_documented():
    assert "NaN above infinity" in prune_gui("methods").stdout
    printed = json.loads(prune_gui("methods", "--json").stdout)
    ranked = ["l1_unstructured", "ln_structured", "lamp", "erk", "n_m", "block"]
    assert all("NaN above infinity" in " ".join(printed[m]["description"].split()) for m in ranked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "called sys.exit"),
        ("import os; os.write(1, b'')", "defines no pruning method"),
    ],
)
def test_an_unusable_plugin_file_is_one_line_on_standard_error(
    demo_checkpoint, recipe, plugin_file, tmp_path, source, message
):
    path, out = plugin_file(source), tmp_path / "out.safetensors"
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", out, "--methods", path)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert message in result.stderr
    assert str(path) in result.stderr
    assert not out.exists()
