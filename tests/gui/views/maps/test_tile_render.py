from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.errors import Cancelled, RecipeError
from prune_gui.gui.views.maps import tiles as tiles_module
from prune_gui.gui.views.maps.tile_render import drawn_by
from prune_gui.gui.views.maps.tiles import SIDE, RasterBlock, TileGrid, Tiles
from prune_gui.monitor import Monitor


@dataclass
class Sums:
    """Paints the sum of the numbers in each cell."""

    numbers: np.ndarray
    key: str = "sums"
    painted: int = 0

    def paint(self, layout, part, monitor):
        down, across = part.cells
        rows = part.rows.start + np.arange(down) * len(part.rows) // down
        columns = part.columns.start + np.arange(across) * len(part.columns) // across
        inside = self.numbers[: part.rows.stop, : part.columns.stop]
        sums = np.add.reduceat(np.add.reduceat(inside, rows, axis=0), columns, axis=1)
        monitor.advance(len(part.rows) * len(part.columns))
        self.painted += down * across
        return RasterBlock(sums.astype("<u4").view(np.uint8).reshape(down, across, 4))

    def texts(self, layout, rows, columns):
        raise NotImplementedError


def _mosaic(rows, columns, cell):
    side = cell * SIDE
    down, across = range(-(-rows // side)), range(-(-columns // side))
    return TileGrid(SliceLayout.flattened((rows, columns)), (cell, cell), down, across)


@given(
    st.integers(1, 700),
    st.integers(1, 700),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 1 << 15, 1 << 26]),
    st.sampled_from([0, 1 << 26]),
)
def test_pieces_are_exact_and_add_up_to_the_picture_made_at_once(
    rows, columns, cell, entries, room
):
    numbers = np.random.default_rng(rows).integers(0, 1000, (rows, columns))
    mosaic, at_once, by_pieces = _mosaic(rows, columns, cell), Sums(numbers), Sums(numbers)
    whole = drawn_by(at_once, mosaic, Tiles(), {}, Monitor())
    down, across = np.arange(0, rows, cell), np.arange(0, columns, cell)
    sums = np.add.reduceat(np.add.reduceat(numbers, down, axis=0), across, axis=1)
    np.testing.assert_array_equal(whole.painted.pixels.view("<u4")[..., 0], sums)
    remembered, made, pieces = Tiles(room), {}, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "STRIP", entries)
        while len(made) < len(mosaic.places):
            drawn = drawn_by(by_pieces, mosaic, remembered, made, Monitor(), patience=0.0)
            assert made.keys() < drawn.tiles.keys()
            made, pieces = drawn.tiles, pieces + 1
            there = np.zeros(sums.shape, np.bool_)
            for row, column in made:
                there[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] = True
            shown = drawn.painted.pixels.view("<u4")[..., 0]
            np.testing.assert_array_equal(shown, np.where(there, sums, 0))
            assert drawn.shows("sums", mosaic) == drawn.is_complete == there.all()
    if entries == 1:
        assert pieces == len(mosaic.down)
    assert by_pieces.painted == at_once.painted == sums.size


def test_progress_goes_on_where_the_piece_before_ended(monkeypatch):
    monkeypatch.setattr(tiles_module, "STRIP", 1)
    numbers = np.ones((4 * SIDE, SIDE), np.int64)
    painter, mosaic = Sums(numbers), _mosaic(*numbers.shape, 1)
    told, made = [], {}
    for _ in mosaic.down:
        monitor = Monitor(lambda *progress: told.append(progress))
        made = drawn_by(painter, mosaic, Tiles(), made, monitor, patience=0.0).tiles
    assert [done / total for done, total in told] == [0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]


def test_tiles_made_before_a_cancel_are_remembered(monkeypatch):
    monkeypatch.setattr(tiles_module, "STRIP", 1)
    numbers = np.ones((3 * SIDE, SIDE), np.int64)
    painter, mosaic, tiles = Sums(numbers), _mosaic(*numbers.shape, 1), Tiles()

    class AfterTwo:
        def is_set(self):
            return painter.painted == 2 * SIDE * SIDE

    with pytest.raises(Cancelled):
        drawn_by(painter, mosaic, tiles, {}, Monitor(cancel=AfterTwo()))
    assert tiles.of("sums", mosaic).keys() == {(0, 0), (1, 0)}


def test_what_cannot_be_painted_is_a_reason():
    class Failing(Sums):
        def paint(self, layout, part, monitor):
            raise RecipeError("There is no such step.")

    painter, mosaic = Failing(np.ones((3, 3))), _mosaic(3, 3, 1)
    assert drawn_by(painter, mosaic, Tiles(), {}, Monitor()) == "There is no such step."
