"""Thumbnails show every element, and read no more than they need."""

import numpy as np
import pytest
import torch

from prune_gui import parallel
from prune_gui.gui.views.overview.thumbnail import (
    MAX_ASPECT,
    MAX_CELLS,
    Shading,
    make_thumbnail,
    pixels,
    proportions,
)
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import DARK, LIGHT, rgb
from prune_gui.recipe.recipe import ZERO
from prune_gui.session.subjects import Subject
from prune_gui.statistics.file_zeros import FileZeros

STEP = {"method": "l1_unstructured", "amount": 0.4}
WEIGHTS = torch.randn(96, 96, generator=torch.Generator().manual_seed(0))


def subject_of(resolution, **zeros):
    return Subject(resolution, resolution.checkpoint.tensors["w"], None, FileZeros(counts=zeros))


def per_cell(values):
    """Return the sums of the 2 x 2 elements of each cell."""
    return np.asarray(values, np.float64).reshape(48, 2, 48, 2).sum((1, 3))


def test_the_share_of_each_cell_is_exact(resolved):
    resolution = resolved(STEP, w=WEIGHTS)
    thumbnail = make_thumbnail(subject_of(resolution), Shading.STEP, Monitor())
    pruned = per_cell(~resolution.mask("w").numpy())
    np.testing.assert_array_equal(thumbnail.density.share, pruned / 4)


def test_the_pruned_energy_of_each_cell_is_exact(resolved):
    resolution = resolved(STEP, w=WEIGHTS)
    thumbnail = make_thumbnail(subject_of(resolution), Shading.ENERGY, Monitor())
    squares = WEIGHTS.double().numpy() ** 2
    pruned = per_cell(squares * ~resolution.mask("w").numpy())
    np.testing.assert_allclose(thumbnail.density.share, pruned / per_cell(squares), rtol=1e-5)


def test_cells_without_energy_lose_none(resolved):
    resolution = resolved(STEP, w=torch.zeros(8, 8))
    thumbnail = make_thumbnail(subject_of(resolution), Shading.ENERGY, Monitor())
    assert not thumbnail.density.share.any()


@pytest.mark.parametrize("chunk", [1 << 20, 500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_magnitude_of_a_cell_is_relative_to_the_matrix(resolved, monkeypatch, dtype, chunk):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    weights = WEIGHTS.clone().to(dtype)
    weights[:2] *= 40
    weights[2:4] = 0
    thumbnail = make_thumbnail(subject_of(resolved(STEP, w=weights)), Shading.MAGNITUDE, Monitor())
    squares = weights.double().numpy() ** 2
    rms = np.sqrt(squares.mean())
    expected = np.clip(np.sqrt(per_cell(squares) / 4) / rms - 0.5, 0, 1)
    np.testing.assert_allclose(thumbnail.density.share, expected, atol=1e-5)
    assert thumbnail.rms == pytest.approx(rms)
    assert thumbnail.shows(subject_of(resolved(w=WEIGHTS)), Shading.MAGNITUDE) is False


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_magnitudes_that_are_no_numbers_have_a_colour(resolved, value):
    resolution = resolved(w=torch.full((8, 8), value))
    thumbnail = make_thumbnail(subject_of(resolution), Shading.MAGNITUDE, Monitor())
    assert np.isfinite(thumbnail.density.share).all()
    assert thumbnail.rms == 0


@pytest.mark.parametrize("shading", [Shading.STEP, Shading.DENSITY, Shading.ENERGY])
def test_a_parameter_without_steps_is_not_read(resolved, monkeypatch, shading):
    resolution = resolved(w=WEIGHTS)
    monkeypatch.setattr(resolution.checkpoint, "read", None)
    monkeypatch.setattr(resolution.checkpoint, "view", None)
    thumbnail = make_thumbnail(subject_of(resolution), shading, Monitor())
    assert not thumbnail.density.share.any()


def test_a_thumbnail_is_out_of_date_after_another_step_but_not_after_one_elsewhere(resolved):
    before = resolved(STEP, w=WEIGHTS)
    thumbnail = make_thumbnail(subject_of(before), Shading.STEP, Monitor())
    assert thumbnail.shows(subject_of(before), Shading.DENSITY)
    assert not thumbnail.shows(subject_of(before), Shading.ENERGY)
    assert not thumbnail.shows(subject_of(resolved(w=WEIGHTS)), Shading.STEP)


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((8, 8), (1.0, 1.0)),
        ((16, 8), (0.5, 1.0)),
        ((8, 2, 3, 3), (1.0, 8 / 18)),
        ((30_000, 8), (1 / MAX_ASPECT, 1.0)),
        ((12,), (1.0, 1 / MAX_ASPECT)),
        ((1024,), (1.0, 1.0)),
        ((), (1.0, 1.0)),
    ],
)
def test_the_sides_of_a_thumbnail_are_those_of_the_matrix_within_limits(shape, sides):
    assert proportions(shape) == pytest.approx(sides)


@pytest.mark.parametrize("shape", [(3, 500), (500, 3), (1, 1), (7,), ()])
def test_a_thumbnail_has_at_most_a_cell_per_row_and_column(resolved, shape):
    resolution = resolved(w=torch.ones(shape))
    share = make_thumbnail(subject_of(resolution), Shading.STEP, Monitor()).density.share
    assert max(share.shape) <= MAX_CELLS
    assert share.size <= max(1, np.prod(shape))


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_colours_follow_the_scale_of_the_theme(resolved, colours):
    resolution = resolved(
        {"method": "ln_structured", "amount": 4, "n": 2, "dim": 0}, w=torch.eye(8)
    )
    thumbnail = make_thumbnail(subject_of(resolution), Shading.DENSITY, Monitor())
    image = pixels(thumbnail, Shading.DENSITY, colours, None)
    pruned = thumbnail.density.share[:, 0] == 1
    assert pruned.sum() == 4
    assert (image[pruned, :, :3] == rgb(colours.scale[-1])).all()
    assert (image[~pruned, :, :3] == rgb(colours.scale[0])).all()
    assert (image[..., 3] == 255).all()


def test_zeros_in_the_file_are_shown_and_counted_together_with_pruned_elements(resolved):
    weights = WEIGHTS.clone()
    weights[:10] = 0
    weights[:, 7] = 0
    resolution = resolved({"method": "ln_structured", "amount": 30, "n": 2, "dim": 0}, w=weights)
    subject = subject_of(resolution, w=int((weights == 0).sum()))
    thumbnail = make_thumbnail(subject, Shading.STEP, Monitor())
    zero = (~resolution.mask("w") | (weights == 0)).numpy()
    np.testing.assert_array_equal(thumbnail.density.share, per_cell(zero) / 4)
    assert thumbnail.zeros((96, 96)) == zero.sum()
    assert ZERO in thumbnail.density.step
    assert not thumbnail.shows(subject_of(resolution), Shading.STEP)


@pytest.mark.parametrize("shape", [(1000, 700), (3, 500), (17,)])
def test_zeros_are_counted_exactly_in_cells_of_any_size(resolved, shape):
    resolution = resolved({"method": "random_unstructured", "amount": 0.3}, w=torch.ones(shape))
    thumbnail = make_thumbnail(subject_of(resolution), Shading.STEP, Monitor())
    assert thumbnail.zeros(shape) == resolution.counts["w"][0]
