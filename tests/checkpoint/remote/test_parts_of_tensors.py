"""Views of a part of a remote tensor fetch this part only."""

import json
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import prune_gui
from prune_gui.checkpoint.remote.fetched_blocks import BLOCK_BYTES
from prune_gui.gui.views.maps.tiles import TileRegion
from prune_gui.gui.views.mask.data import MaskPainter
from prune_gui.gui.views.weights.data import REACH_CACHE_BYTES, WeightsPainter
from prune_gui.monitor import Monitor
from prune_gui.pruning.selection.histogram_cache import LRUCache
from prune_gui.raster.colours import LIGHT
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
from prune_gui.session.subjects import Subject
from prune_gui.statistics.element_values import element_at

ROWS, COLUMNS = 2500, 1000
LAYOUT = SliceLayout.flattened((ROWS, COLUMNS))
SAMPLED_NBYTES = 8 * 2 * BLOCK_BYTES


@pytest.fixture
def large(folder, monkeypatch):
    monkeypatch.setattr("prune_gui.gui.views.weights.data.UNASKED_FETCH_BYTES", 4_000_000)
    path = folder / "large.safetensors"
    save_file({"w": torch.randn(ROWS, COLUMNS), "b": torch.randn(7)}, path)
    return path


def subject_of(checkpoint):
    resolution = prune_gui.resolve(prune_gui.Recipe(steps=[]), checkpoint)
    return Subject(resolution, checkpoint.tensors["w"], None)


def painter_of(checkpoint, reach_cache=None):
    cache = reach_cache or LRUCache(REACH_CACHE_BYTES)
    return WeightsPainter(subject_of(checkpoint), LIGHT, "value", 0, "", AuxiliaryFiles(), cache)


def test_a_picture_of_some_rows_fetches_their_blocks(server, large):
    region = TileRegion(range(900, 1200), range(100, 400), (300, 300))
    with prune_gui.open_checkpoint(f"{server.url}/{large.name}") as opened:
        painter = painter_of(opened).shows_part()
        assert painter.is_part
        limit = painter._colour_limit(Monitor())
        before = server.fetched()
        assert before <= BLOCK_BYTES + SAMPLED_NBYTES
        picture = painter.paint(LAYOUT, region, Monitor())
        assert 0 < server.fetched() - before <= 300 * COLUMNS * 4 + 2 * BLOCK_BYTES
        assert painter.limits == (limit, limit)
    with prune_gui.open_checkpoint(large) as local:
        cache = LRUCache(REACH_CACHE_BYTES)
        expected = painter_of(local, cache)
        assert not expected.shows_part().is_part
        expected._colour_limit(Monitor())
        cache.put(expected._limit_key, np.float64(limit))
        assert (expected.paint(LAYOUT, region, Monitor()).pixels == picture.pixels).all()


def test_colours_are_exact_once_all_of_a_parameter_was_shown(server, large):
    with prune_gui.open_checkpoint(f"{server.url}/{large.name}") as opened:
        painter = painter_of(opened)
        painter.paint(LAYOUT, TileRegion(range(ROWS), range(COLUMNS), (50, 10)), Monitor())
        assert not painter.shows_part().is_part


def test_texts_and_the_element_at_the_cursor_fetch_their_block(server, large):
    with (
        prune_gui.open_checkpoint(f"{server.url}/{large.name}") as opened,
        prune_gui.open_checkpoint(large) as local,
    ):
        element = element_at(subject_of(opened).resolution, "w", LAYOUT.flat(2345, 17))
        assert element == element_at(subject_of(local).resolution, "w", LAYOUT.flat(2345, 17))
        explanation = subject_of(opened).resolution.explain("w", (2345, 17))
        assert explanation.value == element.value
        texts = [
            MaskPainter(subject_of(each)).texts(LAYOUT, range(2344, 2347), range(15, 18)).tolist()
            for each in (opened, local)
        ]
        assert texts[0] == texts[1]
    assert server.fetched() == 2 * BLOCK_BYTES


def test_a_span_equals_that_of_the_local_file(server, large):
    with (
        prune_gui.open_checkpoint(f"{server.url}/{large.name}") as opened,
        prune_gui.open_checkpoint(large) as local,
    ):
        for name, span in (("w", (999, 1_456_789)), ("w", (0, 1)), ("b", (2, 7)), ("b", (3, 3))):
            expected = local.read(name).reshape(-1)[slice(*span)]
            assert torch.equal(opened.view_span(name, *span), expected)
            assert torch.equal(local.view_span(name, *span), expected)


def test_one_shard_is_read_while_another_is_fetched(server, folder):
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for i, name in enumerate(names):
        save_file({f"layer{i}.weight": torch.ones(400, 1000)}, folder / name)
    index = {"metadata": {}, "weight_map": {f"layer{i}.weight": n for i, n in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    waits, read = threading.Event(), threading.Event()

    def wait(path):
        if path.endswith(names[0]):
            waits.set()
            assert read.wait(20)

    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors.index.json") as opened:
        server.before_answer = wait
        thread = threading.Thread(target=opened.read, args=["layer0.weight"])
        thread.start()
        assert waits.wait(20)
        assert opened.read("layer1.weight").sum() == 400_000
        assert opened.missing_nbytes(["layer1.weight"]) == 0
        read.set()
        thread.join()
