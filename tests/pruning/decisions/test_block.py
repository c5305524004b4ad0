"""Pruning of blocks by norm."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from targets import decide as decide_by
from targets import target

orders = st.sampled_from([0, 1, 2, "fro", math.inf, -math.inf])
Case = tuple[torch.Tensor, np.ndarray | None]


@st.composite
def tensors(draw: st.DrawFn) -> Case:
    """Return small integers, for exact norms and frequent ties, and which elements remain."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=4, max_side=7))
    values = draw(hnp.arrays(np.int8, shape, elements=st.integers(-3, 3)))
    tensor = torch.from_numpy(values).to(draw(st.sampled_from(ORDERED)))
    return tensor, draw(st.none() | hnp.arrays(bool, tensor.numel()))


decide = partial(decide_by, "block")


def blocks_of(entries: np.ndarray, shape: tuple[int, ...], height: int, width: int) -> np.ndarray:
    """Return the elements of each complete block, one row per block, in the order of the blocks."""
    matrix = entries.reshape(shape[0], -1)
    down, across = matrix.shape[0] // height, matrix.shape[1] // width
    whole = matrix[: down * height, : across * width]
    split = whole.reshape(down, height, across, width).swapaxes(1, 2)
    return split.reshape(down * across, height * width)


def power(block: np.ndarray, n: float | str) -> float:
    """Return an exact number that ranks blocks of integers like their norm."""
    magnitude = np.abs(block)
    if n == 0:
        return np.count_nonzero(magnitude)
    if n in (math.inf, -math.inf):
        return magnitude.max() if n > 0 else magnitude.min()
    return (magnitude ** (2 if n == "fro" else n)).sum()


@given(
    st.lists(tensors(), min_size=1, max_size=3),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    orders,
    st.sampled_from(["local", "global"]),
    st.floats(0, 1),
    st.data(),
)
def test_the_blocks_of_smallest_norm_are_pruned(cases, sides, n, scope, amount, data):
    doubles = {tensor.dtype is torch.float64 for tensor, _ in cases}
    assume(scope == "local" or len(doubles) == 1)  # roots of equal sums may be rounded differently
    targets = [target(t, str(i), remaining_mask) for i, (t, remaining_mask) in enumerate(cases)]
    height, width = sides
    decisions = decide(
        *targets, amount=amount, height=height, width=width, n=n, scope=scope, tail="keep"
    )
    ranked: list[list[tuple[float, int, int]]] = [[] for _ in cases]
    for i, (tensor, remaining_mask) in enumerate(cases):
        there = np.ones(tensor.numel(), bool) if remaining_mask is None else remaining_mask
        values = np.where(there, tensor.double().numpy().reshape(-1), 0)
        alive_blocks = blocks_of(there, tensor.shape, *sides)
        for b, block in enumerate(blocks_of(values, tensor.shape, *sides)):
            if alive_blocks[b].any():
                ranked[0 if scope == "global" else i].append((power(block, n), i, b))
    going = {(i, b) for some in ranked for _, i, b in sorted(some)[: round(amount * len(some))]}
    for i, ((tensor, remaining_mask), decision) in enumerate(zip(cases, decisions, strict=True)):
        found = decision.predicate.prunes(0, tensor.numel())
        expected = np.zeros(tensor.numel(), bool)
        for b, places in enumerate(blocks_of(np.arange(found.size), tensor.shape, *sides)):
            expected[places] = (i, b) in going
        assert np.array_equal(found, expected)
        assert (
            decision.pruned == (found if remaining_mask is None else found & remaining_mask).sum()
        )
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, found.size)] * 2)))
        assert np.array_equal(decision.predicate.prunes(start, stop), found[start:stop])


@given(st.integers(0, 99), st.floats(0, 1), st.integers(0, 100))
def test_max_sparsity_limits_the_blocks_of_every_target(seed, amount, most):
    generator = torch.Generator().manual_seed(seed)
    small = torch.randn(8, 12, generator=generator) / 100
    large = torch.randn(16, 8, generator=generator)
    targets = target(small, "small"), target(large, "large")
    shared = {"height": 2, "width": 4, "scope": "global", "max_sparsity": most / 100}
    decisions = decide(*targets, amount=amount, **shared)
    pruned = [decision.pruned // 8 for decision in decisions]
    capped = [most * 12 // 100, most * 16 // 100]
    assert all(some <= cap for some, cap in zip(pruned, capped, strict=True))
    assert sum(pruned) == min(round(amount * 28), sum(capped))


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e30])
@pytest.mark.parametrize("n", [0.5, 1, 2, 3, 5, "fro"])
def test_blocks_of_tiny_and_huge_weights_are_ranked(scale, n):
    tensor = torch.rand(8, 12, generator=torch.Generator().manual_seed(0)) + 0.1
    [expected] = decide(target(tensor), height=2, width=3, n=n, amount=7)
    [found] = decide(target(tensor * scale), height=2, width=3, n=n, amount=7)
    assert np.array_equal(found.predicate.prunes(0, 96), expected.predicate.prunes(0, 96))


def test_the_nuclear_norm_ranks_blocks_as_matrices():
    # Both have the same 2-norm, but the first has rank 1.
    weights = torch.tensor([[1.0, 1.0, math.sqrt(2), 0.0], [1.0, 1.0, 0.0, math.sqrt(2)]])
    [decision] = decide(target(weights), height=2, width=2, n="nuc", amount=1)
    assert decision.predicate.prunes(0, 4).tolist() == [True, True, False, False]
    weights[0, 0] = math.nan
    [decision] = decide(target(weights), height=2, width=2, n="nuc", amount=1)
    assert decision.predicate.prunes(0, 4).tolist() == [False, False, True, True]


def test_the_rank_of_an_element_is_that_of_its_block():
    weights = torch.arange(16.0).view(4, 4)
    [decision] = decide(target(weights[:, :3]), height=2, width=2, amount=1, tail="keep")
    first, second, rest = (decision.predicate.element_rank(flat) for flat in (4, 9, 2))
    assert (first.unit, first.pruned, first.rank, first.ranked) == ("block (0, 0)", True, 0, 2)
    assert (second.unit, second.pruned, second.rank) == ("block (1, 0)", False, 1)
    assert second.margin > 0 == first.margin
    assert (rest.pruned, rest.score) == (False, None)
