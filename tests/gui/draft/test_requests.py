"""Changes of the draft that views ask for: dragged cuts, own amounts, shares of other steps."""

from __future__ import annotations

import torch
from pages import choose, is_idle, slide

from prune_gui.session.draft_request import AmountRequest, CutRequest, SharesRequest


def test_dragging_the_cut_of_a_step_edits_the_step(draft, workbench, settle, qtbot, make_step):
    for amount in (0.5, 0.25):
        workbench.edit(lambda session, a=amount: session.add(make_step(amount=a)))
    workbench.choose("features.conv2.weight")
    settle()
    weights = workbench.session.checkpoint.read("features.conv2.weight").abs()
    threshold = float(weights.flatten().sort().values[999])
    draft.change(CutRequest("weight", threshold, step=1))
    assert draft.editing
    qtbot.waitUntil(lambda: draft.form.method().amount == 1000 / weights.numel())
    settle()
    assert workbench.draft_number == 1
    draft.add()
    amounts = [step.method.amount for step in workbench.session.steps]
    assert amounts == [1000 / weights.numel(), 0.25]


def test_a_request_for_a_step_that_is_gone_changes_nothing(draft, workbench, settle, make_step):
    workbench.edit(lambda session: session.add(make_step()))
    settle()
    before = workbench.session.draft
    for request in (
        CutRequest("weight", 0.1, step=2),
        AmountRequest("features.conv2.weight", 0.1, step=2),
        SharesRequest(2),
    ):
        draft.change(request)
        settle()
    assert not draft.editing
    assert workbench.session.draft == before


def test_an_amount_of_one_parameter_is_drafted_added_and_undone(draft, workbench, settle):
    slide(draft, 50)
    settle()
    for amount in (0.3, 0.2):
        draft.change(AmountRequest("features.conv2.weight", amount))
        settle()
    pruned, total = workbench.shown.counts["features.conv2.weight"]
    assert pruned == round(0.2 * total)
    assert workbench.shown.counts["features.conv1.weight"] == (72, 144)
    draft.add()
    assert workbench.session.steps[0].method.amounts == {"features.conv2.weight": 0.2}
    settle()
    draft.change(AmountRequest("features.conv2.weight", None, step=1))
    assert draft.editing
    draft.add()
    assert workbench.session.steps[0].method.amounts is None
    workbench.edit(lambda session: session.undo())
    assert workbench.session.steps[0].method.amounts == {"features.conv2.weight": 0.2}


def test_a_cut_dragged_in_a_parameter_with_its_own_amount_sets_that(
    draft, workbench, settle, qtbot
):
    workbench.choose("features.conv2.weight")
    slide(draft, 50)
    draft.change(AmountRequest("features.conv2.weight", 0.3))
    settle()
    weights = workbench.session.checkpoint.read("features.conv2.weight").abs()
    draft.change(CutRequest("weight", float(weights.flatten().sort().values[999])))
    own = {"features.conv2.weight": 1000 / weights.numel()}
    qtbot.waitUntil(lambda: draft.form.method().amounts == own)
    assert draft.form.method().amount == 0.5


def test_the_shares_of_the_draft_become_its_own_amounts(draft, workbench, settle):
    slide(draft, 50)
    draft.form.set_value("scope", "global")
    settle()
    before = dict(workbench.shown.counts)
    draft.change(SharesRequest())
    settle()
    assert not draft.editing
    method = draft.form.method()
    assert (method.scope, len(method.amounts)) == ("local", 5)
    assert workbench.shown.counts == before


def test_shares_are_taken_into_the_method_of_the_draft(
    draft, demo_window, workbench, settle, make_step
):
    for method in ("lamp", "random_unstructured"):
        workbench.edit(lambda session, m=method: session.add(make_step(m, amount=0.3)))
    settle()
    pruned = [dict(outcome.pruned) for outcome in workbench.shown.outcomes]
    demo_window.stack.list.setCurrentIndex(demo_window.stack.list.model().index(0, 0))
    demo_window.menu_actions["take_shares"].trigger()
    settle()
    assert draft.editing
    assert draft.form.method().name == "l1_unstructured"
    assert workbench.shown.outcomes[0].pruned == pruned[0]
    draft.stop_editing()
    choose(draft.method, "ln_structured")
    settle()
    draft.take_shares(1)
    settle()
    assert draft.editing
    assert draft.form.method().name == "ln_structured"
    assert workbench.shown.outcomes[0].amounts.keys() == pruned[0].keys()


def test_a_disabled_step_has_no_shares_to_take(draft, workbench, settle, make_step):
    failed = []
    workbench.failed.connect(lambda _, error: failed.append(str(error)))
    workbench.edit(lambda session: session.add(make_step()))
    workbench.edit(lambda session: session.switch(0, enabled=False))
    settle()
    draft.take_shares(1)
    assert failed == ["Step 1 prunes nothing, so it has no shares. Enable it."]
    assert not draft.editing


def test_a_dragged_cut_sets_the_threshold(draft, workbench, settle, qtbot):
    workbench.choose("features.conv2.weight")
    choose(draft.method, "threshold")
    draft.form._fields["value"]._line.setText("0.01")
    settle()
    draft.change(CutRequest("weight", 0.02))
    qtbot.waitUntil(lambda: draft.form.method().value == 0.02)
    settle()
    below = workbench.session.checkpoint.read("features.conv2.weight").abs() < 0.02
    assert torch.equal(~workbench.shown.mask("features.conv2.weight"), below)


def test_a_cut_dragged_in_the_picture_of_the_previous_parameter_is_ignored(
    draft, workbench, settle, qtbot
):
    slide(draft, 10)
    settle()
    before, failed = draft.form.method(), []
    workbench.failed.connect(lambda *what: failed.append(what))
    workbench.choose("features.bn1.num_batches_tracked")  # not a target of the draft
    draft.change(CutRequest("weight", 0.02))
    qtbot.waitUntil(lambda: is_idle(workbench))
    assert not failed
    assert draft.form.method() == before
