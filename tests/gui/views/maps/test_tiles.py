import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.maps.tiles import (
    MAX_PIXELS,
    TILE_CELLS,
    RasterBlock,
    Tile,
    TileCache,
    TileGrid,
    grid_lines,
    visible_region,
)
from prune_gui.raster.parameter_layouts import SliceLayout

SPANS = st.tuples(st.floats(-100, 3000), st.floats(1, 3000)).map(lambda s: (s[0], s[0] + s[1]))


def _paint(part):
    """Paint cells in colours that encode their rows and columns."""
    down, across = part.cells
    pixels = np.zeros((down, across, 4), np.uint8)
    pixels[..., 0] = (_starts(part.rows, down) % 251)[:, None]
    pixels[..., 1] = (_starts(part.columns, across) % 251)[None]
    pixels[..., 2] = np.minimum(len(part.rows) // down, 255)
    return RasterBlock(pixels, (pixels[..., 0] == 7, pixels[..., 0] < 0))


def _all(tile_grid, missing, paint=_paint):
    return dict(pair for strip in tile_grid.paint(missing, paint) for pair in strip.items())


def _starts(lines, cells):
    return lines.start + np.arange(cells) * len(lines) // cells


@given(
    st.integers(1, 3000),
    st.integers(1, 3000),
    SPANS,
    SPANS,
    st.integers(1, 900),
    st.integers(1, 900),
)
def test_tiles_cover_the_visible_region_with_cells_no_smaller_than_a_pixel(
    rows, columns, x, y, width, height
):
    pixel = ((x[1] - x[0]) / width, (y[1] - y[0]) / height)
    layout = SliceLayout.flattened((rows, columns))
    asked = visible_region(layout, x, y, pixel)
    result = TileGrid.over(layout, asked)
    for part, covered, cell, cells in (
        (asked.rows, result.rows, result.cell[0], asked.cells[0]),
        (asked.columns, result.columns, result.cell[1], asked.cells[1]),
    ):
        assert covered.start <= part.start < part.stop <= covered.stop
        assert covered.start % (cell * TILE_CELLS) == 0
        assert cell & (cell - 1) == 0
        assert cell >= len(part) / cells
        assert cell < 2 * max(1, -(-len(part) // cells))


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1))
def test_exactly_the_missing_tiles_are_painted_once(missing):
    tile_grid = TileGrid(SliceLayout.flattened((1024, 1024)), (1, 1), range(8), range(8))
    painted = np.zeros((1024, 1024), np.int64)

    def paint(part):
        painted[part.rows.start : part.rows.stop, part.columns.start : part.columns.stop] += 1
        return _paint(part)

    assert set(_all(tile_grid, list(missing), paint)) == missing
    tiles = painted[::TILE_CELLS, ::TILE_CELLS]
    assert {(i, j) for i, j in np.argwhere(tiles).tolist()} == missing
    assert painted.max() == 1


def test_many_cells_are_not_rare():
    tile_grid = TileGrid(
        SliceLayout.flattened((TILE_CELLS, 2 * TILE_CELLS)), (1, 1), range(1), range(2)
    )

    def paint(part):
        cells = np.zeros(part.cells, np.bool_)
        cells[:2, :TILE_CELLS] = True
        cells[0, TILE_CELLS] = True
        return RasterBlock(np.zeros((*part.cells, 4), np.uint8), (cells,))

    tiles = _all(tile_grid, tile_grid.indices, paint)
    assert tiles[0, 0].rare == (None,)
    assert tiles[0, 1].marks.tolist() == [[0, TILE_CELLS]]
    assert tile_grid.join(tiles).rare == (None,)
    pixels = np.zeros((30, 30, 4), np.uint8)
    all_of_them = np.zeros((900, 2))
    assert len(Tile(pixels, (all_of_them,)).marks) == 0


def test_the_second_kind_is_marked_if_the_first_is_not_rare():
    pixels = np.zeros((30, 30, 4), np.uint8)
    one = np.array([[1.0, 2.0]])
    assert Tile(pixels, (None, one)).marks.tolist() == [[1.0, 2.0]]
    assert Tile(pixels, (np.zeros((0, 2)), one)).marks.tolist() == [[1.0, 2.0]]
    assert Tile(pixels, (None, None)).marks.tolist() == []


def _tile(size):
    return Tile(np.zeros((size, 1, 4), np.uint8))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30)), max_size=40))
def test_the_tile_cache_respects_its_limit_and_counts_its_bytes(puts):
    tiles = TileCache(limit_bytes=200)
    for key, size in puts:
        tiles.put({key: _tile(size)})
        assert tiles.nbytes <= 200
        known = tiles.get(range(10))
        assert tiles.nbytes == sum(tile.nbytes for tile in known.values())


def test_lowering_the_limit_evicts_the_least_recently_used_tiles_at_once():
    tiles = TileCache(limit_bytes=200)
    tiles.put({"a": _tile(10), "b": _tile(10), "c": _tile(10)})
    tiles.limit(80)
    assert set(tiles.get("abc")) == {"b", "c"}
    assert tiles.nbytes == 80
    tiles.put({"d": _tile(10)})
    assert set(tiles.get("abcd")) == {"c", "d"}
    tiles.limit(0)
    assert tiles.nbytes == 0


ROUNDING = 1e-9
"""Of coordinates, in elements: far less than a pixel."""
RANGES = st.tuples(st.floats(-1e5, 1e5), st.floats(0.01, 1e5)).map(lambda s: (s[0], s[0] + s[1]))


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    RANGES,
    RANGES,
    st.integers(1, 6000),
    st.integers(1, 6000),
)
def test_a_frame_covers_the_visible_region_with_cells_no_smaller_than_a_pixel(
    rows, columns, x, y, width, height
):
    layout = SliceLayout.flattened((rows, columns))
    pixel = ((x[1] - x[0]) / width, (y[1] - y[0]) / height)
    result = visible_region(layout, x, y, pixel)
    for span, part, size in ((x, result.columns, columns), (y, result.rows, rows)):
        assert 0 <= part.start < part.stop <= size
        assert part.start == 0 or part.start - 0.5 <= span[0] + ROUNDING or part.start == size - 1
        assert part.stop == size or part.stop - 0.5 >= span[1] - ROUNDING or part.stop == 1
    down, across = result.cells
    assert 1 <= down <= len(result.rows)
    assert 1 <= across <= len(result.columns)
    assert across * pixel[0] <= len(result.columns) * (1 + 1e-9) or across == 1
    assert down * pixel[1] <= len(result.rows) * (1 + 1e-9) or down == 1
    assert down * across <= MAX_PIXELS


def test_the_number_of_pixels_is_limited():
    layout = SliceLayout.flattened((10_000, 10_000))
    result = visible_region(layout, (0, 10_000), (0, 10_000), (1.0, 1.0))
    assert 0.9 * MAX_PIXELS < result.cells[0] * result.cells[1] <= MAX_PIXELS


def test_grid_lines_run_between_elements_only():
    x, y = grid_lines((-0.5, 2.5), (4.25, 6.0), across=True, down=True)
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    ends = set(zip(points[::2], points[1::2], strict=True))
    assert ends == {
        *(((at, 4.25), (at, 6.0)) for at in (-0.5, 0.5, 1.5, 2.5)),
        *(((-0.5, at), (2.5, at)) for at in (4.5, 5.5)),
    }


def test_there_are_no_grid_lines_between_small_elements():
    x, y = grid_lines((0, 1000), (0, 1000), across=False, down=False)
    assert len(x) == len(y) == 0
