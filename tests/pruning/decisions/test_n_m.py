"""n:m pruning for all dimensions, dtypes and earlier steps."""

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

from prune_gui.pruning import parallel

# Few distinct values, so that ties are common.
numbers = st.sampled_from(
    [0.0, -0.0, 0.5, -0.5, 1.0, -3.0, 2.0**-9, np.inf, -np.inf, np.nan]
) | st.floats(-4, 4, width=32)


@st.composite
def cases(draw: st.DrawFn) -> tuple[torch.Tensor, np.ndarray | None, dict[str, object]]:
    """Return a tensor, which of its elements remain, and a pattern."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=9))
    values = draw(hnp.arrays(np.float64, shape, elements=numbers))
    tensor = torch.from_numpy(values).to(draw(st.sampled_from(ORDERED)))
    m = draw(st.integers(1, 9))
    pattern = {
        "n": draw(st.integers(0, m)),
        "m": m,
        "dim": draw(st.integers(-len(shape), len(shape) - 1)),
        "flatten": draw(st.booleans()),
        "tail": "keep",
    }
    return tensor, draw(st.none() | hnp.arrays(bool, tensor.numel())), pattern


decide = partial(decide_by, "n_m")


def grouped(entries: np.ndarray, m: int, dim: int, *, flatten: bool) -> np.ndarray:
    """Return the complete groups of a tensor, one row per group."""
    dim %= entries.ndim
    if flatten:
        lines = entries.reshape(math.prod(entries.shape[:dim]), -1)
    else:
        lines = np.moveaxis(entries, dim, -1)
    whole = lines.shape[-1] // m * m
    return lines[..., :whole].reshape(-1, m)


def lowest_of_each_group(
    tensor: torch.Tensor,
    remaining_mask: np.ndarray | None,
    n: int,
    m: int,
    dim: int,
    flatten: bool,
    **_: str,
) -> np.ndarray:
    """Return the mask by definition, sorting every group."""
    exact = tensor.double().abs().numpy()
    there = (
        np.ones(exact.shape, bool)
        if remaining_mask is None
        else remaining_mask.reshape(exact.shape)
    )
    expected = np.zeros(exact.size, bool)
    places = np.arange(exact.size).reshape(exact.shape)
    groups = (grouped(a, m, dim, flatten=flatten) for a in (exact, there, places))
    for scores, remaining_here, where in zip(*groups, strict=True):
        order = np.lexsort((scores, remaining_here))
        pruned_before = np.flatnonzero(
            ~remaining_here
        )  # pruned elements come first, whatever their value
        order = np.concatenate([pruned_before, order[len(pruned_before) :]])
        expected[where[order[: m - n]]] = True
    return expected


@given(cases(), st.data())
def test_the_lowest_of_each_group_are_pruned(case, data):
    tensor, remaining_mask, pattern = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", data.draw(st.integers(1, 20)))
        [decision] = decide(target(tensor, remaining_mask=remaining_mask), **pattern)
    size = tensor.numel()
    expected = lowest_of_each_group(tensor, remaining_mask, **pattern)
    assert (
        decision.pruned == (expected & (True if remaining_mask is None else remaining_mask)).sum()
    )
    assert np.array_equal(decision.predicate.prunes(0, size), expected)
    for _ in range(5):
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
        assert np.array_equal(decision.predicate.prunes(start, stop), expected[start:stop])


@given(st.integers(100, 300), st.data())
def test_groups_of_any_size_are_ranked_correctly(m, data):
    n = data.draw(st.integers(0, m))
    seed = data.draw(st.integers(0, 99))
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randint(-50, 50, (2, 2 * m + 1, 3), generator=generator).float()
    remaining_mask = torch.rand(tensor.numel(), generator=generator).numpy() < data.draw(
        st.floats(0, 1)
    )
    pattern = {"n": n, "m": m, "dim": 1, "flatten": data.draw(st.booleans()), "tail": "keep"}
    [decision] = decide(target(tensor, remaining_mask=remaining_mask), **pattern)
    expected = lowest_of_each_group(tensor, remaining_mask, **pattern)
    assert np.array_equal(decision.predicate.prunes(0, tensor.numel()), expected)


def test_more_groups_than_one_batch_are_ranked_correctly():
    tensor = torch.randn(3, 4, 700, generator=torch.Generator().manual_seed(0)).half()
    for flatten in (False, True):
        pattern = {"n": 2, "m": 4, "dim": 1, "flatten": flatten, "tail": "refuse"}
        [decision] = decide(target(tensor), **pattern)
        expected = lowest_of_each_group(tensor, None, **pattern)
        assert np.array_equal(decision.predicate.prunes(0, tensor.numel()), expected)


def test_groups_of_a_convolution_run_over_its_flattened_input_by_default():
    # The last two of the four elements of each kernel are large.
    kernels = torch.tensor([1.0, 2.0, 8.0, 9.0]).expand(3, 4, 4).reshape(3, 4, 2, 2)
    [flat] = decide(target(kernels))
    assert flat.predicate.prunes(0, 8).tolist() == [True, True, False, False] * 2
    [along] = decide(target(kernels), flatten=False)
    assert along.predicate.prunes(0, 16).tolist() == [True] * 8 + [False] * 8


@given(cases())
def test_the_rank_of_an_element_is_that_within_its_group(case):
    tensor, remaining_mask, pattern = case
    assume(pattern["n"] < pattern["m"])
    [decision] = decide(target(tensor, remaining_mask=remaining_mask), **pattern)
    exact = tensor.double().abs().flatten().tolist()
    for flat, goes in enumerate(decision.predicate.prunes(0, tensor.numel())):
        element_rank = decision.predicate.element_rank(flat)
        assert element_rank.pruned == goes
        if element_rank.score is not None and not math.isnan(element_rank.score):
            assert element_rank.score == exact[flat]
        if remaining_mask is not None and not remaining_mask[flat]:
            assert element_rank.rank is None
        elif element_rank.rank is not None:
            left = element_rank.ranked - pattern["n"]
            assert goes == (element_rank.rank < left)
