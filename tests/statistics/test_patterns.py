import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.statistics import pattern_scan
from prune_gui.statistics.pattern_scan import PATTERNS, followed_by, possible

SHAPES = ((8, 16), (6, 12), (5, 4), (3, 2, 4), (2, 4, 3, 2), (7, 6), (16,), (3, 1))
METHODS = (
    {"method": "n_m", "n": 2, "m": 4},
    {"method": "n_m", "n": 1, "m": 4},
    {"method": "n_m", "n": 4, "m": 8},
    {"method": "l1_unstructured", "amount": 0.5},
    {"method": "l1_unstructured", "amount": 0.9},
    {"method": "l1_unstructured", "amount": 1.0},
    {"method": "channels", "dim": 0, "channels": [0]},
)


def _fits(step, shape):
    if step["method"] == "n_m":
        return len(shape) == 2 and shape[1] % step["m"] == 0
    return step["method"] != "channels" or len(shape) > 1


def _follows(gone, m, zeros):
    """Return the followed patterns by definition, from every group of a mask."""
    if gone.ndim < 2 or (length := int(np.prod(gone.shape[1:]))) % m:
        return False
    return all(
        group.sum() >= zeros
        for row in gone.reshape(len(gone), length)
        for group in np.split(row, length // m)
    )


@pytest.mark.parametrize("chunk", [8, 1 << 21])
@given(shape=st.sampled_from(SHAPES), step=st.sampled_from(METHODS), seed=st.integers(0, 3))
def test_a_followed_pattern_holds_in_every_group_of_the_mask(resolved, chunk, shape, step, seed):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    resolution = resolved(*([step] if _fits(step, shape) else []), w=weights)
    gone = ~resolution.mask("w").numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prune_gui.pruning.parallel.CHUNK_ELEMENTS", chunk)
        [found] = followed_by(resolution, ["w"], Monitor())
    assert found == tuple(name for name, rule in PATTERNS.items() if _follows(gone, *rule))


def test_a_row_that_does_not_divide_into_groups_follows_no_pattern():
    assert possible((4, 6)) == ()
    assert possible((4, 12)) == ("1:4", "2:4")
    assert possible((4, 2, 2, 2)) == ("1:4", "2:4", "4:8")
    assert possible((16,)) == possible(()) == ()


def test_a_mask_with_too_few_zeros_is_not_computed(resolved, monkeypatch):
    resolution = resolved({"method": "l1_unstructured", "amount": 0.4}, w=torch.randn(8, 16))
    monkeypatch.setattr(pattern_scan, "run", None)
    assert followed_by(resolution, ["w"], Monitor()) == [()]


def test_looking_for_patterns_can_be_cancelled(resolved):
    resolution = resolved({"method": "n_m", "n": 2, "m": 4}, w=torch.randn(8, 16))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        followed_by(resolution, ["w"], Monitor(cancel=cancel))
