"""The order of jobs and pictures, without a window: the test runs the jobs itself."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import Cancelled, RecipeError
from prune_gui.gui.views.maps import tile_pipeline, tiles
from prune_gui.gui.views.maps import tiles as tiles_module
from prune_gui.gui.views.maps.tile_pipeline import TilePipeline, render_tiles
from prune_gui.gui.views.maps.tiles import TILE_CELLS, RasterBlock, TileCache, TileGrid
from prune_gui.monitor import Monitor
from prune_gui.raster.parameter_layouts import SliceLayout

LAYOUT = SliceLayout.flattened((3 * TILE_CELLS, TILE_CELLS))
WHOLE = TileGrid(LAYOUT, (1, 1), range(3), range(1))
REGION = TileGrid(LAYOUT, (1, 1), range(1, 2), range(1))


@dataclass(frozen=True)
class Plain:
    """Paints everything in one shade; an empty key stands for a failure."""

    key: str
    subject: str = "fc.weight"

    def paint(self, layout, part, monitor):
        if not self.key:
            raise RecipeError("There is no such step.")
        return RasterBlock(np.full((*part.cells, 4), ord(self.key), np.uint8))

    def texts(self, layout, rows, columns):
        raise NotImplementedError


class Screen:
    """A pipeline, what it shows, and its jobs, which wait until `run` is called."""

    def __init__(self):
        self.seen, self.overviews, self.jobs = [], [], []
        self.pipeline = TilePipeline("map", self._run_job, self._show, self.overviews.append)

    def _run_job(self, lane, subject, work, then):
        self.jobs.append((lane, work, then))

    def _show(self, subject, rendered):
        self.seen.append(rendered if isinstance(rendered, str) else (rendered.key, rendered.share))

    def run(self):
        """Run the oldest job and return its lane."""
        lane, work, then = self.jobs.pop(0)
        then(work(Monitor()))
        return lane

    def request(self, key, tile_grid=WHOLE, *, keep_previous=False):
        self.pipeline.request(Plain(key), tile_grid, keep_previous=keep_previous)

    def show(self, key, tile_grid=WHOLE):
        self.request(key, tile_grid)
        while self.jobs:
            self.run()
        self.seen.clear()


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setattr(tiles, "STRIP_LIMIT_ELEMENTS", 1)
    monkeypatch.setattr(tile_pipeline, "RENDER_INTERVAL_S", 0.0)
    return Screen()


def test_partial_pictures_are_shown_until_the_picture_is_complete(screen):
    screen.request("a")
    assert [screen.run() for _ in range(3)] == ["map"] * 3
    assert screen.seen == [("a", 1 / 3), ("a", 2 / 3), ("a", 1)]
    assert screen.jobs == []
    assert screen.pipeline.is_current


def test_the_previous_picture_can_stay_until_the_next_is_complete(screen):
    screen.show("a")
    screen.request("b", keep_previous=True)
    screen.run()
    assert screen.seen == [("b", 1)]


def test_another_region_of_the_same_picture_is_shown_in_parts(screen):
    screen.show("a", REGION)
    screen.pipeline.tiles.clear()
    screen.request("a", keep_previous=True)
    screen.run()
    assert screen.seen == [("a", 1 / 3)]


def test_a_cached_picture_needs_no_job(screen):
    screen.show("a")
    screen.request("a", REGION)
    assert (screen.jobs, screen.seen) == ([], [("a", 1)])


def test_the_picture_on_the_screen_is_not_shown_again(screen):
    screen.show("a")
    screen.request("a")
    assert (screen.jobs, screen.seen) == ([], [])
    screen.pipeline.shown = None  # something else replaced it
    screen.request("a")
    assert screen.seen == [("a", 1)]


def test_a_picture_that_is_no_longer_requested_is_not_rendered_further(screen):
    screen.request("a")
    screen.request("b", REGION)
    screen.run()
    assert screen.seen == [("a", 1 / 3)]
    assert len(screen.jobs) == 1
    screen.run()
    assert screen.seen[-1] == ("b", 1)


def test_a_late_picture_does_not_replace_the_requested_one(screen):
    screen.show("a")
    screen.request("b")
    screen.request("a")
    screen.run()
    assert screen.seen == []
    assert screen.pipeline.shown.key == "a"


def test_the_overview_is_rendered_in_a_lane_of_its_own(screen):
    screen.show("a", REGION)
    screen.pipeline.request_overview(Plain("a"))
    assert [screen.run(), screen.run()] == ["map.whole"] * 2  # one row of tiles is cached
    assert [overview.tile_grid for overview in screen.overviews] == [WHOLE]
    assert screen.pipeline.has_overview(screen.pipeline.shown)
    screen.pipeline.request_overview(Plain("a"))
    assert screen.jobs == []


def test_a_complete_picture_of_the_whole_parameter_is_its_own_overview(screen):
    screen.show("a")
    screen.pipeline.request_overview(Plain("a"))
    assert screen.jobs == []


def test_the_overview_of_a_replaced_picture_is_dropped(screen):
    screen.show("a", REGION)
    screen.pipeline.request_overview(Plain("a"))
    overview = screen.jobs.pop()
    screen.show("b", REGION)
    screen.jobs.append(overview)
    screen.run()
    assert (screen.jobs, screen.overviews) == ([], [])


@dataclass
class Sums:
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
    side = cell * TILE_CELLS
    down, across = range(-(-rows // side)), range(-(-columns // side))
    return TileGrid(SliceLayout.flattened((rows, columns)), (cell, cell), down, across)


@given(
    st.integers(1, 700),
    st.integers(1, 700),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 1 << 15, 1 << 26]),
    st.sampled_from([0, 1 << 26]),
)
def test_partial_pictures_are_exact_and_add_up_to_the_whole(rows, columns, cell, entries, room):
    numbers, side = (
        np.random.default_rng(rows).integers(0, 1000, (rows, columns)),
        cell * TILE_CELLS,
    )
    tile_grid, at_once, in_parts = _mosaic(rows, columns, cell), Sums(numbers), Sums(numbers)
    whole = render_tiles(at_once, tile_grid, TileCache(), {}, Monitor())
    down, across = np.arange(0, rows, cell), np.arange(0, columns, cell)
    sums = np.add.reduceat(np.add.reduceat(numbers, down, axis=0), across, axis=1)
    np.testing.assert_array_equal(whole.painted.pixels.view("<u4")[..., 0], sums)
    remembered, finished, renderings = TileCache(room), {}, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "STRIP_LIMIT_ELEMENTS", entries)
        while len(finished) < len(tile_grid.indices):
            rendered = render_tiles(
                in_parts, tile_grid, remembered, finished, Monitor(), time_limit_s=0.0
            )
            assert finished.keys() < rendered.tiles.keys()
            strip = sorted(rendered.tiles.keys() - finished.keys())
            rows_in_strip = range(strip[0][0] * side, min((strip[-1][0] + 1) * side, rows))
            assert strip[0][0] == strip[-1][0] or len(rows_in_strip) * columns <= entries
            finished, renderings = rendered.tiles, renderings + 1
            inside = np.zeros(sums.shape, np.bool_)
            for row, column in finished:
                inside[
                    row * TILE_CELLS : (row + 1) * TILE_CELLS,
                    column * TILE_CELLS : (column + 1) * TILE_CELLS,
                ] = True
            shown = rendered.painted.pixels.view("<u4")[..., 0]
            np.testing.assert_array_equal(shown, np.where(inside, sums, 0))
            assert rendered.shows("sums", tile_grid) == rendered.is_complete == inside.all()
    if entries == 1:
        assert renderings == len(tile_grid.down)
    assert in_parts.painted == at_once.painted == sums.size


def test_progress_continues_across_partial_renderings(monkeypatch):
    monkeypatch.setattr(tiles_module, "STRIP_LIMIT_ELEMENTS", 1)
    numbers = np.ones((4 * TILE_CELLS, TILE_CELLS), np.int64)
    painter, tile_grid = Sums(numbers), _mosaic(*numbers.shape, 1)
    progress_calls, finished = [], {}
    for _ in tile_grid.down:
        monitor = Monitor(lambda *progress: progress_calls.append(progress))
        finished = render_tiles(
            painter, tile_grid, TileCache(), finished, monitor, time_limit_s=0.0
        ).tiles
    shares = [done / total for done, total in progress_calls]
    assert shares == [0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]


def test_tiles_rendered_before_a_cancel_are_cached(monkeypatch):
    monkeypatch.setattr(tiles_module, "STRIP_LIMIT_ELEMENTS", 1)
    numbers = np.ones((3 * TILE_CELLS, TILE_CELLS), np.int64)
    painter, tile_grid, tiles = Sums(numbers), _mosaic(*numbers.shape, 1), TileCache()

    class AfterTwo:
        def is_set(self):
            return painter.painted == 2 * TILE_CELLS * TILE_CELLS

    with pytest.raises(Cancelled):
        render_tiles(painter, tile_grid, tiles, {}, Monitor(cancel=AfterTwo()))
    assert tiles.of("sums", tile_grid).keys() == {(0, 0), (1, 0)}


def test_a_painting_error_is_returned_as_a_message():
    class Failing(Sums):
        def paint(self, layout, part, monitor):
            raise RecipeError("There is no such step.")

    painter, tile_grid = Failing(np.ones((3, 3))), _mosaic(3, 3, 1)
    assert render_tiles(painter, tile_grid, TileCache(), {}, Monitor()) == "There is no such step."
