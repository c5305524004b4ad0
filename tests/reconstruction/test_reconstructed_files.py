"""What is recorded of a reconstruction is told wherever the file is looked at."""

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from prune_gui import Recipe, export, open_checkpoint, resolve
from prune_gui.cli.program import cli
from prune_gui.comparison.state_losses import empty_losses
from prune_gui.monitor import Monitor
from prune_gui.recipe import verify
from prune_gui.recipe.recipe import Provenance
from prune_gui.report.collecting import report_on_files
from prune_gui.report.layer_table import csv

HALF = Recipe.model_validate({"steps": [{"method": "l1_unstructured", "targets": ["*"]}]})


@pytest.fixture
def dense(tmp_path):
    path = tmp_path / "dense.safetensors"
    save_file({"a": torch.arange(1.0, 9.0).view(2, 4), "b": torch.ones(2, 2)}, path)
    return path


@pytest.fixture
def pruned(dense, tmp_path):
    """A file that says that it was reconstructed from another one."""
    with open_checkpoint(dense) as opened:
        fingerprint = opened.fingerprint(Monitor())
    layers = [{"name": "a", "error": 0.25, "kept": 4}, {"name": "b", "error": None}]
    metadata = {
        "version": "1",
        "form": "finalized",
        "recipe": HALF.to_yaml(),
        "input": fingerprint,
        "pruned": json.dumps({"a": 4}),
        "calibration": "sha256:12ab",
        "reconstruction": json.dumps([{"number": 0, "layers": layers}]),
    }
    path = tmp_path / "pruned.safetensors"
    # not the weights that L1 keeps
    weights = torch.tensor([[1.5, 2.5, 0, 0], [0, 0, 7.0, 8.0]])
    save_file(
        {"a": weights, "b": torch.ones(2, 2)},
        path,
        {f"prune_gui.{key}": text for key, text in metadata.items()},
    )
    return path


def test_errors_and_calibration_are_read_from_the_metadata(pruned):
    with open_checkpoint(pruned) as opened:
        made = Provenance.of(opened.metadata)
    assert (made.calibration, made.errors) == ("sha256:12ab", {"a": 0.25})


@pytest.mark.parametrize("text", ["", "1", "[1]", '[{"layers": [{"name": "a"}]}]', "[" * 9999])
def test_metadata_of_another_shape_have_no_errors(text):
    metadata = {"prune_gui.version": "1", "prune_gui.reconstruction": text}
    assert Provenance.of(metadata).errors == {}


def test_verify_says_how_it_was_made(pruned):
    result = verify(pruned)
    assert result.problems == []
    note = "calibration data sha256:12ab; the largest error of a layer is 25.0 %, of a"
    assert note in result.notes[0].text


def test_diff_has_the_errors(dense, pruned):
    result = CliRunner().invoke(cli, ["diff", str(dense), str(pruned)])
    heading, row = [line for line in result.output.splitlines() if line.startswith(("Tens", "a "))]
    assert (heading.split()[-1], row.split()[-1]) == ("Error", "25.00%")
    result = CliRunner().invoke(cli, ["diff", str(dense), str(pruned), "--json"])
    assert json.loads(result.output)["errors"] == {"a": 0.25}


def test_a_report_has_the_errors_and_does_not_repeat_the_steps(dense, pruned):
    with open_checkpoint(dense) as reference, open_checkpoint(pruned) as opened:
        report = report_on_files([opened], reference, Monitor())
    [file] = report.files
    assert (file.calibration, file.warnings, file.retraced) == ("sha256:12ab", (), False)
    assert [layer.error for layer in file.layers] == [0.25, None]
    assert "Error" in csv(report).splitlines()[0]


def test_losses_know_the_errors_of_either_side(dense, pruned):
    with open_checkpoint(dense) as left, open_checkpoint(pruned) as right:
        sides = [resolve(Recipe(), one) for one in (left, right)]
        found = [empty_losses(*pair).errors.tolist() for pair in (sides, sides[::-1])]
    assert found == [pytest.approx([0.25, float("nan")], nan_ok=True)] * 2


def test_a_file_that_is_pruned_again_does_not_inherit_errors(pruned, tmp_path):
    out = tmp_path / "again.safetensors"
    with open_checkpoint(pruned) as opened:
        export(resolve(HALF, opened), out)
    with open_checkpoint(out) as opened:
        made = Provenance.of(opened.metadata)
    assert (made.calibration, made.errors) == ("", {})
