"""The tiles of a mask: strips, cache and overview."""

import math

import numpy as np
import pytest

from prune_gui.gui.views.maps import tile_pipeline, tiles


def test_visible_tiles_are_rendered_first_and_then_the_overview(mask, bench, large, shown):
    bench.open_and_choose(large, "fc.weight")
    assert mask._pipeline._overview_key == (mask._pipeline.shown.key, mask.canvas.layout_shown)
    assert mask._pipeline.shown.tile_grid.is_whole
    for _ in range(12):
        mask.canvas.zoom(0.7)
    bench.until_idle()
    tile_grid = mask._pipeline.shown.tile_grid
    assert tile_grid.cell == (1, 1)
    assert not tile_grid.is_whole
    assert len(tile_grid.rows) <= 256
    assert mask.canvas.part.isVisible()
    assert mask.canvas.whole.isVisible()


@pytest.fixture
def in_strips(monkeypatch):
    """Paint each row of tiles as a strip, and show each strip before the next is painted."""
    monkeypatch.setattr(tiles, "STRIP_LIMIT_ELEMENTS", 1)
    monkeypatch.setattr(tile_pipeline, "RENDER_INTERVAL_S", 0.0)


@pytest.fixture
def seen(mask, bench, large, in_strips):
    """Return a record of what is on the screen after each picture of a large parameter."""
    mask.resize(700, 700)
    bench.files.open(large)
    bench.until_idle()
    bench.add(bench.step(amount=0.5))
    seen = _follow(mask)
    bench.show("fc.weight")
    return seen


def _follow(mask):
    """Return a list that records what is on the screen after each new picture."""
    seen = []

    def note():
        if mask._pipeline.shown is not None:
            seen.append(
                (mask._pipeline.shown, mask._share.text(), mask.canvas._hatching.isVisible())
            )

    mask.pictured.connect(note)
    return seen


def test_a_large_parameter_is_rendered_in_strips_with_progress(mask, seen):
    last = seen[-1][0]
    assert len(seen) == len(last.tile_grid.down) > 1
    for place, (rendered, text, hatched) in enumerate(seen, start=1):
        share = place / len(seen)
        assert text == ("" if share == 1 else f"{math.floor(100 * share)} % drawn")
        assert hatched == (share < 1)
        high = min(place * tiles.TILE_CELLS, last.painted.pixels.shape[0])
        np.testing.assert_array_equal(rendered.painted.pixels[:high], last.painted.pixels[:high])
        assert not rendered.painted.pixels[high:].any()
    assert last.is_complete
    shown = mask._pixels(last.painted.pixels, last.tile_grid.cell)
    np.testing.assert_array_equal(mask.canvas.whole.image, shown)


def test_nothing_is_requested_beside_an_outdated_picture(mask, bench, large, monkeypatch):
    bench.open_and_choose(large, "fc.weight")
    lanes = []
    look = bench.bridge.run_job

    def hold(lane, work, then, **_):
        lanes.append(lane)
        if lane != "mask":
            look(lane, work, then)

    monkeypatch.setattr(bench.bridge, "run_job", hold)
    bench.draft_step(bench.step(amount=0.3))
    mask._complete_picture()
    assert lanes == ["mask"]
