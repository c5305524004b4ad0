"""A toy of each kind in `extension.py` works in recipe, command line, form and window."""

import json
import os
from pathlib import Path

import pytest
from python_process import python

SCRIPT = Path(__file__).with_name("extension.py")
RECIPE = 'steps: [{method: first_weights, targets: ["*.conv*.weight width>=3"], amount: 5}]'


@pytest.fixture
def extended(tmp_path, demo_checkpoint):
    """Return a function that runs the program with all toys, in a folder with the demo."""
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "demo.safetensors").write_bytes(demo_checkpoint.read_bytes())
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE", "DATA")}
    environment = {**os.environ, **homes, "LC_ALL": "fr_FR.UTF-8"}

    def run(*arguments):
        process = python(SCRIPT, *arguments, env=environment, cwd=tmp_path, encoding="utf-8")
        assert process.returncode == 0, process.stderr
        assert "Traceback" not in process.stderr
        return process.stdout

    return run


@pytest.mark.slow
def test_a_new_command_method_condition_and_format_work_on_the_command_line(extended):
    assert "Print a greeting." in extended("--help")
    assert extended("greet") == "Good day.\n"
    assert "first_weights" in json.loads(extended("methods", "--json"))
    applied = extended("apply", "recipe.yaml", "demo.safetensors", "-o", "out.hex", "--json")
    counts = {name: each["pruned"] for name, each in json.loads(applied)["parameters"].items()}
    changed = {name: pruned for name, pruned in counts.items() if pruned}
    assert changed == {f"features.conv{number}.weight": 5 for number in (1, 2, 3)}
    assert json.loads(extended("inspect", "out.hex", "--json"))["format"] == "hex"
    extended("verify", "out.hex")


@pytest.mark.slow
def test_all_toys_work_in_the_window(extended, tmp_path):
    extended("apply", "recipe.yaml", "demo.safetensors", "-o", "half.hex")
    extended("window", "half.hex", "window.hex")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["name"] == "features.conv1.weight"
    assert report["stack"].startswith("Premiers poids")
    assert str(len("features.conv1.weight")) in report["lengths"]
    assert report["greetings"] == ["Good day."]
    extended("verify", "window.hex")
