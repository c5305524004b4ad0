"""Statistics of a tensor that is saved as a strided view equal those of its copy."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from floats import ORDERED

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.raster.cell_statistics import (
    cell_statistics,
    max_weight_magnitude,
    means,
    pruned_shares,
)
from prune_gui.raster.density import density
from prune_gui.raster.layouts import KernelLayout, SliceLayout
from prune_gui.recipe import Recipe, resolve
from prune_gui.statistics.element_values import weights
from prune_gui.statistics.histogram import bin_edges, histogram, value_range
from prune_gui.statistics.norms import channels, norms
from prune_gui.statistics.score_histogram import score_histogram
from prune_gui.statistics.scores import weights_of

STEP = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.4}
VIEWS = {
    "transposed": lambda whole: whole.transpose(0, 1),
    "every other": lambda whole: whole[::2, 1::2],
    "a part": lambda whole: whole[3:10, :5],
    "permuted": lambda whole: whole.view(7, 2, 9, 1).permute(2, 0, 3, 1),
    "a column": lambda whole: whole[:, 4],
    "repeated": lambda whole: whole[:1].expand(6, -1),
}


@pytest.fixture(params=VIEWS)
def view(request):
    random = torch.Generator().manual_seed(1)
    whole = torch.randn(14, 9, generator=random)
    whole[3, 4], whole[0, 2] = torch.nan, 0.0
    return lambda dtype: VIEWS[request.param](whole.to(dtype))


@pytest.fixture(params=ORDERED, ids=str)
def pair(request, view, tmp_path):
    """Return a resolution of a view and of its copy, both from one file, and the values."""
    strided = view(request.param)
    assert not strided.is_contiguous()
    path = tmp_path / "strided.pt"
    torch.save({"view": strided, "copy": strided.contiguous()}, path)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(Recipe.model_validate({"steps": [STEP]}), checkpoint)
        yield resolution, strided.double().contiguous().numpy()


def both(look):
    """Return the statistics of the view and of the copy, as plain objects."""
    return [look(name) for name in ("view", "copy")]


def alike(found):
    one, other = found
    for part in fields(one):
        np.testing.assert_equal(getattr(one, part.name), getattr(other, part.name))
    return one


def test_every_view_of_a_strided_tensor_equals_that_of_its_copy(pair):
    resolution, values = pair
    layout = SliceLayout.flattened(values.shape)
    sides = range(layout.rows), range(layout.columns)
    gone = (resolution.pruned_by("view").numpy() != 0).reshape(layout.rows, layout.columns)
    for cells in ((layout.rows, layout.columns), (3, 2)):
        found = alike(
            both(lambda name, c=cells: density(resolution, name, layout, *sides, c, Monitor()))
        )
        measured = alike(
            both(
                lambda name, c=cells: cell_statistics(
                    weights(resolution, name), layout, *sides, c, Monitor()
                )
            )
        )
        if cells == gone.shape:
            np.testing.assert_array_equal(found.share, gone)
            laid_flat = values.reshape(gone.shape)
            np.testing.assert_array_equal(
                measured.mean, np.where(np.isfinite(laid_flat), laid_flat, np.nan)
            )
    finite = np.abs(values[np.isfinite(values)])
    assert max_weight_magnitude(resolution, "view", Monitor()) == finite.max()
    if kernel_layout := KernelLayout.of(values.shape):
        whole = (
            range(kernel_layout.rows),
            range(kernel_layout.columns),
            (kernel_layout.rows, kernel_layout.columns),
        )
        alike(both(lambda name: density(resolution, name, kernel_layout, *whole, Monitor())))


def test_profiles_of_a_strided_tensor_equal_those_of_numpy(pair):
    resolution, values = pair
    layout = SliceLayout.flattened(values.shape)
    gone = (resolution.pruned_by("view").numpy() != 0).reshape(layout.rows, layout.columns)
    shares = pruned_shares(resolution, "view", layout, Monitor())
    np.testing.assert_allclose(shares.rows, gone.mean(1))
    np.testing.assert_allclose(shares.columns, gone.mean(0))
    found = means(weights(resolution, "view"), layout, Monitor())
    laid_flat = values.reshape(gone.shape)
    np.testing.assert_allclose(found.rows, np.nanmean(laid_flat, 1))


def test_bins_of_a_strided_tensor_equal_those_of_numpy(pair):
    resolution, values = pair
    codes, finite = resolution.pruned_by("view").numpy(), np.isfinite(values)
    edges = bin_edges(*value_range(resolution, "view", Monitor()), 9, symmetric=True)
    found = histogram(resolution, "view", edges, Monitor())
    for code, counts in zip(found.codes, found.counts, strict=True):
        expected, _ = np.histogram(values[finite & (codes == code)], edges)
        np.testing.assert_array_equal(counts, expected)

    def scores(name):
        scored = weights_of(resolution, name)
        return score_histogram(resolution.checkpoint, name, scored.keys, scored.layers, Monitor())

    one, other = both(scores)
    for part in ("bounds", "counts", "non_finite", "energy"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    assert one.counts.sum() == finite.sum()


def test_channels_of_a_strided_tensor_equal_those_of_its_copy(pair):
    resolution, values = pair
    for dim in range(values.ndim):
        alike(both(lambda name, dim=dim: channels(resolution, name, dim, Monitor())))
        lined_up = np.moveaxis(values, dim, 0).reshape(values.shape[dim], -1)
        found = norms(resolution.checkpoint, "view", dim, 2, Monitor())
        np.testing.assert_allclose(found, np.linalg.norm(lined_up, axis=1), rtol=1e-6)
