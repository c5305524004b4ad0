"""Which steps are resolved again after an edit, which are cached, and what changes."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution, Step
from prune_gui.recipe.outcome import Outcome
from prune_gui.recipe.resolver import Resolver
from prune_gui.session.changes import Changes, changed_parameters

SCORED = """
steps:
- {method: l1_unstructured, targets: [w], amount: 1, importance: scores.safetensors}
"""


@pytest.fixture
def resolver(on_disk) -> Resolver:
    return Resolver(on_disk({"w": torch.tensor([1.0, 2.0])}))


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


A, B, C = (f"{name}.weight" for name in "abc")


def step(*targets: str, amount: float = 0.5) -> Step:
    return Step.model_validate(
        {"method": "l1_unstructured", "targets": targets, "amount": amount, "scope": "local"}
    )


@pytest.fixture
def path(tmp_path):
    save_file({name: torch.randn(4, 5) for name in (A, B, C)}, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.fixture
def resolve(path):
    """Return a function that resolves steps, keeping what it can of the previous resolution."""
    with open_checkpoint(path) as checkpoint:
        resolver = Resolver(checkpoint)

        def resolved(*steps: Step, start: str = "dense"):
            return resolver.resolve(Recipe(steps=steps, start=start), Monitor())

        yield resolved


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ([], [step(A)], {A}),
        ([step(A)], [], {A}),
        ([step(A)], [step(A), step(B)], {B}),
        ([step(A), step(B)], [step(A), step(C)], {B, C}),
        ([step(A), step(B), step(C)], [step(A), step(C)], {B, C}),
        ([step(A), step(B)], [step(A, amount=0.25), step(B)], {A, B}),
        ([step(A)], [step(A)], set()),
        ([step(A)], [step(A).model_copy(update={"enabled": False})], {A}),
        ([], [step(A, amount=0.0)], {A}),
    ],
)
def test_the_targets_of_the_steps_from_the_first_change_on_are_changed(
    resolve, before, after, changed
):
    old, new = resolve(*before), resolve(*after)
    assert changed_parameters(old, new) == changed
    differing = {name for name in old.counts if not (old.mask(name) == new.mask(name)).all()}
    assert differing <= changed


def test_any_parameter_may_differ_without_a_comparable_resolution(resolve, path):
    resolution = resolve(step(A))
    assert changed_parameters(None, resolution) is None
    assert changed_parameters(resolution, None) is None
    assert changed_parameters(resolution, resolve(step(A), start="zeros")) is None
    own_table = replace(resolution, recipe=resolution.recipe.with_table(path))
    assert changed_parameters(resolution, own_table) is None
    with open_checkpoint(path) as another:
        assert changed_parameters(resolution, replace(resolution, checkpoint=another)) is None


@pytest.mark.parametrize("targets", [50_000, 100_000])
def test_large_checkpoints_are_compared_in_a_moment(resolve, targets):
    old = resolve()
    outcome = Outcome(pruned={f"block.{i}.weight": 1 for i in range(targets)})
    new = replace(old, outcomes=(outcome,))
    durations = []
    for _ in range(5):
        start = time.perf_counter()
        names = changed_parameters(old, new)
        durations.append(time.perf_counter() - start)
    assert names == (frozenset(outcome.pruned) if targets == 50_000 else None)
    assert min(durations) < 0.01


def test_only_a_resolution_that_may_differ_concerns_a_parameter():
    assert Changes(resolution=True).concerns(A)
    assert Changes(resolution=True, parameters=frozenset({A})).concerns(A)
    assert not Changes(resolution=True, parameters=frozenset({B})).concerns(A)
    assert not Changes(recipe=True).concerns(A)
