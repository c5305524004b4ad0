import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit.raster.density import Density
from prune_gui.audit.raster.slice_layout import SliceLayout
from prune_gui.gui.views.maps.mask_picture import MAX_PIXELS, colour, frame, grid
from prune_gui.gui.widgets.theme import DARK, LIGHT

THEMES = st.sampled_from([LIGHT, DARK])
STRETCHES = st.tuples(st.floats(-1e5, 1e5), st.floats(0.01, 1e5)).map(lambda s: (s[0], s[0] + s[1]))


def _rgb(text):
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def _picture(shares, steps, theme, draft=None):
    shape = np.shape(shares)
    cells = Density(range(shape[0]), range(shape[1]), np.float32(shares), np.array(steps, np.uint8))
    return colour(cells, theme, draft)


@given(THEMES, st.integers(1, 255), st.none() | st.integers(1, 255))
def test_a_whole_cell_has_the_colour_of_its_step(theme, code, draft):
    pixels = _picture([[0.0, 1.0]], [[0, code]], theme, draft)
    assert pixels.shape == (1, 2, 4)
    assert pixels[0, 0].tolist() == [*_rgb(theme.kept), 255]
    assert pixels[0, 1].tolist() == [*_rgb(theme.of(code, draft)), 255]


@given(THEMES, st.integers(1, 6), st.floats(1e-12, 1e-3))
def test_a_lone_entry_of_either_kind_can_be_seen(theme, code, share):
    lone_pruned, lone_kept, kept, pruned = _picture(
        [[share, 1 - max(share, 1e-6), 0, 1]], [[code, code, 0, code]], theme
    )[0].astype(int)
    assert np.abs(lone_pruned - kept).max() >= 12
    assert np.abs(lone_kept - pruned).max() >= 12


@given(THEMES, st.integers(1, 6))
def test_more_pruned_never_looks_less_pruned(theme, code):
    shares = np.linspace(0, 1, 500)[None]
    steps = np.where(shares > 0, code, 0)
    pixels = _picture(shares, steps, theme)[0].astype(int)
    towards = np.array([*_rgb(theme.of(code)), 255])
    distance = np.abs(pixels - towards).sum(1)
    assert np.all(np.diff(distance) <= 0)


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    STRETCHES,
    STRETCHES,
    st.integers(1, 6000),
    st.integers(1, 6000),
)
def test_a_frame_covers_what_is_in_sight_with_no_cell_below_a_pixel(
    rows, columns, x, y, width, height
):
    plane = SliceLayout.flattened((rows, columns))
    pixel = ((x[1] - x[0]) / width, (y[1] - y[0]) / height)
    found = frame(plane, x, y, pixel)
    for span, part, size in ((x, found.columns, columns), (y, found.rows, rows)):
        assert 0 <= part.start < part.stop <= size
        assert part.start == 0 or part.start - 0.5 <= span[0] or part.start == size - 1
        assert part.stop == size or part.stop - 0.5 >= span[1] or part.stop == 1
    down, across = found.cells
    assert 1 <= down <= len(found.rows)
    assert 1 <= across <= len(found.columns)
    assert across * pixel[0] <= len(found.columns) * (1 + 1e-9) or across == 1
    assert down * pixel[1] <= len(found.rows) * (1 + 1e-9) or down == 1
    assert down * across <= MAX_PIXELS


def test_a_wide_screen_gets_no_more_pixels_than_can_be_painted():
    plane = SliceLayout.flattened((10_000, 10_000))
    found = frame(plane, (0, 10_000), (0, 10_000), (1.0, 1.0))
    assert 0.9 * MAX_PIXELS < found.cells[0] * found.cells[1] <= MAX_PIXELS


def test_lines_run_between_entries_and_not_outside():
    x, y = grid((-0.5, 2.5), (4.25, 6.0), across=True, down=True)
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    ends = set(zip(points[::2], points[1::2], strict=True))
    assert ends == {
        *(((at, 4.25), (at, 6.0)) for at in (-0.5, 0.5, 1.5, 2.5)),
        *(((-0.5, at), (2.5, at)) for at in (4.5, 5.5)),
    }


def test_there_are_no_lines_where_entries_are_small():
    x, y = grid((0, 1000), (0, 1000), across=False, down=False)
    assert len(x) == len(y) == 0
