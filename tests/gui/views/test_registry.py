"""The list of views is all that the window knows about them."""

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QTabWidget

from prune_gui.gui.panels.draft.panel import DraftPanel
from prune_gui.gui.views import ViewTabs, registry, tabs
from prune_gui.gui.views.registry import VIEWS, ViewSpec
from prune_gui.gui.views.view import View
from prune_gui.session.draft_request import ChannelRequest
from prune_gui.session.subjects import Subject


class NameView(View[Subject]):
    """Shows the name of the parameter."""

    lane = "name"

    def __init__(self, workbench):
        super().__init__(workbench, lambda: workbench.subject, "Name")
        self._label = QLabel()
        self._lay_out([], self._label, [])

    def _request_picture(self, subject):
        self._run_picture_job(subject, lambda _: subject.name, self._label.setText)

    def _recolour(self):
        pass


def test_every_view_has_a_key_and_a_lane_of_its_own(bench, qtbot):
    made = ViewTabs(bench)
    qtbot.addWidget(made)
    lanes = {made.view(spec.key).lane for spec in VIEWS}
    assert len(lanes) == len({spec.key for spec in VIEWS}) == len(VIEWS)


@pytest.fixture
def with_name_view(monkeypatch):
    """Add a view to the list by one line."""
    spec = ViewSpec("name", "Name", "registry:NameView")
    monkeypatch.setattr(registry, "NameView", NameView, raising=False)
    monkeypatch.setattr(tabs, "VIEWS", (*VIEWS, spec))


@pytest.mark.usefixtures("with_name_view")
def test_a_view_in_the_list_has_a_tab_and_all_that_views_have(bench, checkpoint, shown, qtbot):
    made = shown(ViewTabs(bench))
    action = QAction(made)
    made.offer([action])
    bench.open_and_choose(checkpoint, "fc.weight")
    bar = made.findChild(QTabWidget)
    assert bar.tabText(bar.count() - 1) == "Name"
    with qtbot.waitSignal(made.changed):
        bar.setCurrentIndex(bar.count() - 1)
    bench.until_idle()
    view = made.current
    assert view is made.view("name")
    assert view.picture().text() == "fc.weight"
    assert view.actions() == [action]
    name, what = view.caption()
    assert name == "fc.weight"
    assert what.startswith("Name: 8 ")


@pytest.mark.usefixtures("with_name_view")
def test_a_view_in_the_list_can_change_the_draft(bench, checkpoint, shown, qtbot):
    made, draft = shown(ViewTabs(bench)), DraftPanel(bench)
    qtbot.addWidget(draft)
    made.draft_wanted.connect(draft.change)
    bench.open_and_choose(checkpoint, "fc.weight")
    made.view("name").draft_wanted.emit(ChannelRequest(0, frozenset({2, 5})))
    bench.until_idle()
    assert bench.draft.current.step.method.channels == (2, 5)
