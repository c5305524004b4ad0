"""Statistics of a tensor that is saved as a strided view equal those of its copy."""

from dataclasses import astuple, is_dataclass
from itertools import cycle

import numpy as np
import pytest
import torch
from floats import ORDERED

from prune_gui.monitor import Monitor
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.cell_statistics import (
    cell_statistics,
    max_weight_magnitude,
    means,
    pruned_shares,
)
from prune_gui.raster.density import density
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.recipe import Recipe, resolve
from prune_gui.statistics.channel_statistics import channels, norms
from prune_gui.statistics.element_scores import weights_of
from prune_gui.statistics.element_values import weights
from prune_gui.statistics.histogram import bin_edges, histogram, value_range
from prune_gui.statistics.layer_statistics import compute, empty_statistics
from prune_gui.statistics.score_histogram import score_histogram

STEP = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.4}
VIEWS = {
    "transposed": lambda whole: whole.transpose(0, 1),
    "every other": lambda whole: whole[::2, 1::2],
    "a part": lambda whole: whole[3:10, :5],
    "permuted": lambda whole: whole.view(7, 2, 9, 1).permute(2, 0, 3, 1),
    "a column": lambda whole: whole[:, 4],
    "repeated": lambda whole: whole[:1].expand(6, -1),
}
NOW = Monitor()


def _grids(one):
    shape = one.checkpoint.tensors["view"].shape
    layouts = [SliceLayout.flattened(shape), KernelLayout.of(shape)]
    return [CellGrid.over(each, cells) for each in layouts if each for cells in ((3, 2), (99, 99))]


def _scores(one, name):
    scored = weights_of(one, name)
    return score_histogram(one.checkpoint, name, scored.keys, scored.layers, NOW)


def _bins(one, name):
    edges = bin_edges(*value_range(one, name, NOW), 9, symmetric=True)
    found = histogram(one, name, edges, NOW)
    return found.edges, found.codes, found.counts, found.nan, found.infinite


FIGURES = {
    "bins": _bins,
    "cells": lambda one, name: [
        cell_statistics(weights(one, name), grid, NOW) for grid in _grids(one)
    ],
    "channels": lambda one, name: channels(one, name, 0, NOW),
    "density": lambda one, name: [density(one, name, grid, NOW) for grid in _grids(one)],
    "maximum": lambda one, name: max_weight_magnitude(one, name, NOW),
    "means": lambda one, name: means(weights(one, name), _grids(one)[0].layout, NOW),
    "norms": lambda one, name: norms(one.checkpoint, name, -1, 2, NOW),
    "scores": _scores,
    "shares": lambda one, name: pruned_shares(one, name, _grids(one)[0].layout, NOW),
}


def _plain(figure):
    if isinstance(figure, list | tuple):
        return [_plain(each) for each in figure]
    return _plain(astuple(figure)) if is_dataclass(figure) else figure


@pytest.mark.parametrize(("view", "dtype"), list(zip(VIEWS.values(), cycle(ORDERED))), ids=VIEWS)
def test_every_figure_of_a_strided_tensor_equals_that_of_its_copy(on_disk, view, dtype):
    whole = torch.randn(14, 9)
    whole[3, 4], whole[0, 2] = torch.nan, 0.0
    strided = view(whole.to(dtype))
    assert not strided.is_contiguous()
    checkpoint = on_disk({"view": strided, "copy": strided.contiguous()}, "strided.pt")
    one = resolve(Recipe.model_validate({"steps": [STEP]}), checkpoint)
    for name, figure in FIGURES.items():
        of_view, of_copy = (_plain(figure(one, each)) for each in ("view", "copy"))
        np.testing.assert_equal(of_view, of_copy, err_msg=name)
    measures = compute(empty_statistics(one), lambda _: True, NOW).measures
    np.testing.assert_array_equal(measures[0], measures[1])
