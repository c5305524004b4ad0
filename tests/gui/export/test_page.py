"""A page with a picture, as PNG and SVG."""

from xml.etree import ElementTree as ET

import pyqtgraph as pg
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QImage

from prune_gui.gui.export.page import MARGIN, Page, image_of, png_of, svg_of
from prune_gui.gui.views.plot import Plot
from prune_gui.raster.colours import DARK, LIGHT

BARS = "#123456"
LEGEND = '<span style="color: #d5690b">■</span> step 1: 7 &lt; 8'


@pytest.fixture
def plot(qtbot):
    made = Plot()
    made.recolour(LIGHT)
    made.addItem(pg.BarGraphItem(x0=[0, 1], x1=[0.9, 1.9], height=[1, 2], pen=None, brush=BARS))
    made.resize(400, 300)
    qtbot.addWidget(made)
    with qtbot.waitExposed(made):
        made.show()
    return made


@pytest.fixture
def page(plot):
    return Page(plot, "layer.<0>.weight", "Norms & more: 2 channels", LEGEND, LIGHT)


def share(image, colour):
    across, down = range(image.width()), range(image.height())
    pixels = [image.pixelColor(x, y).name() for x in across for y in down]
    return pixels.count(colour) / len(pixels)


def inked(image, top, bottom):
    """Return whether the rows between two heights contain anything but the background."""
    colours = {
        image.pixelColor(x, y).name() for x in range(image.width()) for y in range(top, bottom)
    }
    return colours - {LIGHT.background} != set()


def test_a_png_has_the_picture_between_title_and_legend(page, plot):
    image = QImage.fromData(png_of(page))
    assert image.size() == page.size
    assert image.width() == plot.width() + 2 * MARGIN
    assert image.height() > plot.height() + 2 * MARGIN
    head = page._heights[0]
    assert inked(image, MARGIN, MARGIN + head)
    assert inked(image, MARGIN + head + plot.height(), image.height() - MARGIN)
    assert not inked(image, 0, MARGIN // 2)
    assert share(image, BARS) > 0.2
    assert image.text("Title") == "layer.<0>.weight"


def test_a_scale_of_2_renders_at_twice_the_resolution(page):
    once, twice = image_of(page), QImage.fromData(png_of(page, 2))
    assert twice.size() == 2 * page.size
    assert share(twice, BARS) == pytest.approx(share(once, BARS), rel=0.05)
    assert twice != once.scaled(twice.size())


def test_a_page_without_a_legend_is_lower(page, plot):
    bare = Page(plot, page.title, page.subtitle, "", LIGHT)
    assert bare.size.height() < page.size.height()
    assert image_of(bare).height() == bare.size.height()


def test_the_background_is_that_of_the_colours(page, plot):
    dark = Page(plot, page.title, page.subtitle, LEGEND, DARK)
    assert image_of(dark).pixelColor(1, 1) == QColor(DARK.background)
    assert image_of(page).pixelColor(1, 1) == QColor(LIGHT.background)


def test_an_svg_has_vector_graphics_and_text_without_images(page):
    root = ET.fromstring(svg_of(page))
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    texts = "".join(root.itertext())
    assert root[0].text == "layer.<0>.weight"
    assert texts.count("layer.<0>.weight") == 2
    assert "Norms & more: 2 channels" in texts
    assert "step 1: 7 < 8" in texts
    assert "image" not in tags
    assert any(element.get("fill") == BARS for element in root.iter())
    box = [float(number) for number in root.get("viewBox").split()]
    assert QSize(int(box[2]), int(box[3])) == page.size


def test_names_with_control_characters_give_valid_files(plot):
    page = Page(plot, "a\0b\x1b]]>&\n" + "w" * 5000, "", "", LIGHT)
    assert ET.fromstring(svg_of(page)) is not None
    assert image_of(page).height() < 600
