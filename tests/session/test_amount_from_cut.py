"""A dragged cut sets the draft so that it prunes what lies below the cut."""

from __future__ import annotations

import pytest
import torch

from prune_gui.architecture.groups import coupled_groups
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.session import Session
from prune_gui.session.amount_from_cut import (
    DraggedAmount,
    field_for_rank,
    field_for_score,
    field_for_unit_score,
    field_for_weight,
)
from prune_gui.statistics.element_scores import scores_before
from prune_gui.statistics.unit_statistics import units_of_step

EARLIER = Step(method=METHODS["l1_unstructured"](amount=0.1), targets=("a",))


@pytest.fixture
def session(on_disk):
    tensors = {
        "a": torch.randn(40, 25),
        "b": torch.randn(30, 20) / 2,
    }
    return Session(on_disk(tensors))


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


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("l1_unstructured", {"score": "balanced", "amount": 0.5}),
        ("l1_unstructured", {"score": "ria", "amount": 0.5, "scope": "global"}),
        ("balanced", {"over": "local"}),
        ("balanced", {"over": "lamp"}),
    ],
)
def test_a_cut_through_scores_of_rows_and_columns_prunes_those_up_to_it(
    session, method, parameters
):
    step = Step(method=METHODS[method](**parameters), targets=("*",))
    shown = session.resolver.resolve(session.recipe.with_steps((EARLIER, step)), Monitor())
    scored = scores_before(shown, "a", 2)
    scores = scored.keys.scores.part(0, 1000).view(40, 25)
    remaining = session.resolver.after(1).mask("a")
    ordered = scores[remaining].sort().values
    histogram = session.score_histograms.found("a", scored, Monitor())
    cut = histogram.score_at(float(ordered[500] + ordered[501]) / 2)
    setting, mask = drag(session, field_for_score, cut, method, **parameters)
    assert setting is not None
    assert abs(int((remaining & ~mask).sum()) - 501) <= 3  # groups of the histogram
    assert scores[remaining & ~mask].max() <= ordered[503]


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


@pytest.fixture
def bert_session(bert):
    return Session(bert)


@pytest.mark.parametrize("amount", [0.25, 3, 0.0])
@pytest.mark.parametrize(
    "fields",
    [
        {"scope": "local"},
        {"scope": "local", "amount_of": "total"},
        {"scope": "global"},
        {"scope": "global", "amount_of": "reach"},
        {"scope": "global", "uniform": True},
    ],
)
def test_a_cut_through_the_scores_of_units_prunes_the_units_of_the_group_up_to_it(
    bert_session, amount, fields
):
    groups = coupled_groups(bert_session.checkpoint, "ffn")
    targets = ("*.intermediate.dense.weight",)
    listed = METHODS["listed_units"](space="ffn", units=[1, 2])
    earlier = Step(method=listed, targets=targets)
    method = METHODS["coupled"](space="ffn", amount=amount, **fields)
    step = Step(method=method, targets=targets)
    before = bert_session.resolver.resolve(
        bert_session.recipe.with_steps((earlier, step)), Monitor()
    )
    ranks = units_of_step(before, groups[0], 2).ranks
    moved = DraggedAmount(bert_session, step, before, 2, targets[0])
    for cut in (-1.0, float(sorted(ranks)[7]), float(max(ranks))):
        field, value = field_for_unit_score(
            moved, group=groups[0].label, value=cut, monitor=Monitor()
        )
        changed = step.model_copy(update={"method": method.model_copy(update={field: value})})
        after = bert_session.resolver.resolve(
            bert_session.recipe.with_steps((earlier, changed)), Monitor()
        )
        pruned = units_of_step(after, groups[0], 2).pruned
        remaining = [unit not in (1, 2) for unit in range(groups[0].size)]
        assert (pruned & remaining).tolist() == ((ranks <= cut) & remaining).tolist()


def test_a_draft_that_does_not_rank_the_units_of_the_group_has_no_setting(bert_session):
    step = Step(method=METHODS["listed_units"](space="ffn", units=[1]), targets=("*.weight",))
    shown = bert_session.resolver.resolve(bert_session.recipe.with_steps((step,)), Monitor())
    moved = DraggedAmount(bert_session, step, shown, 1, "encoder.layer.0.intermediate.dense.weight")
    group = coupled_groups(bert_session.checkpoint, "ffn")[0].label
    assert field_for_unit_score(moved, group=group, value=1.0, monitor=Monitor()) is None


@pytest.mark.parametrize("own", [0.2, 3])
def test_the_cut_of_a_parameter_with_its_own_amount_sets_that_amount(session, own):
    method = METHODS["l1_unstructured"](amount=0.5, amounts={"a": own, "b": 0.1})
    step = Step(method=method, targets=("*",))
    recipe = session.recipe.with_steps((EARLIER, step))
    shown = session.resolver.resolve(recipe, Monitor())
    cut = float(session.checkpoint.read("a").abs().flatten().sort().values[500])
    moved = DraggedAmount(session, step, shown, 2, "a")
    setting = field_for_weight(moved, value=cut, monitor=Monitor())
    amount = 401 if isinstance(own, int) else 401 / 900
    assert moved.for_parameter(setting) == ("amounts", {"b": 0.1, "a": amount})
    uniform = Step(method=METHODS["l1_unstructured"](), targets=("*",))
    shown = session.resolver.resolve(session.recipe.with_steps((EARLIER, uniform)), Monitor())
    moved = DraggedAmount(session, uniform, shown, 2, "a")
    setting = field_for_weight(moved, value=cut, monitor=Monitor())
    assert moved.for_parameter(setting) == ("amount", 401 / 900)
