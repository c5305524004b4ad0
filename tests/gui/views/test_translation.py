"""All texts of the views are translated."""

import pytest
from foreign import foreign, untranslated
from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter, QTextDocument, QTextOption
from PySide6.QtWidgets import QAbstractButton, QComboBox, QTabWidget
from shown import names_in, texts_in

from prune_gui.gui.views import ViewTabs
from prune_gui.gui.views.compare import control_bars
from prune_gui.gui.views.compare.picture_pair import MODES
from prune_gui.gui.views.layers import treemap_picture
from prune_gui.gui.views.layers.treemap_picture import TreemapPicture
from prune_gui.gui.views.legend_text import unbroken
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.plot import Plot
from prune_gui.gui.views.weights import view as weights_view
from prune_gui.language import tr

pytestmark = pytest.mark.usefixtures("foreign_language")


@pytest.fixture
def tabs(bench, shown, monkeypatch):
    for module in (control_bars, weights_view):
        monkeypatch.setattr(module, "ask_checkpoint", lambda *_: None)
    return shown(ViewTabs(bench))


def untranslated_texts(texts, bench):
    """Return the texts with untranslated words, apart from names in the file."""
    names = names_in(bench.session.checkpoint)

    def is_elided_name(text):
        start, dots, end = text.partition("…")
        return dots and any(name.startswith(start) and name.endswith(end) for name in names)

    return {text for text in texts if untranslated(text, *names) and not is_elided_name(text)}


def texts_of(tabs):
    view = tabs.current
    texts = {*texts_in(tabs), *view.caption(), view.legend()}
    if (table := view.table()) is not None:
        texts |= {table.title, *table.headers}
    return texts


def point(tabs, hand):
    for plot in tabs.current.findChildren(Plot):
        if plot.isVisible():
            size = plot.viewport().size()
            hand.hover(plot, QPointF(0.6 * size.width(), 0.4 * size.height()))
    for treemap in tabs.current.findChildren(TreemapPicture):
        if treemap.isVisible() and treemap.shown is not None:
            treemap.pointed.emit(treemap.shown.cells[0].node)
    if isinstance(tabs.current, MapView):
        tabs.current.canvas.clicked.emit((0, 0))


def texts_of_all_choices(tabs, bench, hand):
    """Return all texts that appear while each choice of the view in front is made once."""
    texts = set()

    def look():
        bench.until_idle()
        point(tabs, hand)
        bench.until_idle()
        texts.update(texts_of(tabs))

    look()
    for combo in tabs.current.findChildren(QComboBox):
        for place in range(combo.count()):
            if place < combo.count():  # a choice may remove others
                combo.setCurrentIndex(place)
                combo.activated.emit(combo.currentIndex())
                look()
        combo.setCurrentIndex(0)
        combo.activated.emit(0)
    endless = {tr(MODES["blink"].text), tr(MODES["film"].text)}
    for button in tabs.current.findChildren(QAbstractButton):
        if button.isCheckable() and button.isVisible() and button.text() not in endless:
            button.toggle()
            look()
    return texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "fc.weight",
        "conv.weight",
        *(
            pytest.param(name, marks=pytest.mark.very_slow)
            for name in ("odd.weight", "fc.bias", "scale")
        ),
    ],
)
def test_all_texts_of_the_views_are_translated(bench, checkpoint, tabs, hand, name):
    bench.open_and_choose(checkpoint, name)
    bench.add(
        bench.step(amount=0.5, scope="global", targets=["*.weight", "scale"]),
        bench.step("random_unstructured", amount=0.3, seed=1, targets=["*.weight", "*.bias"]),
    )
    bench.draft_step(bench.step(amount=0.1, targets=[name]))
    bar = tabs.findChild(QTabWidget)
    texts = set()
    for index in range(bar.count()):
        bar.setCurrentIndex(index)
        texts |= texts_of_all_choices(tabs, bench, hand)
    assert untranslated_texts(texts, bench) == set()


@pytest.mark.slow
def test_all_messages_without_a_picture_are_translated(bench, checkpoint, tabs):
    bar = tabs.findChild(QTabWidget)
    texts = texts_of(tabs)

    def look():
        for index in range(bar.count()):
            bar.setCurrentIndex(index)
            bench.until_idle()
            texts.update(texts_of(tabs))

    look()  # nothing is open
    bench.files.open(checkpoint)
    look()  # nothing is chosen
    bench.choose("steps")
    look()  # it cannot be pruned
    assert untranslated_texts(texts, bench) == set()


def test_the_treemap_scale_is_translated(bench, checkpoint, tabs, monkeypatch):
    drawn = []

    class Painter(QPainter):
        def drawText(self, *arguments):  # noqa: N802
            drawn.append(arguments[-1])

    monkeypatch.setattr(treemap_picture, "QPainter", Painter)
    bench.open_and_choose(checkpoint, "fc.weight")
    tabs.findChild(QTabWidget).setCurrentWidget(tabs.view("layers"))
    tabs.view("layers")._picture_box.setCurrentIndex(1)
    bench.until_idle()
    tabs.view("layers").findChild(TreemapPicture).grab()
    words = {text for text in drawn if untranslated(text)}
    assert tabs.view("layers").legend().startswith(foreign("sparsity"))
    # The rest are names, shortened to fit.
    names = bench.session.checkpoint.tensors
    parts = [word.split("…") for word in words]
    assert all(any(all(part in name for part in some) for name in names) for some in parts)


def test_a_legend_item_without_spaces_stays_on_one_line(qapp):
    page = QTextDocument()
    page.setDefaultTextOption(QTextOption(wrapMode=QTextOption.WrapMode.WordWrap))
    page.setHtml(unbroken("步骤 1：L1 非结构化 1,040（22.6%）"))  # noqa: RUF001
    page.setTextWidth(40)
    assert page.size().width() > 40  # triggers the layout
    assert page.firstBlock().layout().lineCount() == 1
