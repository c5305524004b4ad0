"""The list of views is all that the window knows about them."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QTabWidget
from safetensors.torch import save_file

from prune_gui.gui.draft.draft_panel import DraftPanel
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


LARGEST, TINIEST = torch.finfo(torch.float64).max, 5e-324
TENSORS = {
    "one": torch.tensor([[0.5]]),
    "scalar": torch.tensor(-3.0),
    "empty": torch.zeros(0, 4),
    "nan": torch.full((2, 3), float("nan")),
    "huge": torch.tensor([[LARGEST, -LARGEST], [TINIEST, 1.0]], dtype=torch.float64),
    "tiny": torch.tensor([[TINIEST, -TINIEST]], dtype=torch.float64),
}
METHODS = {
    "lamp": {"method": "lamp"},
    "row": {"method": "l1_unstructured", "scope": "row"},
    "channels": {"method": "ln_structured", "dim": 0, "n": 2},
}


def choices(view):
    """Make every choice that a view offers, yielding after each; repeat with all boxes toggled."""
    for _ in range(2):
        for box in (box for box in view.findChildren(QComboBox) if box.isVisible()):
            asks_nothing = [i for i in range(box.count()) if not box.itemText(i).endswith("…")]
            for index in (*asks_nothing, asks_nothing[0]):
                box.setCurrentIndex(index)
                box.activated.emit(index)
                yield
        for tick in view.findChildren(QCheckBox):
            if tick.isVisible() and tick.isEnabled():
                tick.click()
                yield


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.parametrize("name", TENSORS)
def test_every_choice_of_every_view_is_drawn(bench, shown, tmp_path, name):
    save_file({"odd.weight": TENSORS[name]}, tmp_path / "odd.safetensors")
    tabs = shown(ViewTabs(bench))
    pages = tabs.findChild(QTabWidget)
    bench.open_and_choose(tmp_path / "odd.safetensors", "odd.weight")
    drawn = 0
    for settings in METHODS.values() if TENSORS[name].dim() > 1 else [METHODS["lamp"]]:
        bench.draft_step(bench.step(**settings, amount=0.5, targets=["*"]))
        for page in range(pages.count()):
            pages.setCurrentIndex(page)
            bench.until_idle()
            for _ in choices(pages.widget(page)):
                bench.until_idle()
                drawn += 1
    assert (drawn > 0) is (name != "empty")
