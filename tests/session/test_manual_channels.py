"""Steps that prune channels which the user selected by hand."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step, resolve
from prune_gui.session.draft_request import drafted_channels, listed


@pytest.fixture
def checkpoint(tmp_path):
    weights = torch.arange(1.0, 13.0).reshape(3, 4)
    save_file({"a": weights, "b": weights.clone()}, tmp_path / "w.safetensors")
    with open_checkpoint(tmp_path / "w.safetensors") as opened:
        yield opened


def step_of(method, target, **parameters):
    return Step(method=METHODS[method](**parameters), targets=(target,))


def drafted(checkpoint, step, dim=0, name="a"):
    outcome = resolve(Recipe(steps=[step]), checkpoint).outcomes[0]
    return drafted_channels(step, outcome, dim, name, checkpoint)


def test_listed_channels_are_those_of_the_draft_before_it_is_resolved(checkpoint):
    step = listed(frozenset({2, 0}), 1, "a", checkpoint)
    assert step.targets == ("a",)
    assert drafted_channels(step, None, 1, "a", checkpoint) == {0, 2}
    assert drafted_channels(step, None, 0, "a", checkpoint) is None
    assert drafted_channels(step, None, 1, "b", checkpoint) is None


def test_ranked_channels_are_those_of_the_outcome(checkpoint):
    step = step_of("ln_structured", "a", amount=2, dim=0)
    assert drafted(checkpoint, step) == {0, 1}
    assert drafted_channels(step, None, 0, "a", checkpoint) is None
    assert drafted(checkpoint, step, dim=1) is None
    assert drafted(checkpoint, step_of("ln_structured", "*", amount=2)) is None


def test_other_methods_have_no_channels(checkpoint):
    assert drafted(checkpoint, step_of("l1_unstructured", "a", amount=2)) is None
