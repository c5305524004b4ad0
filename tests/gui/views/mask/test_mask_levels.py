from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.gui.views.maps.tiles import TileRegion
from prune_gui.gui.views.mask.data import (
    ALL,
    STEP_COLOURS,
    Contrast,
    MaskPainter,
    coloured,
    local_contrast,
    mask_levels,
    step_table,
)
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.raster.density import Density
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.session.subjects import Subject
from prune_gui.statistics.file_zeros import FileZeros

THEMES = st.sampled_from([LIGHT, DARK])
RANGES = st.tuples(st.floats(0, 0.9), st.floats(0.05, 1)).map(
    lambda ends: Contrast(ends[0], min(1.0, ends[0] + ends[1]))
)
LONE = st.floats(1e-12, 1e-3)
MIN_DISTANCE = 12
"""Minimum difference of a colour channel that is visible."""


def _levels(shares, steps, draft=None):
    return mask_levels(Density(np.float32(shares), np.array(steps, np.uint8)), draft)


def _rgb(text):
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def _picture(shares, steps, theme, draft=None):
    return coloured(_levels(shares, steps, draft), step_table(theme))


def _density(shares, theme, contrast):
    steps = np.where(np.array(shares) > 0, 1, 0)
    return coloured(_levels(shares, steps), step_table(theme, contrast))


def _lightness(pixels):
    linear = (pixels[..., :3] / 255) ** 2.2
    return linear @ np.array([0.2126, 0.7152, 0.0722])


@given(THEMES, st.integers(1, 255), st.none() | st.integers(1, 255))
def test_fully_pruned_and_fully_kept_cells_have_exact_colours(theme, code, draft):
    pixels = _picture([[0.0, 1.0]], [[0, code]], theme, draft)
    assert pixels.shape == (1, 2, 4)
    assert pixels[0, 0].tolist() == [*_rgb(theme.kept), 255]
    assert pixels[0, 1].tolist() == [*_rgb(theme.of(code, draft)), 255]


@given(THEMES, st.integers(1, 6), st.floats(1e-12, 1e-3))
def test_lone_pruned_and_lone_kept_elements_are_visible(theme, code, share):
    lone_pruned, lone_kept, kept, pruned = _picture(
        [[share, 1 - max(share, 1e-6), 0, 1]], [[code, code, 0, code]], theme
    )[0].astype(int)
    assert np.abs(lone_pruned - kept).max() >= MIN_DISTANCE
    assert np.abs(lone_kept - pruned).max() >= MIN_DISTANCE


@given(THEMES, st.integers(1, 6))
def test_colours_are_monotonic_in_the_share_pruned(theme, code):
    shares = np.linspace(0, 1, 500)[None]
    steps = np.where(shares > 0, code, 0)
    pixels = _picture(shares, steps, theme)[0].astype(int)
    towards = np.array([*_rgb(theme.of(code)), 255])
    distance = np.abs(pixels - towards).sum(1)
    assert np.all(np.diff(distance) <= 0)


def test_the_themes_have_as_many_step_colours_as_levels():
    assert len(LIGHT.steps) == len(DARK.steps) == STEP_COLOURS


@given(THEMES, RANGES, LONE)
def test_a_density_never_hides_a_lone_pruned_or_kept_element(theme, contrast, share):
    full, lone_pruned, lone_kept, empty = _density([[0, share, 1 - share, 1]], theme, contrast)[
        0
    ].astype(int)
    assert full.tolist() == [*_rgb(theme.kept), 255]
    assert np.abs(lone_pruned - full).max() >= MIN_DISTANCE
    if 1 - np.float32(share) < 1:
        assert np.abs(lone_kept - empty).max() >= MIN_DISTANCE


@given(THEMES, RANGES)
def test_the_lightness_of_a_density_is_monotonic(theme, contrast):
    lightness = _lightness(_density(np.linspace(0, 1, 800)[None], theme, contrast)[0])
    differences = np.diff(lightness) * (1 if theme is DARK else -1)
    assert np.all(differences >= -0.01)  # of rounded colours
    assert abs(lightness[-1] - lightness[0]) > 0.4


@given(THEMES)
def test_a_narrow_contrast_range_spreads_the_colours_of_its_shares(theme):
    shares = [[0.45, 0.55]]
    wide, narrow = (
        np.ptp(_lightness(_density(shares, theme, contrast)[0]))
        for contrast in (Contrast(), Contrast(0.45, 0.55))
    )
    assert narrow > 3 * wide


def test_gaps_are_blank_and_missing_tiles_are_transparent():
    levels = np.concatenate([_levels([[np.nan]], [[0]]), np.zeros((1, 1), np.uint16)], axis=1)
    gap, missing = coloured(levels, step_table(LIGHT))[0]
    assert gap.tolist() == [*_rgb(LIGHT.background), 255]
    assert missing[3] == 0


def test_the_local_range_is_that_of_partly_pruned_cells_without_outliers():
    shares = np.concatenate([np.full(500, 0.3), np.full(500, 0.6), [0.01], np.zeros(9), np.ones(9)])
    contrast = local_contrast(_levels(shares[None], (shares > 0)[None]))
    np.testing.assert_allclose((contrast.low, contrast.high), (0.3, 0.6), atol=1 / ALL)


def test_without_partly_pruned_cells_there_is_no_local_range():
    assert local_contrast(_levels([[0, 1, np.nan]], [[0, 1, 0]])) is None


def test_the_local_range_of_equal_shares_is_not_empty():
    contrast = local_contrast(_levels([[0.5, 0.5]], [[1, 1]]))
    assert contrast.low < 0.5 < contrast.high


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
    pixels = coloured(block.pixels, step_table(LIGHT))
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
        pixels = coloured(levels, step_table(LIGHT))[..., :3]
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
