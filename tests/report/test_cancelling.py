"""All work on a checkpoint ends soon after it is cancelled."""

import pytest
import torch
from applied import CancelAfter

from prune_gui.comparison.difference import difference
from prune_gui.comparison.mask_overlap import shares
from prune_gui.comparison.state_losses import compute_losses, empty_losses
from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.raster.cell_grid import CellGrid
from prune_gui.raster.cell_statistics import cell_statistics
from prune_gui.raster.density import density
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.report.collecting import report_on_files
from prune_gui.statistics.element_values import weights
from prune_gui.statistics.layer_statistics import compute, empty_statistics

GRID = CellGrid.over(SliceLayout.flattened((8, 16)), (5, 5))
WORK = {
    "cells": lambda one, monitor: cell_statistics(weights(one, "w"), GRID, monitor),
    "density": lambda one, monitor: density(one, "w", GRID, monitor),
    "difference": lambda one, monitor: difference(one.checkpoint, one.checkpoint, cancel=monitor),
    "layers": lambda one, monitor: compute(empty_statistics(one), lambda _: True, monitor),
    "losses": lambda one, monitor: compute_losses(empty_losses(one, one), lambda _: True, monitor),
    "report": lambda one, monitor: report_on_files([one.checkpoint], None, monitor),
    "shares": lambda one, monitor: shares(one, one, "w", GRID, monitor),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_work_can_be_cancelled(resolved, work):
    half = resolved({"method": "n_m", "n": 2, "m": 4}, w=torch.randn(8, 16))
    with pytest.raises(Cancelled):
        work(half, Monitor(cancel=CancelAfter(0)))
