"""Steps of coupled methods in a recipe: what they target, and what they read."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from small_bert import write_bert

from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.errors import StepError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions import coupled_units
from prune_gui.recipe import Step
from prune_gui.recipe.resolution import initial_resolution

UP = "encoder.layer.0.intermediate.dense.weight"
GROUP = (UP, UP.replace("weight", "bias"), "encoder.layer.0.output.dense.weight")


@pytest.fixture
def bert(tmp_path):
    with open_checkpoint(write_bert(tmp_path)) as checkpoint:
        yield checkpoint


def step(target=UP, **fields):
    return Step.model_validate({"method": "coupled", "targets": [target], **fields})


def test_a_step_prunes_the_group_of_the_tensor_that_it_names_and_no_other(bert):
    counts = resolve(Recipe(steps=[step()]), bert).counts
    assert {name for name, (pruned, _) in counts.items() if pruned} == set(GROUP)
    assert all(2 * counts[name][0] == counts[name][1] for name in GROUP)


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
