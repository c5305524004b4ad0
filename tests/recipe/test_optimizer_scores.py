"""Ranking the weights of a training checkpoint by the state of its optimizer."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import RecipeError
from prune_gui.recipe import Recipe, resolve

TEXT = 'steps: [{{method: {}, targets: ["*.weight"], amount: 0.5, importance: optimizer}}]'
RECIPE = Recipe.from_yaml(TEXT.format("l1_unstructured"))


@pytest.fixture(params=["named", "in order"])
def training(request):
    """Return what a training script saves after three steps of Adam."""
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)).bfloat16()
    parameters = model.named_parameters() if request.param == "named" else model.parameters()
    optimizer = torch.optim.AdamW(parameters)
    for _ in range(3):
        model(torch.randn(2, 4).bfloat16()).square().sum().backward()
        optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize("method", ["l1_unstructured", "lamp"])
def test_the_weights_of_the_lowest_v_times_w_squared_are_pruned(method, training, tmp_path):
    torch.save(training, tmp_path / "training.ckpt")
    with open_checkpoint(tmp_path / "training.ckpt") as checkpoint:
        resolution = resolve(Recipe.from_yaml(TEXT.format(method)), checkpoint)
        for number, name in ((0, "0.weight"), (2, "1.weight")):
            v = training["optimizer"]["state"][number]["exp_avg_sq"].float()
            scores = (v * training["model"][name].float().square()).flatten()
            pruned, total = resolution.counts[name]
            assert 0 < pruned <= total
            lowest = scores.argsort(stable=True)[:pruned]
            mask = torch.ones(total, dtype=torch.bool).index_fill(0, lowest, False)
            assert torch.equal(resolution.mask(name).flatten(), mask)


def test_the_recipe_keeps_the_word_in_any_folder(tmp_path):
    recipe = Recipe.from_yaml(RECIPE.to_yaml(), folder=tmp_path)
    assert recipe == RECIPE
    assert "importance: optimizer\n" in recipe.to_yaml()
    assert recipe.steps[0].method.files == {}
    assert "optimizer" in recipe.steps[0].method.options_text()


@pytest.mark.parametrize("save", [save_file, torch.save])
def test_a_checkpoint_without_an_optimizer_is_an_error(save, tmp_path):
    path = tmp_path / ("a.safetensors" if save is save_file else "a.pt")
    save({"0.weight": torch.randn(4, 4)}, path)
    with (
        open_checkpoint(path) as checkpoint,
        pytest.raises(RecipeError, match=r"a\.\w+ has no exp_avg_sq of 0\.weight"),
    ):
        resolve(RECIPE, checkpoint)


def test_an_optimizer_without_squares_is_an_error(training, tmp_path):
    for values in training["optimizer"]["state"].values():
        values["momentum_buffer"] = values.pop("exp_avg_sq")
    torch.save(training, tmp_path / "a.ckpt")
    with (
        open_checkpoint(tmp_path / "a.ckpt") as checkpoint,
        pytest.raises(RecipeError, match="has no exp_avg_sq"),
    ):
        resolve(RECIPE, checkpoint)


def test_an_optimizer_of_other_parameters_is_an_error(training, tmp_path):
    del training["model"]["1.bias"]
    torch.save(training, tmp_path / "a.ckpt")
    with (
        open_checkpoint(tmp_path / "a.ckpt") as checkpoint,
        pytest.raises(RecipeError, match="cannot be ranked by its optimizer"),
    ):
        resolve(RECIPE, checkpoint)


def test_a_closed_checkpoint_releases_the_state(training, tmp_path):
    import weakref

    from prune_gui.checkpoint.torch.moments import moments

    torch.save(training, tmp_path / "a.ckpt")
    with open_checkpoint(tmp_path / "a.ckpt") as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        resolution.mask("0.weight")
        state = weakref.ref(moments(checkpoint)["0.weight"][1])
        assert state() is not None
    assert state() is None
