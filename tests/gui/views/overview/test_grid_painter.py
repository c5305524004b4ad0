"""The painter of cells by block and role, without a widget."""

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPen

from prune_gui.architecture.blocks import sections
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.grid_painter import Cell, GridPainter
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.raster.colours import LIGHT

NAMES = [f"layers.{i}.{path}.weight" for i in range(2) for path in ("fc1", "fc2")]
RED, GREEN = "#ff0000", "#00ff00"


@pytest.fixture
def drawn(qtbot):
    """Return a function that draws equal cells and counts the pixels of a colour."""

    def draw(cell, colour, frame=None, names=NAMES):
        arrangement = Arrangement(tuple(sections(dict.fromkeys(names, (4, 4)))))
        grid = GridPainter(arrangement, lambda _name: cell, LIGHT, QFont())
        grid.frame_of = lambda _name: frame
        grid.fit(500, 400)
        image = QImage(*grid.layout.size, QImage.Format.Format_RGB32)
        painter = QPainter(image)
        grid.paint(painter, QRectF(0, 0, *grid.layout.size))
        painter.end()
        pixels = np.frombuffer(image.constBits(), np.uint32) & 0xFFFFFF
        return int(np.count_nonzero(pixels == QColor(colour).rgb() & 0xFFFFFF))

    return draw


def test_a_cell_has_its_colour_or_picture_in_its_proportions(drawn):
    whole = drawn(Cell(colour=RED), RED)
    assert drawn(Cell(pixels=np.full((3, 3, 4), (255, 0, 0, 255), np.uint8)), RED) == whole
    assert drawn(Cell(colour=RED, proportions=(0.5, 0.5)), RED) == pytest.approx(whole / 4, rel=0.1)


def test_a_cell_that_is_not_known_is_hatched(drawn):
    pale, hatched = drawn(Cell(colour=RED), LIGHT.grid), drawn(Cell(), LIGHT.grid)
    assert hatched > pale + 1000


def test_outlines_frames_locks_and_badges_are_drawn(drawn):
    plain = Cell(colour=RED)
    assert drawn(plain._replace(outline=GREEN), GREEN) > drawn(plain, GREEN)
    assert drawn(plain, GREEN, QPen(QColor(GREEN), 2.0)) > drawn(plain, GREEN)
    covered = [drawn(plain, RED), drawn(plain._replace(is_locked=True), RED)]
    covered.append(drawn(plain._replace(is_locked=True, badge="2:4"), RED))
    assert covered == sorted(set(covered), reverse=True)


@pytest.mark.parametrize("proportions", [(0.1, 1.0), (1.0, 0.1)])
def test_a_badge_that_would_hide_its_picture_is_beside_or_above_it(drawn, proportions):
    small = Cell(colour=RED, proportions=proportions)
    badged = small._replace(badge="2:4")
    assert drawn(badged, RED) == pytest.approx(drawn(small, RED), rel=0.01)
    assert drawn(badged, LIGHT.foreground) > drawn(small, LIGHT.foreground)


def test_a_badge_does_not_hide_the_caption_above_its_picture(drawn, monkeypatch):
    badges, captions = [], []
    write = GridPainter._write
    monkeypatch.setattr(GridPainter, "_draw_pill", lambda _, __, area: badges.append(area))
    monkeypatch.setattr(
        GridPainter, "_write", lambda *given: captions.append(given[2]) or write(*given)
    )
    names = ("features.conv1.weight", "features.conv2.weight", "classifier.weight")
    drawn(Cell(colour=RED, proportions=(1.0, 0.1), badge="rows"), RED, names=names)
    assert len(badges) == 3
    assert not any(badge.intersects(caption) for badge in badges for caption in captions)


def test_a_grid_without_parameters_is_empty(qtbot):
    grid = BlockGrid("")
    qtbot.addWidget(grid)
    for names in (NAMES, ()):
        arrangement = Arrangement(tuple(sections(dict.fromkeys(names, (4, 4)))))
        grid.show_cells(arrangement, lambda _name: Cell(colour=RED), LIGHT)
        grid.grab()
        assert set(grid.visible_names()) == set(names)
