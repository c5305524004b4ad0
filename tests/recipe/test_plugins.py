"""Plug-in methods in recipes: the worked example, and recipes with unknown methods."""

from __future__ import annotations

import runpy

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.utils import prune as torch_prune

from prune_gui import export, load_methods, open_checkpoint, resolve
from prune_gui.errors import RecipeError
from prune_gui.recipe import Recipe

HERE = "classifier.hidden.weight"


@pytest.fixture
def method(plugin_file, nearest_mean):
    [loaded] = load_methods(nearest_mean)
    return loaded


def test_the_example_alone_and_after_l1_prunes_what_torch_prunes_with_its_class(
    method, demo_checkpoint, tmp_path, nearest_mean
):
    live_class = runpy.run_path(str(nearest_mean))["NearestMean"]
    for earlier in ([], [{"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.3}]):
        own = {"method": "nearest_mean", "targets": ["*.weight"], "amount": 0.5}
        with open_checkpoint(demo_checkpoint) as checkpoint:
            resolution = resolve(Recipe(steps=[*earlier, own]), checkpoint)
            layer = torch.nn.Linear(1024, 64, bias=False)
            layer.weight.data.copy_(checkpoint.read(HERE))
            for step in earlier:
                torch_prune.l1_unstructured(layer, "weight", step["amount"])
            live_class.apply(layer, "weight", 0.5)
            assert torch.equal(resolution.mask(HERE), layer.weight_mask.bool())
            out = tmp_path / f"{len(earlier)}.safetensors"
            export(resolution, out)
        assert torch.equal(
            load_file(out)[HERE], torch.where(layer.weight_mask.bool(), layer.weight, 0)
        )


def test_the_example_has_a_recipe(method, demo_checkpoint, nearest_mean):
    recipe = Recipe.load(nearest_mean.with_suffix(".yaml"))
    assert recipe.renewed() == recipe
    with open_checkpoint(demo_checkpoint) as checkpoint:
        pruned, total = resolve(recipe, checkpoint).total
    assert 0.49 < pruned / total < 0.5


def test_the_explanation_of_an_element_names_the_plugin_step(method, demo_checkpoint):
    recipe = Recipe(steps=[{"method": "nearest_mean", "targets": [HERE], "amount": 1.0}])
    with open_checkpoint(demo_checkpoint) as checkpoint:
        explained = resolve(recipe, checkpoint).explain(HERE, (3, 4))
    assert explained.pruned_by == 1
    assert explained.element_ranks[1].score is None


def test_a_recipe_never_runs_code_and_states_how_to_load_its_method(plugin_file, tmp_path):
    plugin_file("open('it ran', 'w')", "mine.py")
    names = ("mine", "mine.py", str(tmp_path / "mine.py"), "__import__('os')", "tests", "a b")
    for name in names:
        with pytest.raises(RecipeError, match=r"is unknown.*--methods FILE.*Prune > Load") as error:
            Recipe.from_yaml(f"steps: [{{method: {name!r}, targets: [a]}}]", folder=tmp_path)
        assert "\n" not in str(error.value)
    (tmp_path / "mine.yaml").write_text("steps: [{method: mine, targets: [a]}]")
    with pytest.raises(RecipeError, match="mine"):
        Recipe.load(tmp_path / "mine.yaml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "mine.yaml"]
