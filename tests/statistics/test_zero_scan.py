import json
import math
import threading
from itertools import pairwise
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui.architecture.projections import Heads
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, resolve
from prune_gui.statistics.file_zeros import FileZeros, ZeroPatterns
from prune_gui.statistics.pattern_scan import PatternScan, possible
from prune_gui.statistics.zero_scan import ZeroScan

MASK = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]).repeat(100, 50)


def _tensors():
    generator = torch.Generator().manual_seed(0)

    def sparse(*shape):
        weights = torch.randn(shape, generator=generator)
        return weights * (torch.rand(shape, generator=generator) > 0.3)

    n_m = torch.randn(160, 160, generator=generator)
    n_m.reshape(-1, 4)[:, 1:3] = -0.0
    return {
        "layer.0.bias": sparse(40),
        "layer.0.weight": sparse(200, 100),
        "long": sparse(40_000),
        "tall": sparse(30_000, 1),
        "half": sparse(160, 128).bfloat16(),
        "eighth": sparse(160, 128).to(torch.float8_e4m3fnuz),
        "conv": sparse(8, 4, 3, 3),
        "n_m": n_m,
        "scalar": torch.tensor(0.0),
        "steps": torch.zeros(3, dtype=torch.int64),
        "pair_orig": sparse(300, 100),
        "pair_mask": MASK,
    }


@pytest.fixture(scope="module", params=["safetensors", "torch", "shards"])
def path(request, tmp_path_factory):
    folder, tensors = tmp_path_factory.mktemp("zeros"), _tensors()
    if request.param == "torch":
        torch.save({"state_dict": tensors}, folder / "w.pt")
        return folder / "w.pt"
    if request.param == "safetensors":
        save_file(tensors, folder / "w.safetensors")
        return folder / "w.safetensors"
    names = {name: f"w-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        save_file({name: tensors[name] for name in names if names[name] == file}, folder / file)
    index = folder / "w.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return index


def test_the_zeros_are_those_that_a_recipe_from_zeros_counts_as_pruned(path):
    with open_checkpoint(path) as checkpoint:
        found = ZeroScan(checkpoint).advance(inf, Monitor())
        pruned = resolve(Recipe(start="zeros"), checkpoint)
        assert dict(found.counts) == {name: count for name, (count, _) in pruned.counts.items()}
        assert (found.zeros, found.elements) == pruned.total
        assert found.is_complete
        assert found.patterns["n_m"].n_m == "2:4"
        assert {"long", "scalar", "layer.0.bias"}.isdisjoint(found.patterns)
        for name, patterns in found.patterns.items():
            assert (patterns.zeros, patterns.total) == pruned.counts[name]


def test_short_slices_find_the_same_and_only_ever_more(path):
    with open_checkpoint(path) as checkpoint:
        whole = ZeroScan(checkpoint).advance(inf, Monitor())
        scan, slices = ZeroScan(checkpoint), []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("prune_gui.parallel.CHUNK_ELEMENTS", 512)
            patch.setattr("torch.get_num_threads", lambda: 2)  # a slice has spans for each thread
            while not slices or not slices[-1].is_complete:
                slices.append(scan.advance(0.0, Monitor()))
    assert slices[-1] == whole
    assert len(slices) > 20
    done = [one.done for one in slices]
    assert done == sorted(done)
    for before, after in pairwise(slices):
        assert before.counts.items() <= after.counts.items()


def test_a_cancelled_count_can_be_continued(path):
    cancel = threading.Event()
    cancel.set()
    with open_checkpoint(path) as checkpoint:
        scan = ZeroScan(checkpoint)
        with pytest.raises(Cancelled):
            scan.advance(inf, Monitor(cancel=cancel))
        whole = ZeroScan(checkpoint).advance(inf, Monitor())
        assert scan.advance(inf, Monitor()) == whole


def test_zeros_of_the_first_weights_that_are_read_are_few_in_the_file():
    assert not FileZeros({"w": 10}, done=8, total=800, elements=100).is_noticeable
    assert FileZeros({"w": 10}, done=800, total=800, elements=100).is_noticeable


def test_totals_leave_out_running_statistics(in_memory):
    norm = {"n.weight": torch.ones(4), "n.running_mean": torch.zeros(6)}
    found = ZeroScan(in_memory(norm)).advance(inf, Monitor())
    assert (found.zeros, found.elements, found.is_noticeable) == (0, 4, False)
    assert found.counts["n.running_mean"] == 6
    alone = ZeroScan(in_memory({"n.running_mean": torch.zeros(6)})).advance(inf, Monitor())
    assert (alone.zeros, alone.elements) == (6, 6)


def test_zeros_are_noticeable_unless_they_count_as_pruned_or_are_few(in_memory):
    def noticeable(recipe=None, **tensors):
        checkpoint = in_memory(tensors)
        zeros = ZeroScan(checkpoint).advance(inf, Monitor())
        return zeros.noticeable(resolve(recipe or Recipe(), checkpoint).counts)

    dense = torch.ones(1000, 100)
    tenth = torch.ones(10, 100)
    tenth[0] = 0
    assert not noticeable(a=dense)
    assert noticeable(a=dense, b=tenth) == 100  # many of the parameter
    assert not noticeable(a=dense, b=tenth[0])  # a bias that begins with zeros
    assert noticeable(a=tenth, b=tenth[0]) == 200  # many of the file
    assert not noticeable(Recipe(start="zeros"), a=dense, b=tenth)


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
