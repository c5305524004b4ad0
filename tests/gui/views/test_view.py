import threading

import pytest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QGraphicsView, QTableView
from shiboken6 import delete
from view_page import visible_texts

from prune_gui.engine import Job
from prune_gui.errors import CheckpointError
from prune_gui.gui.views.distribution.view import DistributionView
from prune_gui.gui.views.groups.view import GroupsView
from prune_gui.gui.views.layers.view import LayersView
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask import view as mask_module
from prune_gui.gui.views.norms.view import NormsView
from prune_gui.gui.views.weights import view as weights_module
from prune_gui.gui.widgets.theme import Theme
from prune_gui.pruning.kernels.numba_control import COMPILATIONS
from prune_gui.raster.colours import DARK, LIGHT


def mask_view(bench):
    return mask_module.MaskView(bench, Viewport())


def weights_view(bench):
    return weights_module.WeightsView(bench, Viewport())


VIEWS_OF_STEPS = pytest.mark.parametrize("kind", [mask_view, DistributionView, NormsView])
VIEWS = pytest.mark.parametrize("kind", [mask_view, weights_view, DistributionView, NormsView])
MAP_AND_PLOT = pytest.mark.parametrize("kind", [mask_view, NormsView])
"""A view of each kind of picture, for what all views share."""


