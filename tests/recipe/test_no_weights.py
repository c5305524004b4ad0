"""Steps leave out what is no weight, unless its exact name or a condition asks for it."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.cli.program import cli
from prune_gui.errors import CheckpointError, StepError
from prune_gui.evaluation.scan import TARGETS, groups_of
from prune_gui.recipe import Recipe, patterns_for, resolve
from prune_gui.recipe.compaction.plan import check_source
from prune_gui.recipe.patterns import match_recipe
from prune_gui.session import ModuleIndex

WEIGHTS = ["conv.weight", "bn.weight", "bn.bias", "q.weight"]
STATISTICS = ["bn.running_mean", "bn.running_var"]
LEFT_OUT = [*STATISTICS, "q.weight_scale"]


@pytest.fixture
def checkpoint(tmp_path):
    """Return a checkpoint with a batch norm and a quantized matrix."""
    state = {"conv.weight": torch.randn(8, 4, 3, 3)}
    state |= {f"bn.{key}": torch.rand(8) for key in ("weight", "bias")}
    state |= {name: torch.rand(8) + 1 for name in STATISTICS}
    state |= {
        "q.weight": (torch.randn(8, 8) * 9).to(torch.float8_e4m3fn),
        "q.weight_scale": torch.rand(8, 1),
        "packed.qweight": torch.ones(2, 8, dtype=torch.int32),
        "packed.qzeros": torch.ones(1, 1, dtype=torch.int32),
        "packed.g_idx": torch.arange(16),
    }
    save_file(state, tmp_path / "m.safetensors")
    with open_checkpoint(tmp_path / "m.safetensors") as opened:
        yield opened


def resolution_of(checkpoint, *targets, **fields):
    step = {"method": "l1_unstructured", "targets": list(targets), "amount": 0.5}
    return resolve(Recipe.model_validate({"steps": [step], **fields}), checkpoint)


TARGETED = {
    ("*",): WEIGHTS,
    ("!packed.*",): WEIGHTS,
    ("bn.*",): ["bn.weight", "bn.bias"],
    ("*.bias", "bn.running_?ar"): ["bn.bias"],
    ("bn.running_var",): ["bn.running_var"],
    ("[b]n.running_var",): ["bn.running_var"],
    ("*", "bn.running_var"): [*WEIGHTS, "bn.running_var"],
    ("* dims=1",): ["bn.weight", "bn.bias", *STATISTICS],
    ("*running* dtype:float32",): STATISTICS,
    ("type:BatchNorm",): ["bn.weight", "bn.bias", *STATISTICS],
    ("dims>1",): ["conv.weight", "q.weight", "q.weight_scale"],
    ("!dims<2",): ["conv.weight", "q.weight"],
    ("size>0", "!bn.*"): ["conv.weight", "q.weight", "q.weight_scale"],
}


@pytest.mark.parametrize("targets", TARGETED)
def test_targets_are_the_same_everywhere(checkpoint, targets):
    resolution = resolution_of(checkpoint, *targets)
    assert sorted(resolution.outcomes[0].pruned) == sorted(TARGETED[targets])
    (match,) = match_recipe(resolution.recipe, checkpoint)
    assert sorted(match.targets) == sorted(TARGETED[targets])
    groups = groups_of(checkpoint, targets, None)
    assert sorted(groups) == sorted(TARGETED[targets])
    patterns = patterns_for(TARGETED[targets], checkpoint.tensors.values())
    again = resolution_of(checkpoint, *patterns)
    assert sorted(again.outcomes[0].pruned) == sorted(TARGETED[targets])


def test_default_targets_are_weights(checkpoint):
    assert sorted(groups_of(checkpoint, TARGETS, None)) == ["conv.weight", "q.weight"]


NOTES = {
    ("*",): "2 running statistics, 1 scale were left out; name them exactly to prune them",
    ("bn.*",): "2 running statistics were left out; name them exactly to prune them",
    ("q.*",): "1 scale was left out; name it exactly to prune it",
    ("*.weight",): "",
    ("bn.weight", "bn.running_*", "bn.running_var"): (
        "1 running statistic was left out; name it exactly to prune it"
    ),
    ("bn.* dims=1",): "",
}


@pytest.mark.parametrize("targets", NOTES)
def test_the_note_of_a_step_counts_what_was_left_out(checkpoint, targets):
    notes = resolution_of(checkpoint, *targets).outcomes[0].notes
    assert notes.get("", "") == NOTES[targets]


def test_the_note_of_a_step_says_that_quantized_tensors_stay(checkpoint):
    notes = resolution_of(checkpoint, "*").outcomes[0].notes
    assert notes["packed.qweight"] == "quantized; it cannot be pruned and stays unchanged"


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["*running*"], r"\*running\* match no weights, only 2 running statistics. Name them"),
        (["packed.*"], "packed.qweight cannot be pruned: quantized"),
        (["none*"], r"no parameter matches none\*"),
    ],
)
def test_a_step_without_weights_says_what_its_patterns_match(checkpoint, targets, message):
    with pytest.raises(StepError, match=message):
        resolution_of(checkpoint, *targets)


def test_protection_and_amounts_by_pattern_are_of_every_kind(checkpoint):
    with pytest.raises(StepError, match="running_var is protected"):
        resolution_of(checkpoint, "bn.running_var", protect=["bn.*"])
    step = {"method": "l1_unstructured", "targets": ["bn.running_var"], "amount": 0.5}
    recipe = Recipe.model_validate({"steps": [{**step, "amounts": {"bn.*": 0.25}}]})
    assert resolve(recipe, checkpoint).counts["bn.running_var"] == (2, 8)


def test_a_selected_module_stands_for_its_weights(checkpoint):
    index = ModuleIndex(checkpoint.tensors.values())
    every = index.matches("")

    def selected(path):
        return index.selected_parameters(index.nodes_of(path), every)

    assert selected("bn") == {"bn.weight", "bn.bias"}
    assert selected("q") == {"q.weight"}
    assert selected("bn.running_var") == {"bn.running_var"}
    assert index.selected_parameters([index[0]], every) == {"conv.weight", "q.weight"}


def test_the_command_line_shows_kinds_and_what_was_left_out(checkpoint, tmp_path):
    run = CliRunner().invoke
    text = run(cli, ["inspect", str(checkpoint.path)]).output
    (line,) = [line for line in text.splitlines() if line.startswith("Left out by patterns")]
    assert "2 running statistics" in line
    assert "3 scales" in line
    assert "float32, running statistic" in text
    assert "Shown and pruned as codes x scales: q.weight\n" in text
    printed = json.loads(run(cli, ["inspect", str(checkpoint.path), "--json"]).stdout)
    kinds = {each["name"]: each["kind"] for each in printed["tensors"]}
    assert [name for name in LEFT_OUT if kinds[name]] == LEFT_OUT
    recipe, out = tmp_path / "r.yaml", tmp_path / "out.safetensors"
    recipe.write_text("steps: [{method: l1_unstructured, targets: ['*'], amount: 0.5}]")
    applied = run(cli, ["apply", str(recipe), str(checkpoint.path), "-o", str(out)])
    assert f"Note on step 1: {NOTES['*',]}" in applied.output
    page = tmp_path / "page.html"
    arguments = ["report", str(out), "--reference", str(checkpoint.path), "-o", str(page)]
    assert run(cli, arguments).exit_code == 0
    assert "2 running statistics" in page.read_text()


def test_scales_of_rows_do_not_fit_a_compact_form(checkpoint):
    with pytest.raises(CheckpointError, match="a scale for each row or block"):
        check_source(checkpoint)
