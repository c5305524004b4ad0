from PySide6.QtWidgets import QLabel, QTabWidget

from prune_gui.gui.theme import LIGHT
from prune_gui.gui.views import ViewTabs
from prune_gui.gui.views.compare_picture import Shades


def _label(tabs, name):
    [label] = [label for label in tabs.findChildren(QLabel) if label.accessibleName() == name]
    return label


def test_the_header_says_what_is_chosen_and_how_much_is_pruned(bench, checkpoint, shown):
    tabs = shown(ViewTabs(bench))
    assert not _label(tabs, "Chosen parameter").isVisible()
    bench.open_and_choose(checkpoint, "conv.weight")
    bench.add(bench.step(amount=0.5, targets=["conv.*"]))
    assert _label(tabs, "Chosen parameter").text() == "conv.weight"
    shape = "4 \N{MULTIPLICATION SIGN} 3 \N{MULTIPLICATION SIGN} 5 \N{MULTIPLICATION SIGN} 2"
    facts = _label(tabs, "Shape, type and sparsity").text()
    assert facts == f"{shape} · bfloat16 · 60 of 120 pruned (50.0 %)"


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
    assert not _label(tabs, "Chosen parameter").isVisible()
