import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.gui.views.maps import tiles as tiles_module
from prune_gui.gui.views.maps.mask_picture import frame
from prune_gui.gui.views.maps.tiles import SIDE, RasterBlock, Tile, TileGrid, Tiles

STRETCHES = st.tuples(st.floats(-100, 3000), st.floats(1, 3000)).map(lambda s: (s[0], s[0] + s[1]))


def _paint(part):
    """Paint cells in colours that tell which rows and columns are in them."""
    down, across = part.cells
    pixels = np.zeros((down, across, 4), np.uint8)
    pixels[..., 0] = (_starts(part.rows, down) % 251)[:, None]
    pixels[..., 1] = (_starts(part.columns, across) % 251)[None]
    pixels[..., 2] = np.minimum(len(part.rows) // down, 255)
    return RasterBlock(pixels, (pixels[..., 0] == 7, pixels[..., 0] < 0))


def _all(mosaic, missing, paint=_paint):
    """Return the tiles of all strips together."""
    return dict(pair for strip in mosaic.paint(missing, paint) for pair in strip.items())


def _starts(lines, cells):
    return lines.start + np.arange(cells) * len(lines) // cells


@given(
    st.integers(1, 3000),
    st.integers(1, 3000),
    STRETCHES,
    STRETCHES,
    st.integers(1, 900),
    st.integers(1, 900),
)
def test_tiles_cover_what_is_in_sight_in_cells_no_smaller_than_a_pixel(
    rows, columns, x, y, width, height
):
    pixel = ((x[1] - x[0]) / width, (y[1] - y[0]) / height)
    asked = frame(SliceLayout.flattened((rows, columns)), x, y, pixel)
    found = TileGrid.over(asked)
    for part, covered, cell, cells in (
        (asked.rows, found.rows, found.cell[0], asked.cells[0]),
        (asked.columns, found.columns, found.cell[1], asked.cells[1]),
    ):
        assert covered.start <= part.start < part.stop <= covered.stop
        assert covered.start % (cell * SIDE) == 0
        assert cell & (cell - 1) == 0
        assert cell >= len(part) / cells
        assert cell < 2 * max(1, -(-len(part) // cells))


@given(st.integers(1, 1500), st.integers(1, 1500), st.sampled_from([1, 2, 4, 8]), st.data())
def test_tiles_are_the_same_whichever_of_them_are_made_together(rows, columns, cell, data):
    plane = SliceLayout.flattened((rows, columns))
    tile = cell * SIDE
    mosaic = TileGrid(plane, (cell, cell), range(-(-rows // tile)), range(-(-columns // tile)))
    every = _all(mosaic, mosaic.places)
    assert list(every) == mosaic.places
    some = data.draw(st.lists(st.sampled_from(mosaic.places), unique=True, min_size=1))
    for place, tile_again in _all(mosaic, some).items():
        np.testing.assert_array_equal(tile_again.pixels, every[place].pixels)
        for again, before in zip(tile_again.rare, every[place].rare, strict=True):
            np.testing.assert_array_equal(again, before)
    pixels = mosaic.join(every).pixels
    assert pixels.shape == (-(-rows // cell), -(-columns // cell), 4)
    expected = (np.arange(pixels.shape[0]) * cell % 251).astype(np.uint8)
    np.testing.assert_array_equal(pixels[:, 0, 0], expected)


def test_each_missing_tile_is_painted_once_and_no_other():
    mosaic = TileGrid(SliceLayout.flattened((1024, 1024)), (1, 1), range(8), range(8))
    painted = np.zeros((1024, 1024), np.int64)

    def paint(part):
        painted[part.rows.start : part.rows.stop, part.columns.start : part.columns.stop] += 1
        return _paint(part)

    missing = [(0, 0), (0, 1), (1, 0), (1, 1), (5, 7), (6, 2), (6, 4)]
    assert set(_all(mosaic, missing, paint)) == set(missing)
    tiles = painted[::SIDE, ::SIDE]
    assert {(i, j) for i, j in np.argwhere(tiles).tolist()} == set(missing)
    assert painted.max() == 1


@given(
    st.integers(1, 1500),
    st.integers(1, 1500),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 1 << 20),
    st.data(),
)
def test_a_picture_comes_in_strips_of_few_entries_each_finished(rows, columns, cell, entries, data):
    tile = cell * SIDE
    plane = SliceLayout.flattened((rows, columns))
    mosaic = TileGrid(plane, (cell, cell), range(-(-rows // tile)), range(-(-columns // tile)))
    missing = data.draw(st.lists(st.sampled_from(mosaic.places), unique=True, min_size=1))
    whole = mosaic.join(_all(mosaic, mosaic.places)).pixels
    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "STRIP", entries)
        for strip in mosaic.paint(missing, _paint):
            assert not seen.keys() & strip.keys()
            size = sum(
                min(tile, rows - down * tile) * min(tile, columns - across * tile)
                for down, across in strip
            )
            assert len({row for row, _ in strip}) == 1 or size <= entries
            seen |= strip
            pixels = mosaic.join(seen).pixels
            there = _there(mosaic, seen, pixels)
            np.testing.assert_array_equal(pixels[there], whole[there])
            assert not pixels[~there].any()
    assert set(seen) == set(missing)


def test_rare_cells_keep_their_places_through_tiles():
    plane = SliceLayout.flattened((1000, 1000))
    mosaic = TileGrid(plane, (2, 2), range(4), range(4))

    def paint(part):
        cells = np.zeros(part.cells, np.bool_)
        for row, column in ((3, 5), (700, 999)):
            if row in part.rows and column in part.columns:
                cells[(row - part.rows.start) // 2, (column - part.columns.start) // 2] = True
        return RasterBlock(np.zeros((*part.cells, 4), np.uint8), (cells,))

    marks = mosaic.join(_all(mosaic, mosaic.places, paint)).marks
    assert sorted(marks.tolist()) == [[2.5, 4.5], [700.5, 998.5]]


def test_many_cells_are_not_rare():
    mosaic = TileGrid(SliceLayout.flattened((SIDE, 2 * SIDE)), (1, 1), range(1), range(2))

    def paint(part):
        cells = np.zeros(part.cells, np.bool_)
        cells[:2, :SIDE] = True
        cells[0, SIDE] = True
        return RasterBlock(np.zeros((*part.cells, 4), np.uint8), (cells,))

    tiles = _all(mosaic, mosaic.places, paint)
    assert tiles[0, 0].rare == (None,)
    assert tiles[0, 1].marks.tolist() == [[0, SIDE]]
    assert mosaic.join(tiles).rare == (None,)
    pixels = np.zeros((30, 30, 4), np.uint8)
    all_of_them = np.zeros((900, 2))
    assert len(Tile(pixels, (all_of_them,)).marks) == 0


def test_the_second_kind_is_marked_where_the_first_does_not_stand_out():
    pixels = np.zeros((30, 30, 4), np.uint8)
    one = np.array([[1.0, 2.0]])
    assert Tile(pixels, (None, one)).marks.tolist() == [[1.0, 2.0]]
    assert Tile(pixels, (np.zeros((0, 2)), one)).marks.tolist() == [[1.0, 2.0]]
    assert Tile(pixels, (None, None)).marks.tolist() == []


def _there(mosaic, tiles, pixels):
    """Return which cells lie in some tiles."""
    there = np.zeros(pixels.shape[:2], np.bool_)
    for row, column in tiles:
        there[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] = True
    return there


def _tile(size):
    return Tile(np.zeros((size, 1, 4), np.uint8))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30)), max_size=40))
def test_memory_stays_within_its_bounds_and_is_counted_right(puts):
    tiles = Tiles(room=200)
    for key, size in puts:
        tiles.put({key: _tile(size)})
        assert tiles.nbytes <= 200
        known = tiles.get(range(10))
        assert tiles.nbytes == sum(tile.nbytes for tile in known.values())


def test_the_tile_used_longest_ago_goes_first():
    tiles = Tiles(room=80)
    tiles.put({"a": _tile(10), "b": _tile(10)})
    tiles.get(["a"])
    tiles.put({"c": _tile(10)})
    assert set(tiles.get(["a", "b", "c"])) == {"a", "c"}
    tiles.clear()
    assert tiles.get(["a", "c"]) == {}
    assert tiles.nbytes == 0


def test_with_less_room_those_used_longest_ago_go_at_once_and_stay_away():
    tiles = Tiles(room=200)
    tiles.put({"a": _tile(10), "b": _tile(10), "c": _tile(10)})
    tiles.limit(80)
    assert set(tiles.get("abc")) == {"b", "c"}
    assert tiles.nbytes == 80
    tiles.put({"d": _tile(10)})
    assert set(tiles.get("abcd")) == {"c", "d"}
    tiles.limit(0)
    assert tiles.nbytes == 0
