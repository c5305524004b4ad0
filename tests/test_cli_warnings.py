"""The warnings of opening a checkpoint reach every command that writes or judges."""

import json

import pytest
import torch
from safetensors.torch import save_file
from sharded_files import INDEX, write_shards

from prune_gui.cli.program import cli
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.several_files import prune_file

RECIPE = "steps: [{method: l1_unstructured, targets: ['*.weight'], amount: 0.5}]"
EVALUATOR = """
def evaluate(path):
    return 1.0
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A folder of shards, of which one has a tensor that the index does not list."""
    monkeypatch.chdir(tmp_path)
    weights = {f"{name}.weight": torch.randn(4, 4) for name in "abc"}
    write_shards(tmp_path / "model", {"m-1.safetensors": weights})
    index = tmp_path / "model" / INDEX
    content = json.loads(index.read_text())
    del content["weight_map"]["c.weight"]
    index.write_text(json.dumps(content))
    save_file(weights, tmp_path / "other.safetensors")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "evaluate.py").write_text(EVALUATOR)
    return tmp_path / "model"


@pytest.mark.parametrize(
    "arguments",
    [
        "apply recipe.yaml model -o out",
        "report model -o out.html",
        "report other.safetensors --reference model -o out.html",
        "evaluate --yes evaluate.py:evaluate model",
        "evaluate --yes evaluate.py:evaluate model --recipe recipe.yaml",
        "scan --yes evaluate.py:evaluate model --amounts 0.5",
        "diff model other.safetensors",
    ],
)
def test_a_command_prints_the_warnings_of_its_checkpoint_once(model, arguments, capsys):
    cli.main(arguments.split(), standalone_mode=False)
    lines = capsys.readouterr().err.splitlines()
    [warning] = [line for line in lines if line.startswith("Warning: ")]
    assert warning.endswith("'c.weight' in m-1.safetensors.")


@pytest.mark.parametrize(
    "arguments",
    [
        "apply recipe.yaml model -o out",
        "evaluate --yes evaluate.py:evaluate model",
        "inspect model",
    ],
)
def test_json_has_the_warnings(model, arguments, capsys):
    cli.main([*arguments.split(), "--json"], standalone_mode=False)
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.endswith("'c.weight' in m-1.safetensors.")


def test_a_batch_has_the_warnings_of_each_checkpoint(model):
    row = prune_file(Recipe.from_yaml(RECIPE), model, None, OutputOptions(), Monitor())
    assert row.warnings[0].endswith("'c.weight' in m-1.safetensors.")
