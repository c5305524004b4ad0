import numpy as np
import pytest
import torch

from prune_gui.monitor import Monitor
from prune_gui.raster import group_patterns
from prune_gui.raster.group_patterns import pattern_of, verdict
from prune_gui.raster.parameter_layouts import KernelLayout, SliceLayout
from prune_gui.statistics.file_zeros import FileZeros
from prune_gui.statistics.pattern_scan import PatternScan

GENERATOR = torch.Generator().manual_seed(0)
TWO_OF_FOUR = {"method": "n_m", "n": 2, "m": 4}
BLOCKS = {"method": "block", "height": 2, "width": 3, "amount": 0.5}
ONE_AT_RANDOM = {"method": "random_unstructured", "amount": 1}
RANDOM = {"method": "random_unstructured", "amount": 5}


def _random(*shape):
    return torch.randn(shape, generator=GENERATOR) + 10  # no zeros


def _verdict(resolution, zeros=None):
    zeros = zeros or FileZeros()
    info = resolution.checkpoint.tensors["w"]
    marked = resolution.marking_zeros("w") if zeros.counts else resolution
    pattern = pattern_of(resolution, info, zeros)
    return pattern and verdict(marked, "w", pattern, Monitor())


def _zeros_of(weights):
    scan = PatternScan(tuple(weights.shape))
    scan.add(scan.look(0, (weights == 0).numpy().reshape(-1)))
    count = int((weights == 0).sum())
    return FileZeros({"w": count}, {"w": scan.found()}, elements=weights.numel())


@pytest.fixture(params=[None, 24])
def chunk(request, monkeypatch):
    """Count in one chunk, or in several."""
    if request.param:
        monkeypatch.setattr(group_patterns, "CHUNK_ELEMENTS", request.param)


@pytest.mark.parametrize(
    ("shape", "options", "text"),
    [
        ((6, 8), {}, "2:4 along dim 1: 12 of 12 groups hold"),
        ((8, 6), {"dim": 0, "flatten": False}, "2:4 along dim 0: 12 of 12 groups hold"),
        ((8, 6), {"dim": 0}, "2:4 along dim 0, flattened: 12 of 12 groups hold"),
        ((6, 4, 3), {}, "2:4 along dim 1, flattened: 18 of 18 groups hold"),
        ((6, 4, 3), {"flatten": False}, "2:4 along dim 1: 18 of 18 groups hold"),
        ((3, 11), {"tail": "keep"}, "2:4 along dim 1: 6 of 6 groups hold"),
        ((16,), {"dim": 0}, "2:4 along dim 0: 4 of 4 groups hold"),
    ],
)
def test_all_groups_of_an_n_m_step_hold_and_a_later_step_leaves_fewer_in_some(
    resolved, chunk, shape, options, text
):
    weights = _random(*shape)
    n_m = TWO_OF_FOUR | options
    found = _verdict(resolved(n_m, w=weights))
    assert found.describe() == text
    assert found.after(0) is None
    found = _verdict(resolved(n_m, ONE_AT_RANDOM, w=weights))
    assert found.describe() == f"{text}; 1 keep fewer than 2"
    assert found.after(0) is None


def test_a_later_step_breaks_the_blocks_that_it_prunes_in_part(resolved, chunk):
    weights = _random(8, 9)
    assert _verdict(resolved(BLOCKS, w=weights)).describe() == (
        "Blocks of 2 × 3: 12 of 12 are all pruned or all kept"  # noqa: RUF001
    )
    resolution = resolved(BLOCKS, RANDOM, w=weights)
    blocks = resolution.mask("w").numpy().reshape(4, 2, 3, 3).sum((1, 3))
    found = _verdict(resolution)
    rows, columns = np.nonzero((blocks > 0) & (blocks < 6))
    assert 0 < found.broken == len(rows)
    np.testing.assert_array_equal(found.positions, rows * 18 + columns * 3)
    assert found.after(-1) == found.after(71) == found.positions[0]
    assert found.after(int(found.positions[0])) == found.positions[1]


def test_the_zeros_of_a_file_have_a_verdict_too(resolved):
    weights = _random(16, 16)
    weights[:, ::4] = weights[:, 1::4] = 0
    found = _verdict(resolved(w=weights), _zeros_of(weights))
    assert (found.groups, found.broken) == (64, 0)
    weights[2, 4] = 1
    found = _verdict(resolved(w=weights), _zeros_of(weights))
    assert (found.groups, found.broken, found.after(0)) == (64, 1, 36)
    at_random = weights.reshape(-1)[torch.randperm(256, generator=GENERATOR)].reshape(16, 16)
    assert _verdict(resolved(w=at_random), _zeros_of(at_random)) is None


def test_groups_are_rectangles_in_the_layouts_that_show_them(resolved):
    def cells(layout, shape=(8, 8, 3, 3), **options):
        resolution = resolved(TWO_OF_FOUR | options, w=_random(*shape))
        info = resolution.checkpoint.tensors["w"]
        return pattern_of(resolution, info, FileZeros()).cells(layout)

    shape = (8, 8, 3, 3)
    flattened, section = (
        SliceLayout.flattened(shape),
        SliceLayout.section(shape, 0, 1, (0, 0, 1, 1)),
    )
    assert cells(flattened) == (1, 4)
    assert cells(flattened, flatten=False) is None
    assert cells(section, flatten=False) == (1, 4)
    assert cells(flattened, dim=0, flatten=False) == (4, 1)
    assert cells(KernelLayout.of(shape)) is None
