"""The panel of the draft, and the stack."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from pages import Form, choose, is_idle, outcome, select, slide, type_targets
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox
from view_page import visible_texts
from waiting import change

from prune_gui.pruning.methods import METHODS
from prune_gui.session.draft_request import ChannelRequest

SHIFT = Qt.KeyboardModifier.ShiftModifier


def test_there_is_no_draft_until_a_field_changes(draft, workbench, settle):
    assert workbench.draft.current is None
    slide(draft, 25)
    assert draft.preview.isChecked()
    settle()
    assert workbench.draft_number == 1
    assert outcome(draft) == "Zeroes 22,340 of 89,360 (25.0 %)."


def test_adding_a_step_ends_the_draft(draft, workbench, settle):
    slide(draft, 40)
    settle()
    draft.add()
    assert workbench.draft.current is None
    assert not draft.preview.isChecked()
    settle()
    assert [step.method.amount for step in workbench.session.steps] == [0.4]
    assert workbench.shown.total[0] == 35_744
    draft.preview.setChecked(True)
    settle()
    assert outcome(draft).endswith("With the other steps, 64.0 % of the targets are pruned.")


def test_a_valid_step_can_be_added_without_a_preview(draft, workbench, qtbot):
    qtbot.mouseClick(draft.commit, Qt.MouseButton.LeftButton)
    [step] = workbench.session.steps
    assert (step.method.amount, step.targets) == (0.5, draft.targets.patterns())


def test_a_step_added_right_after_selecting_is_for_the_selected_parameters(
    draft, workbench, demo_window, qtbot
):
    select(demo_window, "classifier.output.weight")
    draft.add()
    assert workbench.session.steps == ()  # the globs are not known yet
    qtbot.waitUntil(lambda: len(workbench.session.steps) == 1)
    assert workbench.session.steps[0].targets == ("classifier.output.weight",)


def test_a_step_that_waits_for_its_targets_is_not_added_after_other_targets_are_typed(
    draft, workbench, demo_window, settle
):
    select(demo_window, "classifier.output.weight")
    draft.add()
    type_targets(draft, "features.*")
    settle()
    assert workbench.session.steps == ()
    assert draft.targets.patterns() == ("features.*",)


def test_an_incomplete_draft_names_and_marks_what_is_missing(draft, demo_window, active, qtbot):
    add = demo_window.menu_actions["add_step"].trigger
    draft.targets.line.clear()
    qtbot.keyClicks(draft.targets.line, "type:Conv2d size>")
    qtbot.waitUntil(lambda: "write a number after size" in draft.targets.count.text())
    add()
    assert "write a number after size" in draft.obstacle
    assert draft.targets.patterns() == ()
    qtbot.keyClicks(draft.targets.line, "1k")
    qtbot.waitUntil(lambda: draft.targets.count.text().startswith("2 parameters, "))
    choose(draft.method, "threshold")
    add()
    assert draft.obstacle == outcome(draft) == "Below: Required."
    assert draft.form.problem[0].hasFocus()
    assert demo_window.workbench.session.steps == ()


def changed(draft, settle):
    """Change the draft to a step that is not the initial one."""
    choose(draft.method, "ln_structured")
    draft.form.set_value("n", 1)
    settle()


def is_initial(draft):
    return (
        draft.form.method() == METHODS["l1_unstructured"]() and draft.targets.following.isChecked()
    )


def test_opening_a_file_resets_the_draft(draft, workbench, open_file, demo_checkpoint, settle):
    changed(draft, settle)
    open_file(demo_checkpoint)
    assert is_initial(draft)
    assert workbench.draft.current is None


@pytest.fixture
def set_up(draft, workbench, make_step, settle):
    """A step in the stack, and another draft."""
    workbench.edit(lambda session: session.add(make_step(amount=0.25)))
    changed(draft, settle)
    type_targets(draft, "features.conv*.weight")
    settle()
    return workbench.draft.current


def test_the_draft_returns_when_editing_ends(draft, workbench, set_up, qtbot):
    for end in (draft.stop_editing, draft.add, lambda: workbench.edit(lambda s: s.remove(0))):
        draft.edit(0)
        assert workbench.draft.current.replaces == 0
        draft.form.set_value("amount", 0.75)
        end()
        assert (workbench.draft.current, draft.editing) == (set_up, False)


def test_the_draft_returns_when_a_step_that_a_view_made_is_added(draft, workbench, set_up):
    workbench.choose("features.conv2.weight")
    draft.change(ChannelRequest(0, frozenset([1, 5])))
    draft.change(ChannelRequest(0, frozenset([2])))
    draft.add()
    assert workbench.session.steps[-1].method.name == "channels"
    assert workbench.draft.current == set_up


def test_changes_of_the_draft_are_undone_before_the_edits_of_the_stack(
    draft, workbench, set_up, settle
):
    def undo():
        workbench.edit(lambda session: session.undo())
        settle()
        return workbench.draft.current.step if workbench.draft.current else None

    draft.add()
    settle()
    assert workbench.draft.current is None
    assert undo() == set_up.step  # and not in the stack any more
    assert len(workbench.session.steps) == 1
    draft.edit(0)
    draft.stop_editing()  # nothing was changed
    draft.edit(0)
    draft.form.set_value("amount", 0.75)
    draft.stop_editing()
    assert undo().method.amount == 0.75
    assert undo() == workbench.session.steps[0]
    assert draft.editing
    assert (undo(), draft.editing) == (set_up.step, False)
    assert undo().targets != set_up.step.targets
    workbench.edit(lambda session: session.redo())
    assert workbench.draft.current == set_up


def test_that_targets_follow_the_selection_no_more_can_be_undone(draft, workbench):
    draft.targets.following.click()
    assert not workbench.session.draft.follows
    workbench.edit(lambda session: session.undo())
    assert draft.targets.following.isChecked()


def test_ctrl_z_in_a_field_undoes_the_draft(draft, active, workbench, settle, qtbot):
    slide(draft, 25)
    settle()
    box = draft.form.findChild(QAbstractSpinBox)
    box.setFocus()
    qtbot.keyClick(box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert workbench.draft.current is None
    assert draft.form.values["amount"] == 0.5
    qtbot.keyClick(box, Qt.Key.Key_Y, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(box, Qt.Key.Key_Z, SHIFT | Qt.KeyboardModifier.ControlModifier)
    assert workbench.draft.current.step.method.amount == 0.25


def test_the_wheel_scrolls_the_form_and_changes_no_field(draft, demo_window, workbench, qtbot):
    for field in (draft.method, draft.form.inputs[0], draft.form.inputs[1]):
        field.clearFocus()
        middle = QPointF(field.rect().center())
        at, turn = QPointF(field.mapToGlobal(middle)), QPoint(0, -120)
        state = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
        phase = Qt.ScrollPhase.NoScrollPhase
        QApplication.sendEvent(field, QWheelEvent(middle, at, QPoint(), turn, *state, phase, False))
        wheel = Qt.FocusPolicy.WheelFocus  # with it, a wheel of a mouse gives the focus first
        assert field.focusPolicy() & wheel != wheel
    assert draft.form.method() == METHODS["l1_unstructured"]()


def test_a_removed_step_leaves_the_draft_as_it_is(
    draft, demo_window, active, workbench, set_up, qtbot
):
    demo_window.stack.list.setFocus()
    qtbot.keyClick(demo_window.stack.list, Qt.Key.Key_Delete)
    assert workbench.session.steps == ()
    qtbot.keyClick(demo_window.stack.list, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert workbench.session.steps == (set_up.step,)
    assert not draft.editing


@pytest.mark.parametrize("lose", ["follow", "add", "protect"])
def test_channels_picked_by_hand_leave_the_draft_with_their_parameter(
    draft, workbench, demo_window, settle, qtbot, lose
):
    workbench.choose("features.conv2.weight")
    draft.change(ChannelRequest(0, frozenset([1, 5])))
    settle()
    assert draft.form.method() == METHODS["channels"](channels=(1, 5), dim=0)
    if lose == "follow":
        select(demo_window, "classifier.output.weight")
        draft.targets.following.click()
    elif lose == "add":
        draft.add()
    else:
        draft.change(ChannelRequest(0, frozenset([1, 5]), protect=True))
    qtbot.waitUntil(lambda: is_initial(draft))


def test_the_outcome_of_the_previous_draft_stays_visible_until_the_next_is_known(
    draft, workbench, settle, qtbot
):
    draft.form.set_value("amount_of", "reach")
    draft.form.set_value("max_sparsity", 0.3)
    settle()
    messages = (draft.outcome.effect, draft.outcome.limits)
    said = [message.text() for message in messages]
    assert all(said)
    gate = threading.Event()
    workbench.bridge.run_job("gate", lambda monitor: gate.wait(20), lambda _: None)
    slide(draft, 80)
    qtbot.waitUntil(lambda: all(message._faded for message in messages))
    assert [message.text() for message in messages] == said
    gate.set()
    settle()
    assert draft.outcome.limits.text() != said[1]
    assert not any(message._faded or message._fading.isActive() for message in messages)


def test_the_layout_of_the_form_is_stable_when_the_selection_changes(demo_window, draft, qtbot):
    targets = draft.targets
    positions, texts = set(), set()
    for name in ("classifier.output", "features", "classifier.hidden.bias"):
        before = targets.count.text()
        select(demo_window, name)
        qtbot.waitUntil(lambda before=before: targets.count.text() != before)
        draft.grab()  # updates the layout
        texts.add(targets.count.text().count(";"))
        positions.add((targets.height(), draft.outcome.y(), draft.preview.y()))
    assert texts == {0, 1}
    assert len(positions) == 1


def test_a_step_that_fails_shows_the_reason_and_cannot_be_added(draft, workbench, settle):
    type_targets(draft, "features.bn1.weight")
    choose(draft.method, "ln_structured")
    settle()
    assert outcome(draft).startswith("features.bn1.weight has shape [16]; pruning channels needs")
    draft.add()
    assert workbench.session.steps == ()


def test_targets_follow_the_selection_until_the_user_types(demo_window, draft, qtbot):
    select(demo_window, "classifier.output")
    qtbot.waitUntil(lambda: draft.targets.patterns() == ("classifier.output.weight",))
    qtbot.waitUntil(lambda: draft.targets.count.text() == "1 parameter, 640 weights")
    draft.targets.line.clear()
    qtbot.keyClicks(draft.targets.line, "*.bias")
    assert not draft.targets.following.isChecked()
    qtbot.waitUntil(lambda: draft.targets.count.text() == "5 parameters, 186 weights")
    select(demo_window, "features.conv1.weight")
    assert draft.targets.patterns() == ("*.bias",)
    draft.targets.following.click()
    qtbot.waitUntil(lambda: draft.targets.patterns() == ("features.conv1.weight",))


def test_targets_that_are_being_computed_are_not_told_to_be_missing(draft, qtbot):
    draft.targets.restore((), follows=True)
    assert draft.targets.count.text() == ""
    qtbot.waitUntil(lambda: draft.targets.count.text().startswith("5 parameters"))
    draft.targets.show_patterns(())
    assert draft.targets.count.text() == "Choose parameters, or type globs."


def test_protected_targets_are_counted_and_named(draft, workbench, qtbot):
    type_targets(draft, "*.conv*.weight")
    workbench.edit(lambda session: session.protect({"features.conv1.weight"}, on=True))
    count = draft.targets.count
    qtbot.waitUntil(lambda: count.text() == "2 of 3 parameters, 23,040 weights; 1 protected")
    assert count.toolTip() == "features.conv1.weight"


def test_the_targets_of_coupled_units_do_not_exclude_biases(draft, qtbot):
    qtbot.waitUntil(lambda: draft.targets.count.text().endswith("; no biases, norms or embeddings"))
    choose(draft.method, "coupled")
    qtbot.waitUntil(lambda: "pruned in all tensors that have" in draft.targets.count.text())
    assert "weights" not in draft.targets.count.text()  # those of the units are others


def test_the_units_of_a_coupled_step_are_of_a_kind_that_the_checkpoint_has(draft, workbench, qtbot):
    choose(draft.method, "coupled")
    qtbot.waitUntil(lambda: draft.form.values["space"] == "channels")
    qtbot.waitUntil(lambda: not draft.obstacle and is_idle(workbench))
    assert workbench.draft.current.step.method.space == "channels"
    box = Form(draft.form).row("space").findChild(QComboBox)
    offered = [box.itemData(at) for at in range(box.count()) if box.model().item(at).isEnabled()]
    assert offered == ["channels"]


def test_a_selected_module_shows_its_first_weight(demo_window, draft, workbench):
    select(demo_window, "features.conv2")
    assert workbench.chosen == "features.conv2.weight"
    assert workbench.draft.current is None
    select(demo_window, "features")
    assert workbench.chosen == "features.conv2.weight"


def test_a_cancelled_outcome_names_the_key_that_resolves_again(draft, workbench, qtbot, settle):
    gate = threading.Event()
    workbench.bridge.run_job("gate", lambda monitor: gate.wait(20), lambda _: None)
    slide(draft, 30)
    with change(qtbot, workbench, "stopped"):
        workbench.bridge.cancel(workbench.resolve_ticket)
    assert "F5" in outcome(draft)
    gate.set()
    workbench.resolve()
    settle()
    assert outcome(draft).startswith("Zeroes")


def test_a_late_picture_says_so_and_the_wait_ends_when_the_preview_is_turned_off(
    demo_window, draft, workbench, qtbot, settle
):
    select(demo_window, "features.conv2")
    settle()
    view = demo_window.views.front
    qtbot.waitUntil(lambda: view.picture() is not None, timeout=30_000)  # which can become late
    gate = threading.Event()
    workbench.bridge.run_job("gate", lambda monitor: gate.wait(60), lambda _: None)
    slide(draft, 30)

    def is_late() -> bool:
        return any(text.startswith("Out of date") for text in visible_texts(view))

    qtbot.waitUntil(is_late, timeout=30_000)
    draft.preview.setChecked(False)
    assert not workbench.bridge.waits_for(workbench.resolve_ticket)
    assert workbench.resolved.draft is None
    gate.set()
    qtbot.waitUntil(lambda: not is_late(), timeout=30_000)
    settle()
    assert workbench.draft_number is None


def test_there_is_no_draft_without_targets(draft, workbench):
    slide(draft, 10)
    type_targets(draft, "")
    assert workbench.draft.current is None
    assert draft.targets.count.text() == "Choose parameters, or type globs."
    assert not outcome(draft)


def test_an_edited_step_is_previewed_in_its_place_and_replaced(draft, workbench, settle, make_step):
    first, second = make_step(amount=0.5), make_step(amount=0.25)
    workbench.edit(lambda session: session.add(first))
    workbench.edit(lambda session: session.add(second))
    draft.edit(0)
    assert draft.commit.text() == "Appl&y"
    slide(draft, 20)
    settle()
    assert workbench.draft_number == 1
    assert len(workbench.shown.recipe.steps) == 2
    draft.add()
    assert [step.method.amount for step in workbench.session.steps] == [0.2, 0.25]
    assert workbench.session.history.undo_label == "Edit step 1: 50 % → 20 %"
    assert not draft.editing


def test_editing_a_step_makes_the_focus_in_the_form_visible(
    demo_window, active, draft, workbench, make_step
):
    workbench.edit(lambda session: session.add(make_step()))
    demo_window.stack.list.setFocus()
    demo_window.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange, False)
    draft.edit(0)
    assert draft.method.hasFocus()
    assert demo_window.testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)


def test_escape_ends_editing_without_a_change(draft, workbench, make_step, qtbot):
    workbench.edit(lambda session: session.add(make_step()))
    before = workbench.session.steps
    draft.edit(0)
    draft.form.set_value("amount", 0.9)
    qtbot.keyClick(draft.method, Qt.Key.Key_Escape)
    assert not draft.editing
    assert workbench.draft.current is None
    assert workbench.session.steps == before


def test_editing_ends_when_the_step_is_changed_elsewhere(draft, workbench, make_step):
    workbench.edit(lambda session: session.add(make_step()))
    draft.edit(0)
    workbench.edit(lambda session: session.remove(0))
    assert not draft.editing
    assert workbench.draft.current is None


def test_the_first_of_several_broken_steps_can_be_fixed(draft, workbench, settle, make_step):
    for _ in range(2):
        workbench.edit(lambda s: s.add(make_step("ln_structured", "*.conv1.weight", dim=9)))
    draft.edit(0)
    draft.form._fields["dim"]._box.setEditText("0")
    settle()
    assert not draft.obstacle
    assert "Step 2: features.conv1.weight has 4 dimensions" in draft.outcome.remarks.text()
    draft.add()
    settle()
    assert workbench.resolved.error.step == 2


@pytest.mark.parametrize("method", ["l1_unstructured", "ln_structured"])
def test_the_tab_key_moves_from_top_to_bottom(draft, method, qtbot):
    choose(draft.method, method)
    draft.form.fold.open()
    qtbot.waitUntil(lambda: all(widget.isVisible() for widget in draft.form.inputs))
    draft.targets.line.setFocus()
    tops = []
    while draft.focusWidget() is not draft.preview:
        at = draft.focusWidget()
        tops.append(at.mapTo(draft, at.rect().topLeft()).y())
        assert draft.focusNextChild()
    same_row = draft.fontMetrics().height() // 2
    assert all(lower > upper - same_row for upper, lower in pairwise(tops))
    assert len(tops) > len(draft.form._fields)


def test_a_condition_is_completed_in_the_middle_of_a_line(draft, active, qtbot):
    line = draft.targets.line
    line.setFocus()
    line.setText("*.weight , !*conv1*")
    line.setCursorPosition(len("*.weight "))
    qtbot.keyClicks(line, "t")
    words = line.completer()
    qtbot.waitUntil(lambda: words.model().rowCount() > 0)
    qtbot.keyClicks(line, "ype:con")
    assert words.currentCompletion() == "*.weight type:Conv2d, !*conv1*"
    qtbot.keyClick(words.popup(), Qt.Key.Key_Down)
    qtbot.keyClick(words.popup(), Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: draft.targets.count.text().startswith("2 parameters"))
    assert line.text() == "*.weight type:Conv2d, !*conv1*"
    line.setCursorPosition(line.text().index(","))
    qtbot.keyClick(line, Qt.Key.Key_Backspace)
    qtbot.keyClicks(line, "d")
    assert words.completionCount() == 0  # it is typed already
