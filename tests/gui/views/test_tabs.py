from __future__ import annotations

import pytest
import torch
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QLabel, QTabWidget
from safetensors.torch import save_file
from small_bert import write_bert
from view_page import text

from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.views import ViewTabs, registry, tabs
from prune_gui.gui.views.registry import VIEWS, ViewSpec
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.theme import Theme
from prune_gui.session.draft_request import ChannelRequest
from prune_gui.session.subjects import Subject


def created_views(tabs):
    return [spec.key for spec in VIEWS if spec.key in tabs._views]


def test_the_header_shows_the_chosen_parameter_and_its_sparsity(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    assert text(tabs, "Chosen parameter") == ""
    bench.open_and_choose(checkpoint, "conv.weight")
    bench.add(bench.step(amount=0.5, targets=["conv.*"]))
    assert text(tabs, "Chosen parameter") == "conv.weight"
    shape = "4 \N{MULTIPLICATION SIGN} 3 \N{MULTIPLICATION SIGN} 5 \N{MULTIPLICATION SIGN} 2"
    facts = text(tabs, "Shape, type and sparsity")
    assert facts == f"{shape} · bfloat16 · 60 of 120 pruned (50.0 %)"


def test_a_lock_in_the_header_marks_a_protected_parameter(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "conv.weight")
    tab_bar = tabs.findChild(QTabWidget).geometry()
    for on in (True, False):
        bench.edit(lambda session, on=on: session.protect(["conv.weight"], on=on))
        assert tabs._lock.isVisible() is on
        assert tabs.findChild(QTabWidget).geometry() == tab_bar


def test_the_lock_is_drawn_again_when_the_theme_changes(bench, checkpoint, shown, qapp):
    theme, tabs = Theme(qapp, "light"), shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "conv.weight")
    light = tabs._lock.pixmap().toImage()
    theme.use("dark")
    QApplication.sendPostedEvents()
    assert tabs._lock.pixmap().toImage() != light
    theme.use("light")
    theme.deleteLater()


