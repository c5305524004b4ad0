from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.maps.tiles import MAX_PIXELS, grid_lines, visible_region
from prune_gui.raster.parameter_layouts import SliceLayout

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
