"""Channels selected in the Norms view, and the resulting draft."""

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QToolButton
from view_page import button

from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.views.bars.data import ScoreOf
from prune_gui.gui.views.norms.view import NormsView
from prune_gui.session.draft_request import ChannelRequest, CutRequest

SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier
PLAIN = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def norms(bench, checkpoint, shown):
    widget = shown(NormsView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return widget


@pytest.fixture
def draft(bench, norms, qtbot):
    widget = DraftPanel(bench)
    qtbot.addWidget(widget)
    widget.targets.show_patterns(["fc.weight"])
    return widget


def _at(norms, x):
    height = norms._row.measured.highest / 100
    return QPointF(norms._plot.mapFromScene(norms._plot.view.mapViewToScene(QPointF(x, height))))


def drag(norms, hand, first, last, modifiers=PLAIN):
    hand.drag(norms._plot, _at(norms, first), _at(norms, last), modifiers)


@pytest.fixture
def click(norms, hand):
    def at(x, modifiers=PLAIN):
        hand.click(norms._plot, _at(norms, x), modifiers)

    return at


def drafted(bench):
    method = bench.draft.current.step.method
    return method.name, getattr(method, "channels", None), bench.draft.current.step.targets


def test_a_click_selects_a_channel_and_a_control_click_adds_one(click, norms):
    click(3)
    assert norms._channels == {3}
    click(5, CONTROL)
    assert norms._channels == {3, 5}
    click(5, CONTROL)
    click(2)
    assert norms._channels == {2}
    click(2)
    assert norms._channels == frozenset()


def test_a_drag_selects_a_range_with_shift_and_pans_without(norms, hand):
    drag(norms, hand, 1, 4, SHIFT)
    assert norms._channels == {1, 2, 3, 4}
    norms._plot.setXRange(2, 5, padding=0)
    drag(norms, hand, 4, 3)
    assert norms._channels == {1, 2, 3, 4}
    assert norms._plot.view.viewRange()[0] == pytest.approx([3, 6], abs=0.2)


def test_the_select_button_makes_every_drag_select(norms, hand):
    norms.findChild(QToolButton).click()
    drag(norms, hand, 6, 4)
    assert norms._channels == {4, 5, 6}


def test_selected_channels_become_a_step_and_more_can_be_added(click, norms, draft, bench):
    assert not button(norms, "Prune").isEnabled()
    click(3)
    click(5, CONTROL)
    assert button(norms, "Prune").text() == "Prune 2"
    button(norms, "Prune").click()
    assert drafted(bench) == ("channels", (3, 5), ("fc.weight",))
    assert norms._channels == frozenset()
    click(0)
    button(norms, "Prune").click()
    bench.until_idle()
    assert drafted(bench) == ("channels", (0, 3, 5), ("fc.weight",))
    assert norms._row.measured.channels.pruned.tolist() == [6, 0, 0, 6, 0, 6, 0, 0]
    draft.commit.click()
    bench.until_idle()
    assert bench.session.steps[0].method.channels == (0, 3, 5)


def test_protecting_removes_channels_from_the_draft_and_the_last_one_ends_it(
    click, norms, draft, bench
):
    click(1)
    click(2, CONTROL)
    assert not button(norms, "Protect").isEnabled()
    button(norms, "Prune").click()
    bench.until_idle()
    click(2)
    button(norms, "Protect").click()
    assert drafted(bench)[1] == (1,)
    bench.until_idle()
    click(1)
    button(norms, "Protect").click()
    assert bench.draft.current is None
    assert not draft.preview.isChecked()


def draft_l2(draft, bench, **parameters):
    step = bench.step("ln_structured", amount=0.5, **parameters)
    draft._show_step(step)
    draft.preview.setChecked(True)
    bench.until_idle()


def test_channels_of_a_draft_of_several_parameters_cannot_be_protected(click, norms, draft, bench):
    draft_l2(draft, bench, targets=["fc.weight", "other.weight"])
    click(0)
    assert not button(norms, "Protect").isEnabled()
    assert "of this parameter only" in button(norms, "Protect").toolTip()


def test_the_keyboard_moves_selects_and_prunes(norms, draft, bench, qtbot):
    plot = norms._plot
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert norms._pointed.text().startswith("channel 1:")
    qtbot.keyClick(plot, Qt.Key.Key_Space)
    qtbot.keyClick(plot, Qt.Key.Key_End)
    qtbot.keyClick(plot, Qt.Key.Key_Left, SHIFT)
    assert norms._channels == {1, 6}
    qtbot.keyClick(plot, Qt.Key.Key_Delete)
    assert drafted(bench)[1] == (1, 6)
    qtbot.keyClick(plot, Qt.Key.Key_Space)
    qtbot.keyClick(plot, Qt.Key.Key_Escape)
    assert norms._channels == frozenset()


def test_the_cut_of_a_structured_draft_can_be_dragged(norms, draft, bench, hand):
    draft_l2(draft, bench)
    ranks = sorted(norms._row.measured.norms)
    assert norms._row.measured.by == ScoreOf(1)
    assert norms._plot._cut.value() == pytest.approx(ranks[3])
    middle = (ranks[5] + ranks[6]) / 2
    hand.drag(norms._plot, hand.point(norms._plot, 4, ranks[3]), hand.point(norms._plot, 4, middle))
    bench.until_idle()
    assert bench.draft.current.step.method.amount == 6 / 8
    bench.until_idle()
    assert norms._row.measured.channels.pruned.tolist().count(6) == 6


def test_the_cut_of_an_added_step_is_shown_and_dragging_it_edits_the_step(
    norms, draft, bench, hand
):
    draft_l2(draft, bench)
    draft.commit.click()
    bench.until_idle()
    assert bench.draft.current is None
    assert norms._norm_box.currentText().startswith("step 1")
    assert norms._plot._cut.label.format.startswith("step 1: up to")
    ranks, plot = sorted(norms._row.measured.norms), norms._plot
    middle = (ranks[5] + ranks[6]) / 2
    hand.drag(plot, hand.point(plot, 4, plot._cut.value()), hand.point(plot, 4, middle))
    bench.until_idle()
    assert bench.draft.current.replaces == 0
    assert bench.draft.current.step.method.amount == 6 / 8


def test_the_draft_scores_are_offered_while_there_is_a_draft(norms, draft, bench):
    draft_l2(draft, bench, dim=1, n=1)
    assert norms._dim_box.currentData() == 1
    assert norms._norm_box.currentText().startswith("draft")
    weights = bench.session.checkpoint.read("fc.weight")
    assert norms._row.measured.norms == pytest.approx(weights.abs().sum(0).numpy())
    norms._dim_box.setCurrentIndex(0)
    bench.until_idle()
    assert norms._norm_box.currentText().startswith("2:")
    draft.preview.setChecked(False)
    bench.until_idle()
    assert not any(
        norms._norm_box.itemText(i).startswith("draft") for i in range(norms._norm_box.count())
    )


def test_a_late_cut_does_not_change_manually_chosen_channels(draft, bench, caplog):
    draft.change(ChannelRequest(0, frozenset({1})))
    bench.until_idle()
    before = drafted(bench)
    draft.change(CutRequest("rank", 1.0))
    bench.until_idle()
    assert drafted(bench) == before
    assert "failed" not in caplog.text


def test_the_current_channel_stays_visible(norms, qtbot):
    norms._plot.setXRange(-0.5, 2.5, padding=0)
    for _ in range(5):
        qtbot.keyClick(norms._plot, Qt.Key.Key_Right)
    low, high = norms._plot.view.viewRange()[0]
    assert low <= norms._current <= high
