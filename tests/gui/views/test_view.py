import pytest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QGraphicsView, QLabel, QMenu
from shiboken6 import delete

from prune_gui.errors import CheckpointError
from prune_gui.gui.views import DistributionView, MaskView, NormsView, WeightsView
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.theme import DARK, LIGHT, Theme


def mask_view(bench):
    return MaskView(bench, Viewport())


def weights_view(bench):
    return WeightsView(bench, Viewport())


VIEWS_OF_STEPS = pytest.mark.parametrize("kind", [mask_view, DistributionView, NormsView])
VIEWS = pytest.mark.parametrize("kind", [mask_view, weights_view, DistributionView, NormsView])


def _text(widget):
    return [label.text() for label in widget.findChildren(QLabel) if label.isVisible()]


@VIEWS
def test_a_view_says_why_there_is_nothing_to_see(kind, bench, checkpoint, shown):
    made = shown(kind(bench))
    assert any("Nothing is open" in text for text in _text(made))
    bench.open_and_choose(checkpoint, "steps")
    assert any("cannot be pruned: integer" in text for text in _text(made))


@VIEWS_OF_STEPS
def test_a_view_shows_the_stack_and_the_draft_live(kind, bench, checkpoint, shown, share_of):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    assert share_of(made, LIGHT.kept) > 0.1
    assert share_of(made, LIGHT.draft) == 0
    bench.add(bench.step(amount=0.5))
    assert share_of(made, LIGHT.steps[0]) > 0.02
    bench.draft_step(bench.step("random_unstructured", amount=0.5))
    assert share_of(made, LIGHT.draft) > 0.01
    bench.draft_step(None)
    assert share_of(made, LIGHT.draft) < 0.001


@pytest.mark.slow
@VIEWS_OF_STEPS
@pytest.mark.parametrize("name", ["fc.weight", "fc.bias", "scale", "conv.weight", "odd.weight"])
def test_parameters_of_every_shape_can_be_looked_at(kind, name, bench, checkpoint, shown, share_of):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, name)
    assert made.subject.name == name
    assert share_of(made, LIGHT.kept) > 0.01


@VIEWS
def test_a_view_that_nobody_sees_does_no_work(kind, bench, checkpoint, shown, monkeypatch):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    made.hide()
    looks = []
    monkeypatch.setattr(bench, "look", lambda *arguments: looks.append(arguments))
    bench.choose("fc.bias")
    bench.add(bench.step(amount=0.5))
    assert looks == []
    made.show()
    assert len(looks) == 1


@VIEWS_OF_STEPS
def test_a_picture_that_comes_too_late_is_not_shown(
    kind, bench, checkpoint, shown, monkeypatch, share_of
):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    before = share_of(made, LIGHT.kept)
    looks = []
    monkeypatch.setattr(bench, "look", lambda *arguments: looks.append(arguments))
    bench.choose("conv.weight")
    bench.choose("steps")
    _, _, then = looks[0]
    then(None)
    assert before > 0
    assert share_of(made, LIGHT.kept) == 0


@VIEWS
def test_a_picture_for_a_window_that_is_gone_does_no_harm(
    kind, bench, checkpoint, qtbot, monkeypatch
):
    made = kind(bench)
    with qtbot.waitExposed(made):
        made.show()
    bench.open_and_choose(checkpoint, "fc.weight")
    looks = []
    monkeypatch.setattr(bench, "look", lambda *arguments: looks.append(arguments))
    bench.choose("other.weight")
    delete(made)
    _, _, then = looks[0]
    then(None)


@VIEWS
def test_what_cannot_be_read_is_said_in_place_of_the_picture(
    kind, bench, checkpoint, shown, monkeypatch
):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")

    def fail(*arguments):
        raise CheckpointError("The file is gone.")

    for name in ("read_key", "view_key"):
        monkeypatch.setattr(type(bench.session.checkpoint), name, fail)
    monkeypatch.setattr(type(bench.resolved.resolution), "pruned_by_within", fail)
    bench.add(
        bench.step("random_unstructured", targets=["*.bias"]), bench.step("random_unstructured")
    )
    bench.choose("fc.bias")
    bench.until_idle()
    assert "The file is gone." in _text(made)


@VIEWS
def test_long_work_is_announced_and_short_work_does_not_flicker(
    kind, bench, checkpoint, shown, monkeypatch, qtbot
):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    monkeypatch.setattr(bench, "look", lambda *arguments: None)
    made._impatience.setInterval(1)
    bench.choose("conv.weight")
    qtbot.waitUntil(lambda: any("Looking at conv.weight" in text for text in _text(made)))


@VIEWS
@pytest.mark.parametrize("hurried", [True, False])
def test_the_picture_is_there_again_when_one_returns_before_the_next_is_made(
    kind, bench, checkpoint, shown, monkeypatch, qtbot, hurried
):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    with monkeypatch.context() as held:
        held.setattr(bench, "look", lambda *arguments: None)
        made._impatience.setInterval(10_000 if hurried else 1)
        bench.choose("conv.weight")
        if not hurried:
            qtbot.waitUntil(lambda: any("Looking at conv.weight" in text for text in _text(made)))
    made._impatience.setInterval(10_000 if hurried else 1)
    bench.choose("fc.weight")
    assert not hurried or not made._impatience.isActive()
    bench.until_idle()
    assert not any("Looking at" in text for text in _text(made))
    assert made.picture() is not None


@VIEWS_OF_STEPS
def test_while_new_figures_come_the_old_picture_stays(
    kind, bench, checkpoint, shown, monkeypatch, qtbot, share_of
):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    before = share_of(made, LIGHT.kept)
    monkeypatch.setattr(bench, "look", lambda *arguments: None)
    made._impatience.setInterval(1)
    bench.add(bench.step(amount=0.5))
    qtbot.wait(20)
    assert share_of(made, LIGHT.kept) == pytest.approx(before, rel=0.1)


@VIEWS_OF_STEPS
def test_a_picture_follows_the_theme(kind, bench, checkpoint, shown, qapp, share_of):
    palette, style = qapp.palette(), qapp.style().objectName()
    theme = Theme(qapp, "light")
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    assert share_of(made, LIGHT.kept) > 0.1
    theme.use("dark")
    bench.until_idle()
    assert share_of(made, DARK.kept) > 0.1
    assert share_of(made, LIGHT.kept) == share_of(made, LIGHT.background) == 0
    theme.deleteLater()
    qapp.setStyle(style)
    qapp.setPalette(palette)


@VIEWS
def test_no_menu_of_the_plotting_library_is_seen(kind, bench, checkpoint, shown):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    assert not any(menu.isVisible() for menu in made.findChildren(QMenu))


@VIEWS
def test_every_control_has_a_name_for_those_who_do_not_see_it(kind, bench, shown):
    made = shown(kind(bench))
    assert made.accessibleName()
    assert made.findChild(QGraphicsView).accessibleName()
    assert all(button.text() for button in made.findChildren(QAbstractButton))
    assert all(combo.accessibleName() for combo in made.findChildren(QComboBox))
