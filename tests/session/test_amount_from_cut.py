"""A dragged cut sets the draft so that it prunes what lies below the cut."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.session import Session
from prune_gui.session.amount_from_cut import (
    DraggedAmount,
    field_for_rank,
    field_for_score,
    field_for_weight,
)

EARLIER = Step(method=METHODS["l1_unstructured"](amount=0.1), targets=("a",))


@pytest.fixture
def session(tmp_path):
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "a": torch.randn(40, 25, generator=generator),
        "b": torch.randn(30, 20, generator=generator) / 2,
    }
    save_file(tensors, tmp_path / "w.safetensors")
    with open_checkpoint(tmp_path / "w.safetensors") as checkpoint:
        yield Session(checkpoint)


def drag(session, find, cut, method, target="*", **parameters):
    """Drag the cut of a draft through `a`; return the setting and the mask of `a` that it makes."""
    method = METHODS[method](**parameters)
    step = Step(method=method, targets=(target,))
    recipe = session.recipe.with_steps((EARLIER, step))
    shown = session.resolver.resolve(recipe, Monitor())
    moved = DraggedAmount(session, step, shown, 2, "a")
    setting = find(moved, value=cut, monitor=Monitor())
    if setting is None:
        return None, None
    field, new_value = setting
    changed = step.model_copy(update={"method": method.model_copy(update={field: new_value})})
    after = session.resolver.resolve(recipe.with_steps((EARLIER, changed)), Monitor())
    return setting, after.mask("a")


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("l1_unstructured", {"amount": 0.5}),
        ("l1_unstructured", {"amount": 7}),
        ("l1_unstructured", {"amount": 0.5, "amount_of": "reach"}),
        ("l1_unstructured", {"scope": "global", "amount_of": "total"}),
        ("lamp", {"amount": 0.5}),
        ("erk", {"amount": 3}),
        ("threshold", {"value": 0.1}),
        ("threshold", {"value": 0.1, "relative_to": "std"}),
    ],
)
def test_the_setting_prunes_the_weights_up_to_the_cut(session, method, parameters):
    weights = session.checkpoint.read("a").abs()
    ordered = weights.flatten().sort().values
    cut = float((ordered[600] + ordered[601]) / 2)
    setting, mask = drag(session, field_for_weight, cut, method, **parameters)
    assert setting is not None
    pruned = int((~mask).sum())
    tolerance = {"lamp": 3, "erk": 1}.get(method, 0)  # groups of the histogram; other targets
    assert abs(pruned - 601) <= tolerance
    assert weights[~mask].max() <= ordered[600 + tolerance]


def test_a_cut_through_random_scores_prunes_their_share(session):
    setting, mask = drag(session, field_for_score, 0.25, "random_unstructured", "a")
    assert setting is not None
    assert int((~mask).sum()) == 100 + round(setting[1] * 900)
    assert 0.2 < setting[1] < 0.3


def test_a_cut_through_ranks_prunes_the_channels_up_to_it(session):
    norms = torch.linalg.vector_norm(session.checkpoint.read("a"), dim=1).sort().values
    cut = float(norms[9] + norms[10]) / 2
    setting, mask = drag(session, field_for_rank, cut, "ln_structured", "a", amount=0.5)
    assert setting == ("amount", 10 / 40)
    assert int((~mask).all(1).sum()) == 10


@pytest.mark.parametrize("method", ["random_unstructured", "random_structured"])
def test_a_draft_that_ranks_no_weights_has_no_setting_for_one(session, method):
    assert drag(session, field_for_weight, 0.1, method) == (None, None)


def test_listed_channels_have_no_ranks(session):
    assert drag(session, field_for_rank, 0.1, "channels", channels="1") == (None, None)
