import numpy as np
import pytest
import torch

from prune_gui.architecture.projections import Heads
from prune_gui.monitor import Monitor
from prune_gui.raster.density import head_shares
from prune_gui.raster.layouts import HeadBands, SliceLayout, head_bands

LABELS = ("0", "1", "2")


@pytest.mark.parametrize("dim", [0, 1])
def test_the_share_of_each_head_is_that_of_its_channels(resolved, dim):
    shape = (12, 5) if dim == 0 else (5, 12)
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    resolution = resolved({"method": "l1_unstructured", "amount": 0.4}, w=weights)
    layout = SliceLayout.flattened(shape)
    bands = head_bands(Heads(dim, 4, LABELS), layout)
    assert bands == HeadBands(dim == 0, 4, LABELS)
    pruned = ~resolution.mask("w").numpy()
    expected = [part.mean() for part in np.split(pruned, 3, axis=dim)]
    shares = head_shares(resolution, "w", layout, bands, Monitor())
    np.testing.assert_allclose(shares, expected, rtol=1e-6)


def test_heads_of_a_vector_are_columns_unless_it_is_wrapped():
    heads, shape = Heads(0, 128, LABELS), (384,)
    assert head_bands(heads, SliceLayout.flattened(shape)) == HeadBands(False, 128, LABELS)
    assert head_bands(heads, SliceLayout.wrapped(shape)) is None


def test_without_heads_there_are_no_bands():
    assert head_bands(None, SliceLayout.flattened((4, 4))) is None
