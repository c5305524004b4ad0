"""Methods of one's own on the command line: naming the file is agreeing to run it."""

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
    done = prune_gui("apply", recipe, demo_checkpoint, "-o", out, *own, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    zeros = sum(int((t == 0).sum()) for n, t in load_file(out).items() if ".conv" in n)
    assert zeros == said["pruned"] == 72 + 2304 + 9216


def test_without_the_file_the_recipe_says_how_to_load_it(demo_checkpoint, recipe, tmp_path):
    done = prune_gui("apply", recipe, demo_checkpoint, "-o", tmp_path / "out.safetensors")
    assert done.returncode == 1
    assert "--methods FILE" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_methods_lists_those_of_several_files_and_where_they_are_from(nearest_mean, plugin_file):
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
    said = json.loads(prune_gui("methods", "--json", *own).stdout)
    assert said["nearest_mean"]["source"] == str(nearest_mean)
    assert said["nearest_mean"]["properties"].keys() == {"amount", "scope", "seed"}
    assert said["nothing"]["source"] == str(other)
    assert said["identity"]["source"] == "built-in"
    text = prune_gui("methods", *own).stdout
    assert f"nearest_mean  (from {nearest_mean})\n    Prune the entries nearest" in text


def test_it_is_said_where_nan_ranks():
    assert "NaN above infinity" in prune_gui("methods").stdout
    said = json.loads(prune_gui("methods", "--json").stdout)
    ranked = ["l1_unstructured", "ln_structured", "lamp", "erk", "n_m", "block"]
    assert all("NaN above infinity" in " ".join(said[m]["description"].split()) for m in ranked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "called sys.exit"),
        ("import os; os.write(1, b'')", "defines no pruning method"),
    ],
)
def test_a_file_that_is_no_good_is_one_line(
    demo_checkpoint, recipe, plugin_file, tmp_path, source, says
):
    path, out = plugin_file(source), tmp_path / "out.safetensors"
    done = prune_gui("apply", recipe, demo_checkpoint, "-o", out, "--methods", path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert says in done.stderr
    assert str(path) in done.stderr
    assert not out.exists()