def test_the_tabs_do_not_move_when_the_choice_changes(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bar = tabs.findChild(QTabWidget)
    geometry = bar.geometry()
    bench.files.open(checkpoint)
    bench.until_idle()
    for name in bench.session.checkpoint.tensors:
        bench.show(name)
        assert bar.geometry() == geometry


def test_the_tabs_do_not_move_when_zeros_are_found_in_the_file(bench, tmp_path, shown):
    tabs = shown(ViewTabs(bench))
    bar = tabs.findChild(QTabWidget)
    geometry = bar.geometry()
    save_file({"a.weight": torch.eye(8)}, tmp_path / "sparse.safetensors")
    bench.open_and_choose(tmp_path / "sparse.safetensors", "a.weight")
    assert "zero in the file" in text(tabs, "Shape, type and sparsity")
    assert bar.geometry() == geometry


@pytest.mark.slow
def test_no_parameter_makes_the_views_wider_than_480_pixels(bench, checkpoint, shown, tmp_path):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    bar = tabs.findChild(QTabWidget)
    other = tmp_path / f"{'a_long_name_' * 10}.safetensors"
    other.write_bytes(checkpoint.read_bytes())
    for index in range(bar.count()):
        bar.setCurrentIndex(index)
        bench.until_idle()
    tabs.view("weights").compare_with(other)
    for name in bench.session.checkpoint.tensors:
        bench.choose(name)
        for index in range(bar.count()):
            bar.setCurrentIndex(index)
            bench.until_idle()
            assert tabs.minimumSizeHint().width() <= 480, (name, bar.tabText(index))


def test_a_long_name_is_elided_in_the_middle(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.files.open(checkpoint)
    bench.until_idle()
    name = max(bench.session.checkpoint.tensors, key=len)
    bench.choose(name)
    tabs.resize(tabs.minimumSizeHint().width(), 400)
    start, end = text(tabs, "Chosen parameter").split("…")
    assert name.startswith(start or "-")
    assert name.endswith(end or "-")
    [label] = [each for each in tabs.findChildren(QLabel) if each.toolTip() == name]
    assert label.accessibleName() == "Chosen parameter"


def test_each_tab_shows_its_view_when_it_comes_to_the_front(bench, tmp_path, shown):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(write_bert(tmp_path), "encoder.layer.0.intermediate.dense.weight")
    targets = ["*.intermediate.dense.weight"]
    bench.add(bench.step("coupled", targets=targets, space="ffn", amount=0.5))
    bar = tabs.findChild(QTabWidget)
    names = [bar.tabText(i).replace("&", "") for i in range(bar.count())]
    matrix = ["Overview", "Mask", "Weights", "Distribution"]
    assert names == [*matrix, "Norms", "Groups", "Layers", "Compare"]
    for index in range(bar.count()):
        bar.setCurrentIndex(index)
        bench.until_idle()
        assert bar.currentWidget().picture() is not None


def test_opening_another_checkpoint_replaces_everything(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.files.open(checkpoint)
    bench.until_idle()
    assert tabs.view("mask").subject is None
    assert text(tabs, "Chosen parameter") == ""
    assert text(tabs, "Shape, type and sparsity") == ""


def test_a_view_is_created_when_its_tab_is_first_shown(bench, checkpoint, shown):
    tabs = ViewTabs(bench)
    assert created_views(tabs) == []
    shown(tabs)
    assert created_views(tabs) == ["overview"]
    bench.open_and_choose(checkpoint, "fc.weight")
    bar = tabs.findChild(QTabWidget)
    bar.setCurrentIndex(4)
    assert created_views(tabs) == ["overview", "norms"]
    assert bar.currentWidget() is tabs.current is tabs.view("norms")
    assert tabs.view("norms").isVisible()
    bench.until_idle()
    assert tabs.view("norms").picture() is not None


def test_make_ahead_creates_the_view_in_front_in_its_tab(bench, qtbot):
    tabs = ViewTabs(bench)
    qtbot.addWidget(tabs)
    bar = tabs.findChild(QTabWidget)
    texts = [bar.tabText(index) for index in range(bar.count())]
    bar.setCurrentIndex(3)
    assert created_views(tabs) == []
    created = []
    tabs.make_ahead(lambda: created.extend(created_views(tabs)))
    qtbot.waitUntil(lambda: bool(created))
    assert created == created_views(tabs) == ["distribution"]
    assert bar.widget(3) is tabs.current is tabs.view("distribution")
    assert [bar.tabText(index) for index in range(bar.count())] == texts


@pytest.mark.parametrize("before", [True, False])
def test_actions_and_memory_limit_apply_to_views_created_before_and_after(
    bench, checkpoint, shown, before
):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    if before:
        assert tabs.view("weights") is not None
    action = QAction(tabs)
    tabs.offer([action])
    tabs.limit_memory(0)
    tabs.findChild(QTabWidget).setCurrentWidget(tabs.view("weights"))
    bench.until_idle()
    assert tabs.view("weights").actions() == [action]
    assert tabs.view("weights").picture() is not None
    assert tabs.view("weights").cached_bytes == 0


class NameView(View[Subject]):
    lane = "name"

    def __init__(self, workbench):
        super().__init__(workbench, lambda: workbench.subject, "Name")
        self._label = QLabel()
        self._lay_out([], self._label, [])

    def _request_picture(self, subject):
        self._run_picture_job(subject, lambda _: subject.name, self._label.setText)


def test_every_view_has_a_key_and_a_lane_of_its_own(bench, qtbot):
    made = ViewTabs(bench)
    qtbot.addWidget(made)
    lanes = {made.view(spec.key).lane for spec in VIEWS}
    assert len(lanes) == len({spec.key for spec in VIEWS}) == len(VIEWS)


@pytest.fixture
def with_name_view(monkeypatch):
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
    bench.open_and_choose(checkpoint, "fc.weight")
    made.bring_forward("name")
    bench.until_idle()
    made.view("name")._request_draft(ChannelRequest(0, frozenset({2, 5})))
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
