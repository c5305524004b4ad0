"""Which steps are resolved again, and which are cached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution
from prune_gui.recipe.resolver import Resolver

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
    """Return a recipe with a file of scores in the same folder."""
    folder.mkdir(exist_ok=True)
    save_file({"w": torch.tensor(scores)}, folder / "new.safetensors")
    (folder / "new.safetensors").replace(folder / "scores.safetensors")
    (folder / "recipe.yaml").write_text(SCORED)
    return Recipe.load(folder / "recipe.yaml")


def mask(resolution: Resolution) -> list[bool]:
    kept: list[bool] = resolution.mask("w").tolist()
    return kept


def test_a_relative_path_depends_on_the_folder_of_the_recipe(resolver, tmp_path):
    one, other = recipe_in(tmp_path / "a", [1.0, 2.0]), recipe_in(tmp_path / "b", [2.0, 1.0])
    assert one != other
    assert mask(resolver.resolve(one, Monitor())) == [False, True]
    assert mask(resolver.resolve(other, Monitor())) == [True, False]


def test_cached_decisions_depend_on_the_folder_of_the_recipe(resolver, tmp_path):
    one, other = recipe_in(tmp_path / "a", [1.0, 2.0]), recipe_in(tmp_path / "b", [2.0, 1.0])
    empty = resolver.resolve(Recipe(), Monitor())
    assert mask(empty.with_step(one.steps[0], Monitor())) == [False, True]
    assert mask(empty.with_step(other.steps[0], Monitor())) == [True, False]


def test_a_replaced_file_of_scores_is_read_again(resolver, tmp_path):
    before = resolver.resolve(recipe_in(tmp_path, [1.0, 2.0]), Monitor())
    assert resolver.resolve(before.recipe, Monitor()) is before
    recipe_in(tmp_path, [2.0, 1.0])
    assert mask(resolver.resolve(before.recipe, Monitor())) == [True, False]
    assert mask(before) == [False, True]


def test_a_deleted_file_of_scores_does_not_invalidate_the_resolution(resolver, tmp_path):
    before = resolver.resolve(recipe_in(tmp_path, [1.0, 2.0]), Monitor())
    (tmp_path / "scores.safetensors").unlink()
    assert resolver.resolve(before.recipe, Monitor()) is before


def test_a_copy_resolves_another_recipe_without_affecting_the_original(resolver):
    half = Recipe.from_yaml("steps: [{method: l1_unstructured, targets: [w], amount: 1}]")
    before = resolver.resolve(half, Monitor())
    copied = resolver.copy()
    assert copied.resolve(half, Monitor()) is before
    assert copied.resolve(half.with_steps((*half.steps, *half.steps)), Monitor()).total == (2, 2)
    assert resolver.after(1) is before
    assert resolver.after(2) is None


def test_a_resolver_can_be_copied_while_it_resolves(resolver):
    step = Recipe.from_yaml("steps: [{method: l1_unstructured, targets: [w], amount: 1}]").steps[0]
    recipes = [Recipe(steps=(step,)), Recipe(steps=(step, step)), Recipe(), Recipe(start="zeros")]
    ended = threading.Event()

    def resolve_all() -> None:
        for _ in range(200):
            for recipe in recipes:
                resolver.resolve(recipe, Monitor())
        ended.set()

    thread = threading.Thread(target=resolve_all)
    thread.start()
    while not ended.is_set():
        for recipe in recipes:
            assert resolver.copy().resolve(recipe, Monitor()).recipe == recipe
    thread.join()
