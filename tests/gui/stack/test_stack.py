"""The list of steps: in the window, its model, and the cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics
from PySide6.QtWidgets import QComboBox, QInputDialog, QListView, QStyleOptionViewItem

from prune_gui.gui.draft.amount_fields import NumberBox
from prune_gui.gui.stack.stack_model import CARD, StackModel
from prune_gui.gui.stack.stack_panel import StepDelegate, fitted_lines
from prune_gui.gui.widgets.theme import Theme
from prune_gui.raster.colours import LIGHT
from prune_gui.recipe.selector import patterns_in


class TestStack:
    @pytest.fixture
    def stack(self, demo_window, workbench, make_step):
        for amount in (0.1, 0.2, 0.3):
            workbench.edit(lambda session, a=amount: session.add(make_step(amount=a)))
        return demo_window.stack

    @staticmethod
    def amounts(workbench):
        return [step.method.amount for step in workbench.session.steps]

    def test_a_new_step_is_the_current_one(self, stack):
        assert stack.current == 2

    @pytest.mark.parametrize(
        ("name", "left", "label", "current"),
        [
            ("move_up", [0.2, 0.1, 0.3], "Move step 2 to position 1", 0),
            ("move_down", [0.1, 0.3, 0.2], "Move step 2 to position 3", 2),
            ("duplicate", [0.1, 0.2, 0.2, 0.3], "Duplicate step 2", 2),
            ("remove", [0.1, 0.3], "Remove step 2", 1),
            ("switch_step", [0.1, 0.2, 0.3], "Switch off step 2", 1),
            ("clear_stack", [], "Remove all steps", None),
        ],
    )
    def test_each_action_is_one_undo_entry(
        self, stack, demo_window, workbench, name, left, label, current
    ):
        stack.list.setCurrentIndex(stack._model.index(1))
        demo_window.menu_actions[name].trigger()
        assert self.amounts(workbench) == left
        assert demo_window.menu_actions["undo"].text() == f"&Undo: {label}"
        assert stack.current == current
        demo_window.menu_actions["undo"].trigger()
        assert self.amounts(workbench) == [0.1, 0.2, 0.3]
        assert demo_window.menu_actions["redo"].text() == f"&Redo: {label}"

    def test_the_first_step_cannot_move_up_nor_the_last_down(self, stack, demo_window):
        stack.list.setCurrentIndex(stack._model.index(0))
        assert not demo_window.menu_actions["move_up"].isEnabled()
        stack.list.setCurrentIndex(stack._model.index(2))
        assert not demo_window.menu_actions["move_down"].isEnabled()

    def test_space_disables_and_enables_a_step(self, stack, workbench, qtbot):
        stack.list.setFocus()
        stack.list.setCurrentIndex(stack._model.index(1))
        qtbot.keyClick(stack.list, Qt.Key.Key_Space)
        assert [step.enabled for step in workbench.session.steps] == [True, False, True]
        assert workbench.session.history.undo_label == "Switch off step 2"
        qtbot.keyClick(stack.list, Qt.Key.Key_Space)
        assert [step.enabled for step in workbench.session.steps] == [True, True, True]

    @pytest.mark.parametrize(
        ("row", "before", "left"), [(0, 3, [0.2, 0.3, 0.1]), (2, 0, [0.3, 0.1, 0.2])]
    )
    def test_a_dragged_step_is_moved(self, stack, workbench, row, before, left):
        assert stack._model.moveRow(QModelIndex(), row, QModelIndex(), before)
        assert self.amounts(workbench) == left
        shown = [stack._model.index(i).data() for i in range(3)]
        assert shown == [f"L1 unstructured, local, {amount * 100:.0f} %" for amount in left]

    def test_each_step_shows_its_outcome(self, stack, settle):
        settle()
        outcomes = [line.rpartition("\n")[2] for line in self.accessible_texts(stack)]
        assert outcomes[0] == "zeroes 2,318 of 23,184 (10.0 %)"
        assert outcomes[2].startswith("zeroes 5,0")

    def test_a_failed_step_shows_the_reason_and_later_steps_wait(
        self, stack, workbench, settle, make_step
    ):
        workbench.edit(lambda session: session.replace(1, make_step("identity", "nothing")))
        settle()
        outcomes = [line.rpartition("\n")[2] for line in self.accessible_texts(stack)]
        assert outcomes[1] == "no parameter matches nothing. Change the targets of the step."
        assert outcomes[2] == "waits for step 2"
        workbench.edit(lambda session: session.switch(2, enabled=False))
        settle()
        assert self.accessible_texts(stack)[2].rpartition("\n")[2] == "switched off"

    @staticmethod
    def accessible_texts(stack):
        role = Qt.ItemDataRole.AccessibleTextRole
        return [stack._model.index(i).data(role) for i in range(3)]

    def test_removing_a_step_removes_only_its_row(self, stack, workbench, qtmodeltester):
        qtmodeltester.check(stack._model)
        removed = []
        stack._model.rowsRemoved.connect(lambda _, first, last: removed.append((first, last)))
        workbench.edit(lambda session: session.remove(1))
        assert removed == [(1, 1)]

    @pytest.mark.parametrize("begin", ["double click", "F2"])
    def test_an_amount_is_edited_in_its_card_as_one_undo_entry(
        self, stack, workbench, demo_window, settle, qtbot, begin
    ):
        settle()
        index = stack._model.index(1)
        stack.list.setCurrentIndex(index)
        if begin == "F2":
            demo_window.menu_actions["edit_amount"].trigger()
        else:
            option = QStyleOptionViewItem()
            stack.list.initViewItemOption(option)
            option.rect = stack.list.visualRect(index)
            at = stack.list._delegate.amount_rect(option, index).center()
            qtbot.mouseDClick(stack.list.viewport(), Qt.MouseButton.LeftButton, pos=at)
        assert not demo_window.draft.editing
        [editor] = stack.list.findChildren(NumberBox)
        assert editor.text() == "20 %"
        qtbot.keyClicks(editor, "0.7")
        qtbot.keyClick(editor, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: self.amounts(workbench) == [0.1, 0.7, 0.3])  # committed queued
        assert workbench.session.history.undo_label == "Edit step 2: 20 % → 70 %"
        workbench.edit(lambda session: session.undo())
        assert self.amounts(workbench) == [0.1, 0.2, 0.3]

    def test_an_amount_above_100_percent_is_refused_in_its_card(self, stack, workbench):
        failed = []
        workbench.failed.connect(lambda _, error: failed.append(str(error)))
        index = stack._model.index(1)
        assert not stack._model.setData(index, 1.5, Qt.ItemDataRole.EditRole)
        assert failed == ["150 % is too much: a share is at most 100 %."]
        assert self.amounts(workbench) == [0.1, 0.2, 0.3]

    def test_a_step_without_an_amount_has_none_to_edit(self, stack, workbench, make_step):
        workbench.edit(lambda session: session.add(make_step("n_m")))
        assert stack.current == 3
        assert not stack.has_amount

    def test_double_click_loads_a_step_into_the_form(self, stack, demo_window):
        stack.list.activated.emit(stack._model.index(1))
        assert demo_window.draft.editing
        kind = demo_window.draft.form._fields["amount"].findChild(QComboBox)
        assert kind.currentText() == "share"
        assert demo_window.draft.form.method().amount == 0.2

    def test_notes_of_a_step_are_shown_in_additional_lines(
        self, stack, workbench, make_step, settle
    ):
        step = make_step(amount=0.8, scope="global", max_sparsity=0.6, amount_of="reach")
        workbench.edit(lambda session: session.add(step))
        settle()
        rows = [stack._model.index(row) for row in range(4)]
        assert [index.data(CARD).limits for index in rows[:3]] == [[], [], []]
        assert rows[3].data(CARD).limits[0].startswith("limited to 60 % by max sparsity")
        stack.list.executeDelayedItemsLayout()
        plain, noted = (stack.list.visualRect(index).height() for index in rows[2:])
        assert noted > plain + stack.list.fontMetrics().height()


@pytest.fixture
def history(demo_window, workbench, make_step, settle):
    for amount in (0.1, 0.2, 0.3):
        workbench.edit(lambda session, amount=amount: session.add(make_step(amount=amount)))
    settle()
    return demo_window.history


def texts(some):
    return [some.item(row).text() for row in range(some.count())]


def test_a_click_goes_to_any_entry_and_keeps_the_later_ones(history, workbench):
    assert len(texts(history.entry_list)) == 4
    history.entry_list.itemClicked.emit(history.entry_list.item(1))
    assert len(workbench.session.steps) == 1
    assert history.entry_list.currentRow() == 1
    history.entry_list.itemClicked.emit(history.entry_list.item(3))
    assert len(workbench.session.steps) == 3


def test_a_named_state_survives_undo_and_returning_is_an_undo_entry(
    history, workbench, monkeypatch, make_step
):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: ("three steps ", True))
    history.name.click()
    assert texts(history.named) == ["three steps  (3 steps, current)"]
    history.entry_list.itemClicked.emit(history.entry_list.item(0))
    workbench.edit(lambda session: session.add(make_step(amount=0.9)))
    assert texts(history.named) == ["three steps  (3 steps)"]
    assert not history.back.isEnabled()
    history.named.setCurrentRow(0)
    history.back.click()
    assert len(workbench.session.steps) == 3
    assert workbench.session.history.undo_label == "Return to three steps"
    history.named.setCurrentRow(0)
    history.remove.click()
    assert texts(history.named) == []


def test_an_empty_name_saves_nothing(history, workbench, monkeypatch):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: (" ", True))
    history.name.click()
    assert not workbench.session.named_states


def test_replacing_a_named_state_is_confirmed(history, workbench, monkeypatch, answer_box):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: ("mine", True))
    history.name.click()
    workbench.edit(lambda session: session.undo())
    asked = answer_box("Cancel")
    history.name.click()
    assert asked == ["A state mine already exists. Replace it?"]
    assert texts(history.named) == ["mine  (3 steps)"]
    answer_box("Replace")
    history.name.click()
    assert texts(history.named) == ["mine  (2 steps, current)"]


def test_the_selected_state_stays_selected_when_the_stack_changes(history, workbench, monkeypatch):
    for name in ("a", "b"):
        monkeypatch.setattr(QInputDialog, "getText", lambda *_, name=name: (name, True))
        history.name.click()
    history.named.setCurrentRow(1)
    history.back.setFocus()
    workbench.edit(lambda session: session.undo())
    assert history.named.currentRow() == 1
    history.back.click()
    assert history.back.isEnabled()
    assert history.window().focusWidget() is history.back


CAPPED = {"amount": 0.8, "max_sparsity": 0.6, "scope": "global", "amount_of": "reach"}
"""Parameters of a step that cannot reach its amount."""


@pytest.fixture
def model(workbench, open_file, demo_checkpoint):
    open_file(demo_checkpoint)
    made = StackModel(workbench)
    yield made
    made.deleteLater()


@pytest.fixture
def noted(model, workbench, make_step, settle):
    for parameters in ({"amount": 0.1}, CAPPED, {"amount": 0.2}):
        step = make_step(**parameters)
        workbench.edit(lambda session, step=step: session.add(step))
    settle()
    assert notes(model) == [False, True, False]
    return model


def notes(model):
    return [bool(model.index(row).data(CARD).limits) for row in range(model.rowCount())]


def test_a_limit_at_work_is_information_and_an_empty_layer_a_warning(
    noted, workbench, make_step, settle
):

    def counts():
        card = noted.card(1)
        return len(card.limits), len(card.warnings)

    assert counts() == (1, 0)
    workbench.edit(lambda session: session.replace(1, make_step(amount=1.0)))
    settle()
    assert counts() == (0, 1)


def test_a_protected_target_is_information(noted, workbench, settle):
    workbench.edit(lambda session: session.protect({"features.conv2.weight"}, on=True))
    settle()
    assert "protected, not pruned: 1 target" in noted.card(2).limits
    assert not noted.card(2).warnings


def test_a_note_stays_until_the_outcome_of_the_edited_step_is_known(
    noted, workbench, make_step, settle
):
    workbench.edit(lambda session: session.replace(1, make_step(amount=0.3)))
    assert not noted.index(1).data(CARD).is_known
    assert notes(noted) == [False, True, False]
    settle()
    assert noted.index(1).data(CARD).is_known
    assert notes(noted) == [False, False, False]


@pytest.mark.parametrize(
    ("act", "there"),
    [
        (lambda session: session.remove(0), [True, False]),
        (lambda session: session.duplicate(0), [False, False, True, False]),
        (lambda session: session.move(1, 2), [False, False, True]),
        (lambda session: session.undo(), [False, True]),
    ],
)
def test_a_note_moves_with_its_step(noted, workbench, act, there):
    workbench.edit(act)
    assert notes(noted) == there


def test_a_note_moves_with_a_dragged_step(noted):
    assert noted.moveRow(QModelIndex(), 1, QModelIndex(), 0)
    assert notes(noted) == [True, False, False]


def test_an_outdated_warning_is_faint(noted, workbench, make_step, settle, qtbot, qapp):
    workbench.edit(lambda session: session.replace(1, make_step(amount=1.0)))
    settle()
    theme = Theme(qapp, "light")
    view = QListView()
    qtbot.addWidget(view)
    view.setModel(noted)
    view.setItemDelegate(StepDelegate(view))
    view.resize(300, 400)

    def warns():
        image = view.grab().toImage()
        shade = QColor(LIGHT.warning).rgb()
        pixels = ((x, y) for x in range(image.width()) for y in range(image.height()))
        return any(image.pixel(*pixel) == shade for pixel in pixels)

    assert warns()
    workbench.edit(lambda session: session.replace(0, make_step(amount=0.3)))
    assert not warns()
    theme.deleteLater()


def test_a_tool_tip_wraps_all_targets_into_short_lines(model, workbench, make_step):
    globs = [f"features.conv{number}.weight" for number in range(40)]
    workbench.edit(lambda session: session.add(make_step("identity", *globs)))
    tip = model.index(0).data(Qt.ItemDataRole.ToolTipRole).splitlines()
    assert max(map(len, tip)) <= 80
    assert patterns_in(" ".join(tip[1:-1])) == tuple(globs)


def test_an_amount_that_counts_for_no_target_is_neither_shown_nor_edited(
    model, workbench, make_step, settle
):
    name = "features.conv1.weight"
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", name, amount=0.5)))
    settle()
    assert model.index(0).data(CARD).amount == "50 %"
    assert model.flags(model.index(0)) & Qt.ItemFlag.ItemIsEditable
    own = make_step("l1_unstructured", name, amount=0.5, amounts={name: 0.25})
    workbench.edit(lambda session: session.replace(0, own))
    settle()
    assert not model.index(0).data(CARD).amount
    assert not model.flags(model.index(0)) & Qt.ItemFlag.ItemIsEditable


TEXT = "encoder.layer.*.attention.self.query.weight, !*.bias, !*.LayerNorm.*, pooler.dense.weight"


def test_a_text_that_fits_in_two_lines_is_complete(qapp):
    width = QFontMetrics(QFont()).horizontalAdvance(TEXT) * 2 // 3
    lines = fitted_lines(TEXT, QFont(), width, 2)
    assert len(lines) == 2
    assert "".join(lines).replace(" ", "") == TEXT.replace(" ", "")


def test_a_longer_text_is_elided_in_the_middle_of_its_last_line(qapp):
    first, last = fitted_lines(TEXT * 5, QFont(), 300, 2)
    assert TEXT.startswith(first)
    assert "…" in last[1:-1]
    assert last.endswith("weight")


@pytest.mark.parametrize("width", range(80, 240, 8))
def test_no_line_starts_with_a_percent_sign(qapp, width):
    lines = fitted_lines("zeroes 5,308 of 10,616 (50.0 %)", QFont(), width, 4)
    assert not any(line.startswith("%") for line in lines)


@given(st.text(st.sampled_from("abcW._*!, 0\u4e2d\u6587")), st.integers(60, 500), st.integers(1, 3))
def test_no_line_is_wider_than_the_card(qapp, text, width, max_lines):
    lines = fitted_lines(text, QFont(), width, max_lines)
    assert len(lines) <= max_lines
    assert all(QFontMetrics(QFont()).horizontalAdvance(line) <= width + 1 for line in lines)


def test_notes_are_removed_when_another_file_is_opened(noted, open_file, demo_checkpoint, tmp_path):
    seen = []
    noted.dataChanged.connect(lambda: seen.append(any(notes(noted))))
    recipe = noted._workbench.session.recipe
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml())
    open_file(demo_checkpoint, path)
    assert seen == [False, True]


def test_a_name_of_a_target_is_divided_between_modules(qapp):
    name = "encoder.layer.*.intermediate.dense.weight"
    width = QFontMetrics(QFont()).horizontalAdvance(name) - 10
    assert fitted_lines(name, QFont(), width, 3) == [
        "encoder.layer.*.intermediate.dense.",
        "weight",
    ]
    assert fitted_lines(name, QFont(), 10 * width, 3) == [name]


def test_a_step_that_fails_is_in_sight_with_the_whole_reason(
    demo_window, workbench, make_step, settle
):
    steps = [make_step(amount=0.1) for _ in range(6)]
    steps.append(make_step("l1_unstructured", "features.conv2.weigth", amount=0.5))
    workbench.edit(lambda session: session.take_steps((*steps, *steps)))
    settle()
    stack = demo_window.stack.list
    failed = stack.model().index(6)
    option = QStyleOptionViewItem()
    stack.initViewItemOption(option)
    option.rect = stack.visualRect(failed)
    assert stack.viewport().rect().contains(option.rect)
    lines = [line.text for line in stack.itemDelegate()._card(option, failed).lines]
    reason = workbench.resolved.error.reason
    assert reason.replace(" ", "") in "".join(lines).replace(" ", "")
    stack.scrollToTop()
    stack.setCurrentIndex(stack.model().index(0))
    workbench.edit(lambda session: session.switch(0, enabled=False))
    settle()
    assert stack.verticalScrollBar().value() == 0, "it is not scrolled to again"
