"""Figures as files: sizes, texts, colours, and what each layout shows."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QImage, QPainter

import prune_gui
from prune_gui.architecture.blocks import BlockRow, Section
from prune_gui.errors import Cancelled
from prune_gui.gui.figures.data import Bar, figure_data
from prune_gui.gui.figures.figure import (
    Figure,
    Sheet,
    default_title,
    panels_of,
)
from prune_gui.gui.figures.panels import GRID_FONT_PX, BarsPanel, Canvas
from prune_gui.gui.views.overview.grid_painter import Cell, GridPainter
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.resources import resource
from prune_gui.session.settings import FigureSettings
from prune_gui.session.subjects import ModelSubject, Subject

CHOSEN = "features.conv2.weight"
RECIPE = """
version: 1
steps:
  - {method: l1_unstructured, targets: ["!dims<2"], scope: global, amount: 0.5}
  - {method: ln_structured, targets: [features.conv2.weight], amount: 0.25, n: 2, dim: 0}
"""
LAYOUTS = "blocks", "layers", "mask", "page"


@pytest.fixture(scope="module")
def data():
    with prune_gui.open_checkpoint(resource("demo", "digits_cnn.safetensors")) as checkpoint:
        after = prune_gui.resolve(prune_gui.Recipe.from_yaml(RECIPE), checkpoint)
        before = prune_gui.resolve(prune_gui.Recipe(steps=[]), checkpoint)
        chosen = Subject(after, checkpoint.tensors[CHOSEN], None)
        yield figure_data(ModelSubject(after, None), before, chosen, ("row", "column"))


@pytest.fixture
def figure_of(qapp, data):
    """Return a function that makes a figure of a layout with some settings."""

    def make(layout, **settings):
        chosen = FigureSettings(**settings)
        panels = panels_of(data, DARK if chosen.dark else LIGHT)
        some = list(panels.values()) if layout == "page" else [panels[layout]]
        return Figure(some, default_title(data), chosen)

    return make


def content_of(figure):
    return Sheet(figure, figure.settings.format, figure.settings.dpi).finish().content()


def test_the_data_have_the_counts_of_the_resolution_and_the_mask_before_and_after(data):
    counts = data.subject.resolution.counts
    for name, bar in data.bars.items():
        pruned, total = counts[name]
        assert sum(bar.counts.values()) == total
        assert bar.sparsity == pytest.approx(pruned / total)
    before, after = data.masks
    assert before.sparsity == 0 < after.sparsity
    assert [bar.label for bar in data.listed(by_block=False)] == [
        "conv1",
        "conv2",
        "conv3",
        "hidden",
        "output",
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [85.0, 180.0])
def test_an_svg_has_its_size_in_millimetres_and_texts_as_texts(figure_of, layout, width):
    root = ET.fromstring(content_of(figure_of(layout, width=width, format="svg")))
    assert root.get("width") == f"{width:g}mm"
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    assert {float(element.get("font-size")) for element in texts} <= {7.0, 8.0, GRID_FONT_PX}
    text = "".join(root.itertext())
    assert "%" in text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rich_texts_stay_on_the_gui_thread_while_another_one_draws(figure_of, layout, monkeypatch):
    threads = []
    for name in ("rich", "write"):
        method = getattr(Canvas, name)

        def noted(self, *args, method=method, **options):
            threads.append(threading.current_thread())
            return method(self, *args, **options)

        monkeypatch.setattr(Canvas, name, noted)
    with ThreadPoolExecutor(1) as pool:
        sheet = pool.submit(Sheet, figure_of(layout, format="svg"), "svg").result()
    assert b"weights pruned" in sheet.finish().content()
    assert len(threads) >= 4
    assert set(threads) == {threading.main_thread()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pdf_is_one_page_with_its_fonts(figure_of, layout):
    content = content_of(figure_of(layout, format="pdf", width=180.0))
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", content)) == 1
    assert b"/FontFile2" in content
    width = float(re.search(rb"/MediaBox \[0 0 ([0-9.]+)", content)[1])
    assert width == pytest.approx(180 / 25.4 * 72, abs=1)


@pytest.mark.parametrize(("dark", "colours"), [(False, LIGHT), (True, DARK)])
def test_a_png_has_its_resolution_and_the_colours_of_the_theme(figure_of, dark, colours):
    figure = figure_of("layers", format="png", dpi=254, width=100.0, dark=dark)
    image = QImage.fromData(content_of(figure))
    assert image.width() == 1000
    assert image.dotsPerMeterX() == 10_000
    assert image.text("Title") == figure.title
    assert image.pixelColor(1, 1) == QColor(colours.background)
    shades = {
        image.pixelColor(x, y).name()
        for x in range(0, 1000, 3)
        for y in range(0, image.height(), 3)
    }
    assert {colours.kept, colours.steps[0], colours.steps[1]} <= shades


@pytest.mark.parametrize("width", [85.0, 120.0, 180.0])
def test_cells_of_a_figure_are_at_most_1_6_times_as_wide_as_high(figure_of, width, monkeypatch):
    tiles = []

    def keep(self, painter, name, position):
        tiles.append(self.layout.tile(position))

    monkeypatch.setattr(GridPainter, "_draw_cell", keep)
    content_of(figure_of("blocks", width=width))
    assert len(tiles) == 5
    assert all(tile.width <= 1.61 * tile.height for tile in tiles)


def test_the_cells_of_a_mask_are_equal_and_not_blurred(figure_of, data):
    image = Sheet(figure_of("mask", width=180.0), "png", 300).finish().image
    y = image.height() // 2
    line = [image.pixelColor(x, y).name() for x in range(1200, 1800)]
    assert set(line) <= {LIGHT.kept, LIGHT.background, *LIGHT.steps}
    runs = [len(list(run)) for _, run in groupby(line)][1:-1]
    assert all(length % min(runs) == 0 for length in runs)


def test_drawing_a_mask_can_be_cancelled(figure_of, data):
    cancel = threading.Event()
    cancel.set()
    for mask in data.masks:
        mask._painted.clear()  # by other tests
    with pytest.raises(Cancelled):
        Sheet(figure_of("mask", width=181.0), "png", 300, Monitor(cancel=cancel))


@pytest.mark.parametrize(("dpi", "is_dense"), [(600, False), (50, True)])
def test_a_mask_has_a_cell_per_weight_unless_the_resolution_is_too_low(figure_of, dpi, is_dense):
    root = ET.fromstring(content_of(figure_of("mask", width=40.0, dpi=dpi, format="svg")))
    text = "".join("".join(root.itertext()).split())
    assert ("weightspercell,frompaletostrong" in text) == is_dense


def test_a_mask_has_its_proportions_and_numbers_at_any_height(figure_of, data, monkeypatch):
    boxes, texts = [], []

    def pixels(_canvas, box, _pixels):
        boxes.append(box)
        return box

    def text(_canvas, _box, text, *_, **__):
        texts.append(text)

    monkeypatch.setattr(Canvas, "pixels", pixels)
    monkeypatch.setattr(Canvas, "text", text)
    for height in (0.0, 60.0, 200.0):
        content_of(figure_of("mask", height=height, width=180.0))
    layout = data.masks[0].layout
    assert len(boxes) == 6
    for box in boxes:
        assert box.height() / box.width() == pytest.approx(layout.rows / layout.columns)
    assert {"0", "31", "15"} <= set(texts)


def test_a_set_height_is_held_and_a_legend_can_be_left_out(figure_of):
    assert figure_of("page", height=100.0).size.height() == pytest.approx(100 / 25.4 * 72)
    with_legend, without = figure_of("layers"), figure_of("layers", legend=False)
    assert with_legend.size.height() > without.size.height()


@pytest.mark.parametrize("height", [8.0, 15.0, 30.0])
def test_texts_of_bars_do_not_overlap_in_a_low_figure(figure_of, height, monkeypatch):
    rows = set()

    def text(self, box, *args, **kwargs):
        on_paper = self.painter.worldTransform()
        rows.add((round(on_paper.mapRect(box).center().y(), 2), on_paper.m22()))

    monkeypatch.setattr(Canvas, "text", text)
    Sheet(figure_of("layers", height=height, text_pt=8, title=False), "png", 72).finish()
    centres, scales = zip(*sorted(rows), strict=True)
    distances = [after - before for before, after in pairwise(centres)]
    assert min(distances) > 0.9 * (8 - 1) * max(scales)


def test_bars_in_two_columns_have_one_scale_whole_blocks_and_their_heading(qapp, monkeypatch):
    bars = [Bar("", "", "a_long_name_of_embeddings", {0: 1})]
    for block in "01234":
        bars += [Bar("layer.*", block, role, {0: 1, 1: 1}) for role in "qkvo"]
    panel = BarsPanel("", "", SimpleNamespace(listed=lambda by_block: bars))
    widths, texts = [], []

    def draw_bar(_panel, _canvas, box, _bar):
        widths.append(box.width())

    def text(_canvas, _box, text, *_, **__):
        texts.append(text)

    monkeypatch.setattr(BarsPanel, "_draw_bar", draw_bar)
    monkeypatch.setattr(Canvas, "text", text)
    image = QImage(600, 300, QImage.Format.Format_RGB32)
    with QPainter(image) as painter:
        panel.draw(Canvas(painter, LIGHT, 8, "DejaVu Sans"), QRectF(0, 0, 600, 300))
    assert len(widths) == len(bars)
    assert len(set(widths)) == 1
    assert [texts.count(text) for text in ("layer.*", *"01234")] == [2, 1, 1, 1, 1, 1]


class RecordingPainter(QPainter):
    """Notes texts, with their left and right ends on the picture."""

    def __init__(self, image):
        super().__init__(image)
        self.lines = []

    def drawText(self, box, flags, text):  # noqa: N802
        box = self.worldTransform().mapRect(box)
        self.lines.append((box.top(), box.left(), box.right(), text))


@pytest.fixture
def recorded(qapp):
    """A painter on a picture."""
    image = QImage(400, 400, QImage.Format.Format_RGB32)
    with RecordingPainter(image) as painter:
        yield painter


@pytest.mark.parametrize(("width", "has_middle"), [(60, False), (200, True)])
def test_a_scale_has_a_percentage_in_the_middle_if_there_is_room(recorded, width, has_middle):
    Canvas(recorded, LIGHT, 8, "DejaVu Sans").percentages(QRectF(0, 0, width, 8))
    texts = {text for *_, text in recorded.lines}
    assert texts == {"0 %", "100 %"} | ({"50 %"} if has_middle else set())


def test_names_above_cells_have_a_gap_between_them(recorded):
    row = BlockRow("", ("a", "b", "c"), ("position_embeddings", "token_embeddings", "words_in"))
    arrangement = Arrangement((Section("", (), (row,)),))
    painter = GridPainter(arrangement, lambda name: Cell("", LIGHT.kept), LIGHT, QFont())
    painter.fit(220, 100)
    painter.paint(recorded, QRectF(0, 0, 400, 400))
    names = sorted(line[1:] for line in recorded.lines if len(line[3]) > 5)
    assert len(names) == 3
    assert all(left - right >= 7 for (_, right, _), (left, *_) in pairwise(names))


def test_names_are_shortened_so_that_they_differ(qapp):
    canvas = Canvas(QPainter(), LIGHT, 8, "DejaVu Sans")
    names = ["encoder.layer.0.query", "encoder.layer.1.query", "encoder.layer.1.value", "a"]
    width = canvas.width("encoder.layer")
    short = canvas.fitted(names, width)
    assert len(set(short)) == 4
    assert all(canvas.width(name) <= width for name in short)
    assert short[-1] == "a"
