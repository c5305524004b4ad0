import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QTabWidget

from prune_gui.gui.views import ViewTabs
from prune_gui.gui.views.compare.compare_picture import Shades
from prune_gui.gui.views.tabs import TITLES
from prune_gui.gui.widgets.theme import LIGHT


def _label(tabs, name):
    [label] = [label for label in tabs.findChildren(QLabel) if label.accessibleName() == name]
    return label


def made(tabs):
    return [name for name in TITLES if name in vars(tabs)]


def test_the_header_says_what_is_chosen_and_how_much_is_pruned(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    assert _label(tabs, "Chosen parameter").text() == ""
    bench.open_and_choose(checkpoint, "conv.weight")
    bench.add(bench.step(amount=0.5, targets=["conv.*"]))
    assert _label(tabs, "Chosen parameter").text() == "conv.weight"
    shape = "4 \N{MULTIPLICATION SIGN} 3 \N{MULTIPLICATION SIGN} 5 \N{MULTIPLICATION SIGN} 2"
    facts = _label(tabs, "Shape, type and sparsity").text()
    assert facts == f"{shape} · bfloat16 · 60 of 120 pruned (50.0 %)"


def test_the_tabs_stay_where_they_are_whatever_is_chosen(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bar = tabs.findChild(QTabWidget)
    begun = bar.geometry()
    bench.open(checkpoint)
    bench.until_idle()
    for name in bench.session.checkpoint.tensors:
        bench.choose(name)
        bench.until_idle()
        assert bar.geometry() == begun


@pytest.mark.slow
def test_the_docks_need_not_give_way_to_any_parameter(bench, checkpoint, shown, tmp_path):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    bar = tabs.findChild(QTabWidget)
    other = tmp_path / f"{'a_long_name_' * 10}.safetensors"
    other.write_bytes(checkpoint.read_bytes())
    for index in range(bar.count()):
        bar.setCurrentIndex(index)
        bench.until_idle()
    tabs.weights_view.compare_with(other)
    for name in bench.session.checkpoint.tensors:
        bench.choose(name)
        for index in range(bar.count()):
            bar.setCurrentIndex(index)
            bench.until_idle()
            assert tabs.minimumSizeHint().width() <= 480, (name, bar.tabText(index))


def test_the_header_says_what_a_tensor_is_that_cannot_be_pruned(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "steps")
    assert _label(tabs, "Chosen parameter").text() == "steps"
    assert _label(tabs, "Shape, type and sparsity").text() == "a single number · int64"


def test_a_long_name_gives_way_in_its_middle(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.open(checkpoint)
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


def test_each_tab_shows_its_view_when_it_comes_to_the_front(bench, checkpoint, shown, share_of):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(bench.step(amount=0.5))
    bar = tabs.findChild(QTabWidget)
    names = [bar.tabText(i).replace("&", "") for i in range(bar.count())]
    assert names == ["Mask", "Weights", "Distribution", "Norms", "Layers", "Compare"]
    for index, name in enumerate(names):
        bar.setCurrentIndex(index)
        bench.until_idle()
        pruned = Shades.of(LIGHT).right if name == "Compare" else LIGHT.steps[0]
        if name != "Weights":
            assert share_of(bar.currentWidget(), pruned) > 0.005
    bar.setCurrentWidget(tabs.weights_view)
    bench.until_idle()
    assert tabs.weights_view._drawn is not None


def test_closing_a_checkpoint_for_another_leaves_nothing_of_the_first(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.open(checkpoint)
    bench.until_idle()
    assert tabs.mask_view.subject is None
    assert _label(tabs, "Chosen parameter").text() == ""
    assert _label(tabs, "Shape, type and sparsity").text() == ""


def test_a_view_is_made_when_its_tab_is_first_shown(bench, checkpoint, shown):
    tabs = ViewTabs(bench)
    assert made(tabs) == []
    shown(tabs)
    assert made(tabs) == ["mask_view"]
    bench.open_and_choose(checkpoint, "fc.weight")
    bar = tabs.findChild(QTabWidget)
    bar.setCurrentIndex(3)
    assert made(tabs) == ["mask_view", "norms_view"]
    assert bar.currentWidget() is tabs.current is tabs.norms_view
    assert tabs.norms_view.isVisible()
    bench.until_idle()
    assert tabs.norms_view.picture() is not None


def test_the_view_in_front_is_made_ahead_in_its_place(bench, qtbot):
    tabs = ViewTabs(bench)
    qtbot.addWidget(tabs)
    bar = tabs.findChild(QTabWidget)
    texts = [bar.tabText(index) for index in range(bar.count())]
    bar.setCurrentIndex(2)
    assert made(tabs) == []
    there = []
    tabs.make_ahead(lambda: there.extend(made(tabs)))
    qtbot.waitUntil(lambda: bool(there))
    assert there == made(tabs) == ["distribution_view"]
    assert bar.widget(2) is tabs.current is tabs.distribution_view
    assert [bar.tabText(index) for index in range(bar.count())] == texts


@pytest.mark.parametrize("before", [True, False])
def test_a_view_offers_the_actions_and_keeps_to_the_memory_whenever_it_is_made(
    bench, checkpoint, shown, before
):
    tabs = shown(ViewTabs(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    if before:
        assert tabs.weights_view is not None
    action = QAction(tabs)
    tabs.offer([action])
    tabs.limit_memory(0)
    tabs.findChild(QTabWidget).setCurrentWidget(tabs.weights_view)
    bench.until_idle()
    assert tabs.weights_view.actions() == [action]
    assert tabs.weights_view.picture() is not None
    assert tabs.weights_view.held == 0
