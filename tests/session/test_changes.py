"""Which parameters a new resolution treats differently."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from prune_gui import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.outcome import Outcome
from prune_gui.recipe.resolver import Resolver
from prune_gui.session.changes import Changes, changed_parameters

A, B, C = (f"{name}.weight" for name in "abc")


def step(*targets: str, amount: float = 0.5) -> Step:
    return Step.model_validate(
        {"method": "l1_unstructured", "targets": targets, "amount": amount, "scope": "local"}
    )


@pytest.fixture
def path(tmp_path):
    weights = np.random.default_rng(0).standard_normal((3, 4, 5), dtype=np.float32)
    save_file(dict(zip((A, B, C), weights, strict=True)), tmp_path / "model.safetensors")
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
