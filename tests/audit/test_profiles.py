import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.audit import cells as cells_module
from prune_gui.audit.plane import Plane
from prune_gui.audit.profiles import profiles
from prune_gui.audit.sheet import Sheet
from prune_gui.monitor import Monitor

HALF = {"method": "l1_unstructured", "amount": 0.5}
CHANNELS = {"method": "ln_structured", "amount": 1, "n": 2, "dim": 0}


@given(
    shape=st.lists(st.integers(1, 6), max_size=4).map(tuple),
    chunk=st.sampled_from([1, 7, 1 << 20]),
    data=st.data(),
)
def test_profiles_are_the_means_of_the_mask_along_each_axis(resolved, shape, chunk, data):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    resolution = resolved(HALF, w=tensor)
    pruned = ~resolution.mask("w").numpy().reshape(-1)
    kinds = [Plane.flattened(shape), Sheet.of(shape)]
    if len(shape) > 1:
        dims = data.draw(st.permutations(range(len(shape))))[:2]
        kinds.append(Plane.section(shape, *dims, [0] * len(shape)))
    layout = data.draw(st.sampled_from([kind for kind in kinds if kind]))
    places = np.full((layout.rows, layout.columns), np.nan)
    for place in np.ndindex(places.shape):
        if layout.holds(*place):
            places[place] = pruned[layout.flat(*place)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "CHUNK", chunk)
        found = profiles(resolution, "w", layout, Monitor())
    for share, axis in ((found.rows, 1), (found.columns, 0)):
        there = ~np.isnan(places).all(axis)
        assert np.isnan(share[~there]).all()
        lines = np.compress(there, places, 1 - axis)
        np.testing.assert_allclose(share[there], np.nanmean(lines, axis), rtol=1e-12)


def test_a_pruned_channel_stands_out(resolved):
    weights = torch.ones(4, 3)
    weights[2] = 0.5
    found = profiles(resolved(CHANNELS, w=weights), "w", Plane.flattened((4, 3)), Monitor())
    assert found.rows.tolist() == [0, 0, 1, 0]
    assert found.columns.tolist() == [0.25] * 3
