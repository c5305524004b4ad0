import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.projections import Heads
from prune_gui.statistics.file_zeros import ZeroPatterns
from prune_gui.statistics.pattern_scan import PatternScan, possible

SHAPES = ((16, 16), (24, 20), (5, 7), (64, 128), (2, 4), (8, 8, 3), (16, 12, 3, 3), (1, 8))


def _found(zero, heads=None, chunk=1 << 21):
    scan = PatternScan(zero.shape, heads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prune_gui.parallel.CHUNK_ELEMENTS", chunk)
        spans = list(scan.spans())
    flat = np.ascontiguousarray(zero).reshape(-1)
    for start, stop in reversed(spans):
        scan.add(scan.look(start, flat[start:stop]))
    return scan.found()


def _follows(zero, m, zeros, dim, flattened):
    """Return whether every group has enough zeros, by definition."""
    if flattened:
        zero, dim = zero.reshape(len(zero), -1), 1
    if zero.shape[dim] % m:
        return False
    lines = np.moveaxis(zero, dim, -1).reshape(-1, zero.shape[dim])
    return all(group.sum() >= zeros for line in lines for group in np.split(line, len(line) // m))


def _n_m(zero):
    for name, m, zeros in (("1:4", 4, 3), ("2:4", 4, 2), ("4:8", 8, 4)):
        if _follows(zero, m, zeros, 1, True):
            return name, 1, True
        if zero.ndim > 2 and _follows(zero, m, zeros, 1, False):
            return name, 1, False
        if zero.ndim == 2 and _follows(zero, m, zeros, 0, False):
            return name, 0, False
    return "", 1, True


def _empty_blocks(zero, side):
    matrix = zero.reshape(len(zero), -1)
    return sum(
        matrix[row : row + side, column : column + side].all()
        for row in range(0, matrix.shape[0] - side + 1, side)
        for column in range(0, matrix.shape[1] - side + 1, side)
    )


@st.composite
def flags(draw):
    """Return the zeros of a parameter: scattered ones, with n:m groups, dead channels or blocks."""
    shape = draw(st.sampled_from(SHAPES))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    zero = rng.random(shape) < draw(st.sampled_from((0.0, 0.02, 0.5, 0.9, 1.0)))
    matrix = zero.reshape(shape[0], -1)
    kind = draw(st.sampled_from(("", "rows", "columns", "groups", "down", "blocks")))
    if kind == "rows":
        zero[rng.random(shape[0]) < 0.4] = True
    elif kind == "columns":
        zero[:, rng.random(shape[1]) < 0.4] = True
    elif kind == "groups" and matrix.shape[1] % 4 == 0:
        matrix.reshape(shape[0], -1, 4)[..., :2] = True
    elif kind == "down" and len(shape) == 2 and shape[0] % 4 == 0:
        matrix.reshape(-1, 4, shape[1])[:, 1:3] = True
    elif kind == "blocks":
        side = draw(st.sampled_from((4, 8)))
        matrix[side : 2 * side, :side] = matrix[: 2 * side, side : 2 * side] = True
    return zero


@given(zero=flags(), chunk=st.sampled_from((1, 200, 1 << 21)))
def test_counts_and_groups_are_those_of_every_element_looked_at_alone(zero, chunk):
    found = _found(zero, chunk=chunk)
    assert (found.zeros, found.total, found.shape) == (zero.sum(), zero.size, zero.shape)
    assert found.rows == sum(row.all() for row in zero)
    assert found.columns == sum(zero[:, column].all() for column in range(zero.shape[1]))
    assert (found.n_m, found.n_m_dim, found.n_m_flattened) == _n_m(zero)
    if found.block:
        assert found.blocks == _empty_blocks(zero, found.block) > 0
    if found.kernels:
        dead = zero.all(axis=tuple(range(2, zero.ndim)))
        lone = dead & ~dead.all(1)[:, None] & ~dead.all(0)
        assert found.kernels == lone.sum()


@given(side=st.sampled_from((4, 8, 16, 32, 64)), share=st.floats(0.1, 0.8), seed=st.integers(0, 99))
def test_the_side_of_empty_blocks_is_found_among_scattered_zeros(side, share, seed):
    rng = np.random.default_rng(seed)
    shape = (10 * side, 12 * side)
    pruned = rng.random((10, 12)) < share
    pruned[0], pruned[:, 0], pruned[1, 1] = False, False, True  # no dead channels
    pruned[1, 2:4] = pruned[2, 1:4] = False  # nor a block of twice the side
    zero = np.kron(pruned, np.ones((side, side), np.bool_))
    zero |= rng.random(shape) < 0.3
    found = _found(zero)
    if pruned.sum() < 60:  # more are in larger blocks by chance
        assert (found.block, found.blocks) == (side, pruned.sum())


@given(
    shape=st.sampled_from(((64, 64), (384, 96), (128, 64, 3, 3))),
    sparsity=st.sampled_from((0.1, 0.5, 0.8, 0.9, 0.95, 0.99)),
    seed=st.integers(0, 99),
)
def test_scattered_zeros_are_neither_blocks_nor_kernels(shape, sparsity, seed):
    zero = np.random.default_rng(seed).random(shape) < sparsity
    found = _found(zero)
    assert (found.block, found.kernels) == (0, 0)


def test_empty_kernels_among_scattered_zeros_are_found():
    rng = np.random.default_rng(0)
    zero = rng.random((32, 16, 3, 3)) < 0.4
    zero[rng.random((32, 16)) < 0.3] = True
    assert _found(zero).kernels == zero.all((2, 3)).sum()


@given(
    lost=st.integers(1, 12),
    chunk=st.sampled_from((1, 200, 1 << 21)),
    view=st.sampled_from(
        (
            ((64, 64), (64, 16, 4), 2),
            ((64, 64), (16, 4, 64), 1),
            ((40, 8, 4), (40, 2, 4, 4), 2),
            ((24, 16, 3, 3), (24, 36, 4), 2),
        )
    ),
    seed=st.integers(0, 99),
)
def test_the_groups_that_break_a_pattern_are_counted(lost, chunk, view, seed):
    (shape, in_groups, axis), rng = view, np.random.default_rng(seed)
    zero = np.zeros(shape, np.bool_)
    groups = np.moveaxis(zero.reshape(in_groups), axis, -1)
    groups[...] = rng.permuted(np.broadcast_to(np.arange(4) < 2, groups.shape), axis=-1)
    broken = rng.choice(zero.size // 4, lost, replace=False)
    groups[np.unravel_index(broken, groups.shape[:-1])] = False
    found = _found(zero, chunk=chunk)
    assert (found.n_m, found.nearly_n_m, found.broken) == ("", "2:4", lost)
    assert f"broken by {lost} of {zero.size // 4:,} groups" in found.describe()
    assert found.badge == "≈2:4"


@given(share=st.floats(0.1, 0.97), seed=st.integers(0, 99))
def test_scattered_zeros_are_nearly_no_pattern(share, seed):
    found = _found(np.random.default_rng(seed).random((128, 128)) < share)
    assert (found.nearly_n_m, found.broken) == ("", 0)


@pytest.mark.parametrize("dim", [0, 1])
def test_the_channels_of_dead_heads_are_counted_as_heads(dim):
    zero = np.zeros((48, 48), np.bool_)
    channels = np.moveaxis(zero, dim, 0)
    channels[12:24] = channels[40] = True
    found = _found(zero, Heads(dim, 12, ("0", "1", "2", "3")))
    assert (found.heads, found.head_count) == (("1",), 4)
    assert (found.rows, found.columns) == ((1, 0) if dim == 0 else (0, 1))
    lines = "rows" if dim == 0 else "columns"
    assert found.describe() == f"head 1 of 4, 1 of 48 {lines} dead"


def test_patterns_are_described_in_a_line():
    def text(shape, **fields):
        return ZeroPatterns(1, math.prod(shape), shape, **fields).describe()

    assert text((8, 8)) == ""
    assert text((8, 8), n_m="2:4") == "2:4"
    assert text((8, 8), n_m="2:4", n_m_dim=0, n_m_flattened=False) == "2:4 along dim 0"
    assert text((1536, 384), rows=190, columns=2) == "190 of 1,536 rows dead, 2 of 384 columns dead"
    assert text((8, 4, 3, 3), rows=1, columns=2, kernels=5) == (
        "1 of 8 output channels dead, 2 of 4 input channels dead, 5 of 32 kernels dead"
    )
    assert text((320, 64), block=32, blocks=12) == "60.0 % of the 32 × 32 blocks"  # noqa: RUF001
    assert ZeroPatterns(4, 4, (2, 2), rows=2).describe() == "all zero"


MASK_SHAPES = ((8, 16), (6, 12), (5, 4), (3, 2, 4), (2, 4, 3, 2), (7, 6), (16,), (3, 1))
METHODS = (
    {"method": "n_m", "n": 2, "m": 4},
    {"method": "n_m", "n": 1, "m": 4},
    {"method": "n_m", "n": 4, "m": 8},
    {"method": "l1_unstructured", "amount": 0.5},
    {"method": "l1_unstructured", "amount": 0.9},
    {"method": "l1_unstructured", "amount": 1.0},
    {"method": "channels", "dim": 0, "channels": [0]},
)


def test_a_row_that_does_not_divide_into_groups_follows_no_pattern():
    assert possible((4, 6)) == ()
    assert possible((4, 12)) == ("1:4", "2:4")
    assert possible((4, 2, 2, 2)) == ("1:4", "2:4", "4:8")
    assert possible((16,)) == possible(()) == ()
