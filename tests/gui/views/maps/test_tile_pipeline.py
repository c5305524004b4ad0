"""The order of jobs and pictures, without a window: the test runs the jobs itself."""

from dataclasses import dataclass

import numpy as np
import pytest

from prune_gui.errors import RecipeError
from prune_gui.gui.views.maps import tile_pipeline, tiles
from prune_gui.gui.views.maps.tile_pipeline import TilePipeline
from prune_gui.gui.views.maps.tiles import TILE_CELLS, RasterBlock, TileGrid
from prune_gui.monitor import Monitor
from prune_gui.raster.layouts import SliceLayout

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
        """Show a complete picture."""
        self.request(key, tile_grid)
        while self.jobs:
            self.run()
        self.seen.clear()


@pytest.fixture
def screen(monkeypatch):
    """Return a screen for which each job renders one row of tiles."""
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


def test_partial_pictures_replace_a_previous_picture_that_need_not_stay(screen):
    screen.show("a")
    screen.request("b")
    screen.run()
    assert screen.seen == [("b", 1 / 3)]


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


def test_an_error_replaces_the_picture(screen):
    screen.show("a")
    screen.request("")
    screen.run()
    assert screen.seen == ["There is no such step."]
    assert screen.pipeline.shown is None


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
