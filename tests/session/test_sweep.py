import math

import numpy as np
import pytest
import torch
from applied import CancelAfter
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import open_checkpoint
from prune_gui.errors import Cancelled, StepError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution
from prune_gui.recipe.resolver import Resolver
from prune_gui.session.sweep import Sweep


def recipe_of(*steps):
    return Recipe.model_validate({"steps": [{"method": "l1_unstructured", **s} for s in steps]})


def sweep(recipe, checkpoint, number, amounts, monitor):
    found = Sweep(Resolver(checkpoint), recipe, number)
    return [found.row(amount, monitor) for amount in amounts]


@pytest.fixture
def opened(on_disk):
    weights = torch.arange(1.0, 17).reshape(4, 4)
    return on_disk({"a": weights, "b": torch.full((4,), 0.5)})


@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    amounts=st.lists(st.one_of(st.floats(0, 1), st.integers(0, 12)), max_size=4),
    earlier=st.floats(0, 1),
)
def test_every_row_agrees_with_numpy(tmp_path_factory, seed, amounts, earlier):
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(6, 5)), random.normal(size=7)
    path = tmp_path_factory.mktemp("sweep") / "model.safetensors"
    save_file({"a": torch.from_numpy(a), "b": torch.from_numpy(b)}, path)
    recipe = recipe_of({"targets": ["b"], "amount": earlier}, {"targets": ["a"], "amount": 0.5})
    with open_checkpoint(path) as checkpoint:
        rows = sweep(recipe, checkpoint, 2, amounts, Monitor())
    assert [row.amount for row in rows] == amounts
    pruned_b = round(earlier * b.size)
    for row in rows:
        pruned_a = row.amount if isinstance(row.amount, int) else round(row.amount * a.size)
        kept = [np.sort(np.abs(b))[pruned_b:], np.sort(np.abs(a), axis=None)[pruned_a:]]
        assert (row.pruned, row.total, row.error) == (pruned_b + pruned_a, a.size + b.size, "")
        assert row.sparsity == (pruned_b + pruned_a) / (a.size + b.size)
        energy = sum((remaining**2).sum() for remaining in kept) / ((a**2).sum() + (b**2).sum())
        assert row.kept_energy == pytest.approx(energy, rel=1e-12)
        own = (kept[1] ** 2).sum() / (a**2).sum()
        assert row.target_energy == pytest.approx(own, rel=1e-12)
        assert (row.worst_energy, row.worst) == (row.target_energy, "a")
        assert row.nearly_empty == (pruned_b >= 0.99 * b.size) + (pruned_a >= 0.99 * a.size)


def test_an_impossible_amount_gives_a_row_with_an_error(opened):
    rows = sweep(recipe_of({"targets": ["b"], "amount": 1}), opened, 1, [2, 5, 4], Monitor())
    assert [row.pruned for row in rows] == [2, 0, 4]
    assert [bool(row.error) for row in rows] == [False, True, False]
    assert rows[1].error.startswith("Step 1: ")


def test_later_steps_are_applied_for_every_amount(opened):
    recipe = recipe_of(
        {"targets": ["a"], "amount": 0.5}, {"targets": ["a"], "amount": 3, "amount_of": "remaining"}
    )
    first, second = sweep(recipe, opened, 1, [8, 14], Monitor())
    assert first.pruned == 11
    assert second.error == "Step 2: " + second.error.removeprefix("Step 2: ")
    assert "3" in second.error


def test_kept_energy_of_all_zeros_is_nan(on_disk):
    checkpoint = on_disk({"a": torch.zeros(4)})
    [row] = sweep(recipe_of({"targets": ["a"], "amount": 1}), checkpoint, 1, [0.5], Monitor())
    assert row.pruned == 2
    assert math.isnan(row.kept_energy)


def test_earlier_steps_are_resolved_once_and_later_resolutions_are_kept(opened, calls_of):
    recipe = recipe_of(
        {"targets": ["b"], "amount": 1},
        {"targets": ["a"], "amount": 1},
        {"targets": ["a"], "amount": 1},
    )
    resolver = Resolver(opened)
    whole = resolver.resolve(recipe, Monitor())
    resolved = calls_of(Resolution, "with_step")
    amount_sweep = Sweep(resolver, recipe, 2)
    assert [amount_sweep.row(amount, Monitor()).pruned for amount in (2, 3)] == [4, 5]
    assert [len(before.outcomes) for before, *_ in resolved] == [1, 2, 1, 2]
    assert resolver.resolve(recipe, Monitor()) is whole


def test_a_step_that_fails_with_its_amount_can_succeed_with_another(opened):
    recipe = recipe_of({"targets": ["b"], "amount": 1}, {"targets": ["b"], "amount": 9})
    assert [row.pruned for row in sweep(recipe, opened, 2, [2], Monitor())] == [3]


def test_a_failing_earlier_step_is_an_error(opened):
    recipe = recipe_of({"targets": ["b"], "amount": 9}, {"targets": ["b"], "amount": 1})
    with pytest.raises(StepError, match="Step 1: "):
        sweep(recipe, opened, 2, [2], Monitor())


def test_a_sweep_can_be_cancelled(opened):
    stopped = Monitor(cancel=CancelAfter(0))
    with pytest.raises(Cancelled):
        sweep(recipe_of({"targets": ["a"], "amount": 1}), opened, 1, [2], stopped)
