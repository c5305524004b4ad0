import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QTabWidget
from small_bert import write_bert

from prune_gui.gui.views import ViewTabs
from prune_gui.gui.views.compare.data import Shades
from prune_gui.gui.views.registry import VIEWS
from prune_gui.raster.colours import LIGHT


def _label(tabs, name):
    [label] = [label for label in tabs.findChildren(QLabel) if label.accessibleName() == name]
    return label


def created_views(tabs):
    return [spec.key for spec in VIEWS if spec.key in tabs._views]


def test_the_header_shows_the_chosen_parameter_and_its_sparsity(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    assert _label(tabs, "Chosen parameter").text() == ""
    bench.open_and_choose(checkpoint, "conv.weight")
    bench.add(bench.step(amount=0.5, targets=["conv.*"]))
    assert _label(tabs, "Chosen parameter").text() == "conv.weight"
    shape = "4 \N{MULTIPLICATION SIGN} 3 \N{MULTIPLICATION SIGN} 5 \N{MULTIPLICATION SIGN} 2"
    facts = _label(tabs, "Shape, type and sparsity").text()
    assert facts == f"{shape} · bfloat16 · 60 of 120 pruned (50.0 %)"


def test_the_tabs_do_not_move_when_the_choice_changes(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bar = tabs.findChild(QTabWidget)
    geometry = bar.geometry()
    bench.files.open(checkpoint)
    bench.until_idle()
    for name in bench.session.checkpoint.tensors:
        bench.show(name)
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
    text = _label(tabs, "Chosen parameter").text()
    start, end = text.split("…")
    assert name.startswith(start)
    assert name.endswith(end)
    assert start
    assert end
    assert _label(tabs, "Chosen parameter").toolTip() == name


def test_each_tab_shows_its_view_when_it_comes_to_the_front(bench, tmp_path, shown, share_of):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(write_bert(tmp_path), "encoder.layer.0.intermediate.dense.weight")
    targets = ["*.intermediate.dense.weight"]
    bench.add(bench.step("coupled", targets=targets, space="ffn", amount=0.5))
    bar = tabs.findChild(QTabWidget)
    names = [bar.tabText(i).replace("&", "") for i in range(bar.count())]
    matrix = ["Overview", "Mask", "Weights", "Distribution"]
    assert names == [*matrix, "Norms", "Groups", "Layers", "Compare"]
    for index, name in enumerate(names):
        bar.setCurrentIndex(index)
        bench.until_idle()
        light = LIGHT.light_of(1)
        own_colours = {"Compare": Shades.of(LIGHT).right, "Norms": light, "Groups": light}
        pruned = own_colours.get(name, LIGHT.steps[0])
        if name != "Weights":
            assert share_of(bar.currentWidget(), pruned) > 0.0001
    bar.setCurrentWidget(tabs.view("weights"))
    bench.until_idle()
    assert tabs.view("weights")._pipeline.shown is not None


def test_opening_another_checkpoint_replaces_everything(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.files.open(checkpoint)
    bench.until_idle()
    assert tabs.view("mask").subject is None
    assert _label(tabs, "Chosen parameter").text() == ""
    assert _label(tabs, "Shape, type and sparsity").text() == ""


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
