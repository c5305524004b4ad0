"""Files of scores for units of small models of transformers, from the command line."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from transformer_families import load_model, outputs, save_model

from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.architecture.groups import coupled_groups
from prune_gui.cli.program import cli

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def run(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)])


@pytest.fixture
def bert(tmp_path):
    folder = tmp_path / "bert"
    save_model("bert", folder, dtype="float32", shard_size="1GB")
    return folder


def write_recipe(folder, *steps):
    path = folder / "recipe.yaml"
    path.write_text(
        json.dumps({"version": 1, "steps": [{"targets": ["*"], **one} for one in steps]})
    )
    return path


def stack_of(state):
    [up, *_] = [name for name in state if name.endswith("0.intermediate.dense.weight")]
    return up.removesuffix(".0.intermediate.dense.weight")


def test_neurons_of_lowest_score_go_from_the_finalized_and_the_compact_form(bert, tmp_path):
    state = load_file(bert / "model.safetensors")
    stack, generator = stack_of(state), torch.Generator().manual_seed(0)
    ups = [name for name in state if name.endswith("intermediate.dense.weight")]
    size = len(state[ups[0]])
    scores = {f"{stack}.{i}.ffn": torch.rand(size, generator=generator) for i in range(len(ups))}
    save_file(scores, tmp_path / "scores.safetensors")
    recipe = write_recipe(
        tmp_path, {"method": "coupled", "amount": 0.5, "importance": "scores.safetensors"}
    )
    finalized = tmp_path / "finalized" / "model.safetensors"
    shutil.copytree(bert, finalized.parent)
    for form, out in {"finalized": finalized, "compact": tmp_path / "compact"}.items():
        result = run("apply", recipe, bert, "-o", out, "--form", form, "--overwrite")
        assert result.exit_code == 0, result.output
    zeroed = load_file(finalized)
    smaller = load_file(tmp_path / "compact" / "model.safetensors")
    for i, key in enumerate(scores):
        name = f"{stack}.{i}.intermediate.dense.weight"
        kept = scores[key].argsort()[size // 2 :].sort().values
        assert torch.equal((zeroed[name] != 0).any(1).nonzero().ravel(), kept)
        assert torch.equal(smaller[name], state[name][kept])
    torch.testing.assert_close(
        outputs(load_model("bert", tmp_path / "compact")),
        outputs(load_model("bert", finalized.parent)),
    )


def test_the_layer_of_lowest_score_is_missing_in_the_compact_form(bert, tmp_path):
    state = load_file(bert / "model.safetensors")
    stack = stack_of(state)
    layers = json.loads((bert / "config.json").read_text())["num_hidden_layers"]
    save_file({stack: torch.arange(layers).flip(0).float()}, tmp_path / "s.safetensors")
    recipe = write_recipe(
        tmp_path, {"method": "layers", "amount": 1, "importance": "s.safetensors"}
    )
    result = run("apply", recipe, bert, "-o", tmp_path / "out", "--form", "compact")
    assert result.exit_code == 0, result.output
    smaller = load_file(tmp_path / "out" / "model.safetensors")
    last = f"{stack}.{layers - 1}."
    assert {name for name in state if not name.startswith(last)} == smaller.keys()
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["num_hidden_layers"] == layers - 1


def test_experts_of_lowest_score_go_like_listed_ones(tmp_path):
    save_model("mixtral", tmp_path / "mixtral")
    with open_checkpoint(tmp_path / "mixtral") as checkpoint:
        groups = coupled_groups(checkpoint, "experts")
        scores = {group.key: torch.arange(group.size).roll(2).float() for group in groups}
        assert "model.layers.0.experts" in scores
        save_file(scores, tmp_path / "s.safetensors")
        ranked = {"amount": 2, "importance": str(tmp_path / "s.safetensors")}
        lowest = scores["model.layers.0.experts"].argsort()[:2].tolist()
        by_file, by_list = (
            resolve(Recipe(steps=[{"method": "experts", "targets": ["*"], **fields}]), checkpoint)
            for fields in (ranked, {"experts": lowest})
        )
        assert by_file.total == by_list.total
        assert by_file.total[0] > 0
        for name in by_file.counts:
            assert torch.equal(by_file.mask(name), by_list.mask(name))


def test_a_bad_file_is_one_line(bert, tmp_path):
    stack = stack_of(load_file(bert / "model.safetensors"))
    save_file({stack: torch.rand(99)}, tmp_path / "s.safetensors")
    recipe = write_recipe(
        tmp_path, {"method": "layers", "amount": 1, "importance": "s.safetensors"}
    )
    result = run("apply", recipe, bert, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert f"{stack} has shape [99], but the group has" in str(result.exception)
    assert not (tmp_path / "out").exists()
