"""The painter of masks, without a window."""

from dataclasses import replace

import numpy as np
import torch

from prune_gui.gui.views.maps.tiles import TileRegion
from prune_gui.gui.views.mask.data import MaskPainter, coloured, step_table
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import LIGHT
from prune_gui.raster.layouts import SliceLayout
from prune_gui.session.subjects import Subject
from prune_gui.statistics.file_zeros import FileZeros

WEIGHTS = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
STEP = {"method": "l1_unstructured", "amount": 2}


def _painter(resolution, *, draft=None, zeros=0):
    info = resolution.checkpoint.tensors["w"]
    return MaskPainter(Subject(resolution, info, draft, FileZeros({"w": zeros})))


def test_a_pruned_element_has_the_colour_of_its_step_and_is_rare(resolved):
    painter = _painter(resolved(STEP, w=WEIGHTS))
    region = TileRegion(range(2), range(3), (2, 3))
    block = painter.paint(SliceLayout.flattened((2, 3)), region, Monitor())
    pruned = np.array([[True, True, False], [False, False, False]])
    colour = [int(LIGHT.steps[0][i : i + 2], 16) for i in (1, 3, 5)]
    pixels = coloured(block.pixels, step_table(LIGHT, plain=False))
    np.testing.assert_array_equal((pixels[..., :3] == colour).all(2), pruned)
    with_pruned, with_kept = block.rare
    np.testing.assert_array_equal(with_pruned, pruned)
    np.testing.assert_array_equal(with_kept, ~pruned)


def test_pictures_of_equal_keys_are_equal(resolved):
    resolution = resolved(STEP, w=WEIGHTS)
    painter = _painter(resolution)
    assert painter.key == _painter(resolution).key
    other = _painter(resolution, draft=1)
    assert other.key != painter.key
    assert other.profile_key == painter.profile_key


def test_profiles_are_the_shares_pruned_of_rows_and_columns(resolved):
    painter = _painter(resolved(STEP, w=WEIGHTS))
    profiles = painter.profiles(SliceLayout.flattened((2, 3)), Monitor())
    np.testing.assert_allclose(profiles.rows, [2 / 3, 0])
    np.testing.assert_allclose(profiles.columns, [1 / 2, 1 / 2, 0])


def test_kept_zeros_of_the_file_have_their_colour_once_they_are_counted(resolved):
    weights = WEIGHTS.clone()
    weights[1] = 0
    resolution = resolved({"method": "l1_unstructured", "amount": 1}, w=weights)
    uncounted = _painter(resolution)
    marked = MaskPainter(replace(uncounted.subject, file_zeros=FileZeros({"w": 3})))
    region = TileRegion(range(2), range(3), (2, 3))

    def has(colour, painter):
        levels = painter.paint(SliceLayout.flattened((2, 3)), region, Monitor()).pixels
        pixels = coloured(levels, step_table(LIGHT, plain=False))[..., :3]
        return (pixels == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(2).tolist()

    assert has(LIGHT.zero, marked) == [[False] * 3, [False, True, True]]
    assert has(LIGHT.steps[0], marked) == [[False] * 3, [True, False, False]]
    assert not np.any(has(LIGHT.zero, uncounted))
    assert marked.key != uncounted.key


def test_zeros_of_the_file_are_in_the_picture_and_in_the_profiles_once_they_are_counted(resolved):
    resolution = resolved(w=torch.tensor([[0.0, -2.0, 3.0], [0.0, 0.0, -6.0]]))
    layout, region = SliceLayout.flattened((2, 3)), TileRegion(range(2), range(3), (2, 3))
    before, after = (_painter(resolution, zeros=zeros) for zeros in (0, 3))
    assert before.profile_key != after.profile_key
    assert not before.paint(layout, region, Monitor()).rare[0].any()
    np.testing.assert_array_equal(
        after.paint(layout, region, Monitor()).rare[0], resolution.checkpoint.read("w") == 0
    )
    np.testing.assert_allclose(before.profiles(layout, Monitor()).rows, 0)
    np.testing.assert_allclose(after.profiles(layout, Monitor()).rows, [1 / 3, 2 / 3])