@pytest.fixture
def view(kind, bench, checkpoint, shown):
    made = shown(kind(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return made


def held_jobs(bench, monkeypatch):
    """Return a list of the jobs that are requested from now on, which do not run."""
    requests = []
    monkeypatch.setattr(bench.bridge, "run_job", lambda *arguments, **_: requests.append(arguments))
    return requests


@VIEWS
def test_a_view_shows_why_there_is_no_picture(kind, bench, checkpoint, shown):
    view = shown(kind(bench))
    assert any("Nothing is open" in text for text in visible_texts(view))
    bench.open_and_choose(checkpoint, "steps")
    assert any("cannot be pruned: integer" in text for text in visible_texts(view))


@VIEWS_OF_STEPS
def test_a_view_follows_the_stack_and_the_draft(view, bench, share_of):
    assert share_of(view, LIGHT.kept) > 0.1
    assert share_of(view, LIGHT.draft) == 0
    bench.add(bench.step(amount=0.5))
    assert share_of(view, LIGHT.steps[0]) + share_of(view, LIGHT.of(1)) > 0.01
    bench.draft_step(bench.step("random_unstructured", amount=0.5))
    assert share_of(view, LIGHT.draft) + share_of(view, LIGHT.of(2, draft=2)) > 0.01
    bench.draft_step(None)
    assert share_of(view, LIGHT.draft) < 0.001


@MAP_AND_PLOT
def test_a_hidden_view_does_no_work(view, bench, monkeypatch):
    view.hide()
    requests = held_jobs(bench, monkeypatch)
    bench.choose("fc.bias")
    bench.add(bench.step(amount=0.5))
    assert requests == []
    view.show()
    assert len(requests) == 1


@MAP_AND_PLOT
def test_a_step_on_another_parameter_redraws_nothing(view, bench, shown, monkeypatch):
    requests = held_jobs(bench, monkeypatch)
    bench.add(bench.step(targets=["other.weight"]))
    assert bench.shown.counts["other.weight"] == (24, 48)
    assert requests == []
    assert view.subject.resolution is not bench.shown
    bench.add(bench.step())
    assert view.subject.resolution is bench.shown


@MAP_AND_PLOT
def test_a_late_picture_is_not_shown(view, bench, monkeypatch, share_of):
    before = share_of(view, LIGHT.kept)
    requests = held_jobs(bench, monkeypatch)
    bench.choose("conv.weight")
    bench.choose("steps")
    _, _, then = requests[0]
    then(None)
    assert before > 0
    assert share_of(view, LIGHT.kept) == 0


@MAP_AND_PLOT
def test_a_picture_for_a_deleted_view_is_ignored(kind, bench, checkpoint, qtbot, monkeypatch):
    view = kind(bench)
    with qtbot.waitExposed(view):
        view.show()
    bench.open_and_choose(checkpoint, "fc.weight")
    requests = held_jobs(bench, monkeypatch)
    bench.choose("other.weight")
    delete(view)
    _, _, then = requests[0]
    then(None)


@VIEWS
def test_a_read_error_replaces_the_picture(view, bench, checkpoint, monkeypatch):

    def fail(*arguments):
        raise CheckpointError("The file is gone.")

    for name in ("read_key", "view_key"):
        monkeypatch.setattr(type(bench.session.checkpoint), name, fail)
    monkeypatch.setattr(type(bench.resolved.resolution), "pruned_by_within", fail)
    bench.add(
        bench.step("random_unstructured", targets=["*.bias"]), bench.step("random_unstructured")
    )
    bench.show("fc.bias")
    assert "The file is gone." in visible_texts(view)


@MAP_AND_PLOT
def test_long_work_is_announced(view, bench, monkeypatch, qtbot):
    monkeypatch.setattr(bench.bridge, "run_job", lambda *arguments, **_: None)
    view._stale_timer.setInterval(1)
    bench.choose("conv.weight")
    qtbot.waitUntil(lambda: any("conv.weight…" in text for text in visible_texts(view)))


@MAP_AND_PLOT
@pytest.mark.parametrize("hurried", [True, False])
def test_the_picture_returns_if_the_user_goes_back_before_the_next_one_is_ready(
    view, bench, monkeypatch, qtbot, hurried
):
    with monkeypatch.context() as held:
        held.setattr(bench.bridge, "run_job", lambda *arguments, **_: None)
        view._stale_timer.setInterval(10_000 if hurried else 1)
        bench.choose("conv.weight")
        if not hurried:
            qtbot.waitUntil(lambda: any("conv.weight…" in text for text in visible_texts(view)))
    view._stale_timer.setInterval(10_000 if hurried else 1)
    bench.choose("fc.weight")
    assert not hurried or not view._stale_timer.isActive()
    bench.until_idle()
    assert not any("…" in text for text in visible_texts(view))
    assert view.picture() is not None


@MAP_AND_PLOT
def test_the_picture_stays_until_new_data_arrives(view, bench, monkeypatch, qtbot, share_of):
    before = share_of(view, LIGHT.kept)
    monkeypatch.setattr(bench.bridge, "run_job", lambda *arguments, **_: None)
    view._stale_timer.setInterval(1)
    bench.add(bench.step(amount=0.5))
    qtbot.wait(20)
    assert share_of(view, LIGHT.kept) == pytest.approx(before, rel=0.1)


@VIEWS_OF_STEPS
def test_a_picture_follows_the_theme(view, bench, qapp, share_of):
    theme = Theme(qapp, "light")
    assert share_of(view, LIGHT.kept) > 0.1
    theme.use("dark")
    bench.until_idle()
    assert share_of(view, DARK.kept) > 0.1
    assert share_of(view, LIGHT.kept) == 0
    assert share_of(view, LIGHT.background) < 0.01
    theme.deleteLater()


def is_corner(button):
    return isinstance(button.parent(), QTableView)


@pytest.mark.parametrize(
    "kind", [mask_view, weights_view, DistributionView, NormsView, GroupsView, LayersView]
)
def test_every_control_has_an_accessible_name(view):
    assert view.accessibleName()
    assert view.findChild(QGraphicsView).accessibleName()
    buttons = [each for each in view.findChildren(QAbstractButton) if not is_corner(each)]
    assert all(button.text() or button.accessibleName() for button in buttons)
    assert all(combo.accessibleName() for combo in view.findChildren(QComboBox))


@MAP_AND_PLOT
def test_the_caption_is_that_of_the_picture_on_the_screen(view, bench, monkeypatch):
    before = view.caption()
    assert before[0] == "fc.weight"
    with monkeypatch.context() as held:
        held.setattr(bench.bridge, "run_job", lambda *arguments, **_: None)
        bench.choose("conv.weight")
        assert view.picture() is not None
        assert view.caption() == before
    view.refresh()
    bench.until_idle()
    assert view.caption()[0] == "conv.weight"


def _hold_engine(bench, title):
    """Run a job until the event that is returned is set."""
    started, gate = threading.Event(), threading.Event()

    def work(_):
        started.set()
        gate.wait(60)

    bench.bridge.run(Job(title, work), lambda _: None)
    assert started.wait(60)
    return gate


@MAP_AND_PLOT
def test_a_view_without_a_picture_says_which_job_it_waits_for(view, bench, qtbot):
    gate = _hold_engine(bench, "Reading a slow disk")
    view._stale_timer.setInterval(1)
    bench.choose("conv.weight")
    waiting = "Waiting for another job: Reading a slow disk…"
    qtbot.waitUntil(lambda: waiting in visible_texts(view), timeout=60_000)
    gate.set()
    bench.until_idle()
    assert waiting not in visible_texts(view)
    assert view.picture() is not None


@MAP_AND_PLOT
def test_a_view_says_that_kernels_are_compiled_before_its_first_picture(
    kind, bench, checkpoint, shown, qtbot
):
    view = shown(kind(bench))
    bench.files.open(checkpoint)
    bench.until_idle()
    gate = _hold_engine(bench, "Compiling")
    COMPILATIONS.append(None)
    bench.choose("fc.weight")
    compiling = "Compiling the kernels (first run only)…"
    qtbot.waitUntil(lambda: compiling in visible_texts(view), timeout=60_000)
    COMPILATIONS.pop()
    gate.set()
    bench.until_idle()
    assert view.picture() is not None


@MAP_AND_PLOT
def test_a_cancelled_picture_is_not_announced_for_ever(view, bench, qtbot):
    gate = _hold_engine(bench, "Reading a slow disk")
    view._stale_timer.setInterval(1)
    bench.choose("conv.weight")
    bench.bridge.cancel(view.ticket)
    cancelled = "The picture was cancelled. Prune > Recompute draws it."
    qtbot.waitUntil(lambda: cancelled in visible_texts(view), timeout=60_000)
    gate.set()
    bench.resolve()
    bench.until_idle()
    assert view.picture() is not None
