"""What is resolved again, and what is known from before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution
from prune_gui.session.resolver import Resolver

SCORED = """
steps:
- {method: l1_unstructured, targets: [w], amount: 1, importance: scores.safetensors}
"""


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[Resolver]:
    save_file({"w": torch.tensor([1.0, 2.0])}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        yield Resolver(checkpoint)


def recipe_in(folder: Path, scores: list[float]) -> Recipe:
    """Return a recipe whose scores lie beside it."""
    folder.mkdir(exist_ok=True)
    save_file({"w": torch.tensor(scores)}, folder / "new.safetensors")
    (folder / "new.safetensors").replace(folder / "scores.safetensors")
    (folder / "recipe.yaml").write_text(SCORED)
    return Recipe.load(folder / "recipe.yaml")


def mask(resolution: Resolution) -> list[bool]:
    kept: list[bool] = resolution.mask("w").tolist()
    return kept


def test_the_same_relative_path_in_another_folder_is_another_file(resolver, tmp_path):
    one, other = recipe_in(tmp_path / "a", [1.0, 2.0]), recipe_in(tmp_path / "b", [2.0, 1.0])
    assert one != other
    assert mask(resolver.resolve(one, Monitor())) == [False, True]
    assert mask(resolver.resolve(other, Monitor())) == [True, False]


def test_decisions_of_another_folder_are_not_taken_for_those_of_this_one(resolver, tmp_path):
    one, other = recipe_in(tmp_path / "a", [1.0, 2.0]), recipe_in(tmp_path / "b", [2.0, 1.0])
    empty = resolver.resolve(Recipe(), Monitor())
    assert mask(empty.with_step(one.steps[0], Monitor())) == [False, True]
    assert mask(empty.with_step(other.steps[0], Monitor())) == [True, False]


def test_a_file_of_scores_that_was_replaced_is_read_anew(resolver, tmp_path):
    before = resolver.resolve(recipe_in(tmp_path, [1.0, 2.0]), Monitor())
    assert resolver.resolve(before.recipe, Monitor()) is before
    recipe_in(tmp_path, [2.0, 1.0])
    assert mask(resolver.resolve(before.recipe, Monitor())) == [True, False]
    assert mask(before) == [False, True]


def test_a_file_of_scores_that_is_gone_is_still_known(resolver, tmp_path):
    before = resolver.resolve(recipe_in(tmp_path, [1.0, 2.0]), Monitor())
    (tmp_path / "scores.safetensors").unlink()
    assert resolver.resolve(before.recipe, Monitor()) is before
