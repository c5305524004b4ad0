import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import open_checkpoint
from prune_gui.errors import StepError
from prune_gui.recipe import Recipe, resolve
from prune_gui.recipe.patterns import match_recipe, most_targeted

NAMES = ("a.weight", "a.bias", "b.weight", "b.steps")
PATTERNS = ("a.*", "*.weight", "c.*", "!a.*", "b.steps", "dims>1", "a.* size>100", "!c.*")


def recipe_of(*steps, protect=()):
    entries = [{"method": "l1_unstructured", "amount": 0.5, **step} for step in steps]
    return Recipe.model_validate({"steps": entries, "protect": protect})


def saved(tmp_path):
    tensors = {"a.weight": torch.ones(4, 4), "a.bias": torch.ones(4), "b.weight": torch.ones(4)}
    save_file({**tensors, "b.steps": torch.tensor([3])}, tmp_path / "model.safetensors")
    return open_checkpoint(tmp_path / "model.safetensors")


@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4, unique=True),
    protect=st.lists(st.sampled_from(["a.bias", "b.*"]), max_size=1),
)
def test_matches_are_those_of_resolving(tmp_path_factory, patterns, protect):
    recipe = recipe_of({"targets": patterns}, protect=protect)
    with saved(tmp_path_factory.mktemp("match_recipe")) as checkpoint:
        [one] = match_recipe(recipe, checkpoint)
        if one.targets:
            [outcome] = resolve(recipe, checkpoint).outcomes
            assert set(one.targets) == set(outcome.pruned)
            told = {text for text, note in outcome.remarks.items() if "no parameter" in note}
            assert set(one.unmatched) == told
        else:
            with pytest.raises(StepError, match=r"(?i)change the targets"):
                resolve(recipe, checkpoint)


def test_disabled_steps_are_omitted_and_keep_their_numbers(tmp_path):
    recipe = recipe_of({"targets": ["c.*"], "enabled": False}, {"targets": ["c.*", "a.weight"]})
    with saved(tmp_path) as checkpoint:
        [one] = match_recipe(recipe, checkpoint)
    assert (one.number, one.targets, one.unmatched) == (2, ("a.weight",), ("c.*",))


def test_a_condition_on_sparsity_is_assumed_to_hold(tmp_path):
    recipe = recipe_of(
        {"targets": ["a.* sparsity>90%", "c.* sparsity>1%", "sparsity<10% dims>1"]},
        {"targets": ["*.weight", "!sparsity>90%"]},
    )
    with saved(tmp_path) as checkpoint:
        first, second = match_recipe(recipe, checkpoint)
    assert set(first.targets) == {"a.weight", "a.bias"}
    assert first.unmatched == ("c.* sparsity>1%",)
    assert second.targets == ("a.weight", "b.weight")


def test_the_parameter_that_most_steps_target_is_the_first_of_them_in_the_file(tmp_path):
    with saved(tmp_path) as checkpoint:
        first, last = ({"targets": [name]} for name in ("a.weight", "b.weight"))
        assert most_targeted(recipe_of(), checkpoint) is None
        assert most_targeted(recipe_of(last, first), checkpoint) == "a.weight"
        assert most_targeted(recipe_of(last, first, last), checkpoint) == "b.weight"
        off = {**last, "enabled": False}
        assert most_targeted(recipe_of(first, off, off), checkpoint) == "a.weight"
