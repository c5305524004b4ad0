"""Steps of coupled methods: what they target and read, also with a table of the user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from small_bert import write_bert

from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.architecture.groups import check_table, coupled_groups
from prune_gui.cli.program import cli
from prune_gui.errors import RecipeError, StepError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions import coupled_units
from prune_gui.recipe import Step
from prune_gui.recipe.resolution import initial_resolution
from prune_gui.recipe.resolver import Resolver
from prune_gui.resources import resource

UP = "encoder.layer.0.intermediate.dense.weight"
STEP = {"method": "listed_units", "space": "ffn", "units": [0], "targets": [UP]}


@pytest.fixture
def table(tmp_path):
    """A table whose FFN neurons do not include the bias."""
    text = (resource("architectures") / "bert.yaml").read_text()
    lines = [line for line in text.splitlines() if "intermediate.dense.bias" not in line]
    assert len(lines) < len(text.splitlines())
    path = tmp_path / "tables" / "own.yaml"
    path.parent.mkdir()
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def bert(tmp_path):
    with open_checkpoint(write_bert(tmp_path)) as checkpoint:
        yield checkpoint


def pruned(resolution):
    return {name for name, (number, _) in resolution.counts.items() if number}


def test_steps_prune_the_units_of_the_table(bert, table):
    recipe = Recipe(steps=[Step.model_validate(STEP)])
    members = {UP, UP.replace("weight", "bias"), "encoder.layer.0.output.dense.weight"}
    assert pruned(resolve(recipe, bert)) == members
    own = resolve(recipe.with_table(table), bert)
    assert pruned(own) == members - {UP.replace("weight", "bias")}


def test_the_table_is_relative_to_the_recipe_and_survives_its_file(bert, table, tmp_path):
    recipe = Recipe(steps=[Step.model_validate(STEP)]).with_table(table, tmp_path)
    text = recipe.lying_in(tmp_path).to_yaml()
    assert f"table: {Path('tables', 'own.yaml')}" in text
    assert Recipe.from_yaml(text, folder=tmp_path) == recipe
    assert str(table) in recipe.lying_in(tmp_path / "elsewhere").to_yaml()
    assert str(table) in recipe.anchored().to_yaml()
    assert recipe.renewed() == recipe
    assert "table" not in recipe.with_table(None).to_yaml()
    assert Recipe.from_yaml("table: own.yaml").table_path == Path.cwd() / "own.yaml"


def test_the_command_line_prunes_what_the_recipe_or_its_option_says(bert, table, tmp_path):
    recipe = Recipe(steps=[Step.model_validate(STEP)])
    plain, own = tmp_path / "plain.yaml", tmp_path / "own_recipe.yaml"
    plain.write_text(recipe.to_yaml())
    own.write_text(recipe.with_table(table, tmp_path).lying_in(tmp_path).to_yaml())
    masks = []
    for arguments in ([own], [plain, "--table", table], [plain]):
        out = tmp_path / "masks.safetensors"
        words = ["apply", *arguments, bert.path, "-o", out, "--form", "masks", "--overwrite"]
        result = CliRunner().invoke(cli, list(map(str, words)))
        assert result.exit_code == 0, result.output
        masks.append(sorted(load_file(out)))
    assert masks[0] == masks[1]
    assert len(masks[2]) == len(masks[0]) + 1


def test_the_compact_form_removes_the_units_of_the_table_of_the_recipe(bert, table, tmp_path):
    whole = (resource("architectures") / "bert.yaml").read_text()
    table.write_text(whole.replace("title: FFN neurons", "title: cells"))
    recipe = Recipe(steps=[Step.model_validate(STEP)]).with_table(table, tmp_path)
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.lying_in(tmp_path).to_yaml())
    words = ["compact", str(bert.path), "--recipe", str(file), "--dry-run", "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    [units] = json.loads(result.stdout)["units"]
    assert (units["title"], units["before"], units["after"]) == ("cells", 24, 23)


def test_a_changed_table_is_used_when_the_recipe_is_resolved_again(bert, table):
    recipe = Recipe(steps=[Step.model_validate(STEP)]).with_table(table)
    resolver = Resolver(bert)
    before = resolver.resolve(recipe, Monitor())
    assert resolver.resolve(recipe, Monitor()) is before
    table.write_text((resource("architectures") / "bert.yaml").read_text())
    after = resolver.resolve(recipe, Monitor())
    assert pruned(after) == pruned(before) | {UP.replace("weight", "bias")}
    table.unlink()
    with pytest.raises(StepError, match=r"own.yaml: the table cannot be read"):
        resolver.resolve(recipe, Monitor())


def test_a_table_that_describes_nothing_of_the_file_is_refused(bert, table):
    check_table(bert, table)
    table.write_text(table.read_text().replace("stacks: [", "stacks: [no."))
    with pytest.raises(RecipeError, match=r"own.yaml: the table describes no units of model.saf"):
        check_table(bert, table)
    assert coupled_groups(bert, "ffn")


GROUP = (UP, UP.replace("weight", "bias"), "encoder.layer.0.output.dense.weight")


def step(target=UP, **fields):
    return Step.model_validate({"method": "coupled", "targets": [target], **fields})


def test_another_amount_reads_no_weights_again(bert, monkeypatch):
    start = initial_resolution(Recipe(), bert, Monitor())
    first = start.with_step(step(amount=0.25), Monitor())
    monkeypatch.setattr(coupled_units, "score_norms", lambda *_, **__: pytest.fail("read again"))
    second = start.with_step(step(amount=0.75), Monitor())
    assert second.total[0] == 3 * first.total[0]


@pytest.mark.parametrize(
    ("target", "protect", "message"),
    [
        (GROUP[2], (), rf"no tensor that has units of this kind as outputs, such as {UP}"),
        (UP, (GROUP[2],), rf"{GROUP[2]} is protected, and units of encoder.layer.0 are"),
    ],
)
def test_a_step_without_a_whole_group_is_refused(bert, target, protect, message):
    with pytest.raises(StepError, match=message):
        resolve(Recipe(steps=[step(target)], protect=protect), bert)


def test_a_kind_of_units_that_the_network_lacks_is_refused_with_those_it_has(bert):
    with pytest.raises(StepError, match=r"no units of the kind 'experts'\. Choose one of: ffn"):
        resolve(Recipe(steps=[step(space="experts")]), bert)


def test_groups_that_are_a_guess_are_reported(tmp_path):
    shapes = {"0.weight": (6, 4), "0.bias": (6,), "1.weight": (3, 6), "1.bias": (3,)}
    save_file(
        {name: torch.ones(shape) for name, shape in shapes.items()}, tmp_path / "m.safetensors"
    )
    with open_checkpoint(tmp_path / "m.safetensors") as checkpoint:
        recipe = Recipe(steps=[step("0.weight", space="channels")])
        [outcome] = resolve(recipe, checkpoint).outcomes
    assert "is a guess from the shapes" in outcome.remarks["0.weight"]
