from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics
from PySide6.QtWidgets import QListView

from prune_gui.gui.stack.stack_model import CARD, StackModel
from prune_gui.gui.stack.stack_panel import StepDelegate, fitted_lines
from prune_gui.gui.widgets.theme import Theme
from prune_gui.raster.colours import LIGHT
from prune_gui.recipe.selector import patterns_in

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
