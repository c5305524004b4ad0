import pytest
import torch

from prune_gui.audit import kernels
from prune_gui.audit.density import density
from prune_gui.audit.histogram import bin_edges, histogram, share_below, value_range
from prune_gui.audit.norms import channels
from prune_gui.audit.plane import Plane
from prune_gui.monitor import Monitor

LOOPS = (
    kernels.count_cells,
    kernels.sum_up_cells,
    kernels.count_bins,
    kernels.widen_range,
    kernels.count_channel_steps,
    kernels.count_at_most,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nothing_is_left_to_compile_after_warming_up(resolved, dtype):
    kernels.warm_up()
    known = [set(loop.signatures) for loop in LOOPS]
    resolution = resolved(
        {"method": "l1_unstructured", "amount": 0.5}, w=torch.ones(3, 4).to(dtype)
    )
    plane = Plane.flattened((3, 4))
    density(resolution, "w", plane, range(3), range(4), (2, 2), Monitor())
    density(resolution, "w", plane.transposed, range(4), range(3), (2, 2), Monitor())
    edges = bin_edges(*value_range(resolution.checkpoint, "w", Monitor()), 4, symmetric=True)
    histogram(resolution, "w", edges, Monitor())
    share_below(resolution, ("w",), 0.5, Monitor())
    channels(resolution, "w", 1, Monitor())
    assert [set(loop.signatures) for loop in LOOPS] == known
