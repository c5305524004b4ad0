"""Blocks, n:m groups, thresholds and listed channels: against their definitions."""

import math

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError
from targets import decide, marked, remaining_of, target, unread

from prune_gui import parallel
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.channels import MAX_CHANNELS, format_ranges, parse_ranges

# Few distinct values, so that ties are common; and numbers that differ in every digit.
numbers = st.sampled_from(
    [0.0, -0.0, 0.5, -0.5, 1.0, -3.0, 2.0**-9, 448.0, 1e30, np.inf, -np.inf, np.nan]
) | st.floats(-4, 4, width=32)
integers = st.integers(-3, 3).map(float)  # for exact norms


@st.composite
def tensors(draw, elements=numbers, dtypes=ORDERED, min_dims=1, max_side=7):
    """Return a tensor, and which of its elements remain."""
    shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=4, max_side=max_side))
    values = draw(hnp.arrays(np.float64, shape, elements=elements))
    tensor = torch.from_numpy(values).to(draw(st.sampled_from(dtypes)))
    return tensor, draw(st.none() | hnp.arrays(bool, tensor.numel()))


def generated(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def blocks_of(entries, shape, height, width):
    """Return the elements of each complete block, one row per block, in the order of the blocks."""
    matrix = entries.reshape(shape[0], -1)
    down, across = matrix.shape[0] // height, matrix.shape[1] // width
    whole = matrix[: down * height, : across * width]
    split = whole.reshape(down, height, across, width).swapaxes(1, 2)
    return split.reshape(down * across, height * width)


def power(block, n):
    """Return an exact number that ranks blocks of integers like their norm."""
    magnitude = np.abs(block)
    if n == 0:
        return np.count_nonzero(magnitude)
    if n in (math.inf, -math.inf):
        return magnitude.max() if n > 0 else magnitude.min()
    return (magnitude ** (2 if n == "fro" else n)).sum()


@given(
    st.lists(tensors(integers, min_dims=2), min_size=1, max_size=3),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from([0, 1, 2, "fro", math.inf, -math.inf]),
    st.sampled_from(["local", "global"]),
    st.floats(0, 1),
)
def test_the_blocks_of_smallest_norm_are_pruned(cases, sides, n, scope, amount):
    doubles = {tensor.dtype is torch.float64 for tensor, _ in cases}
    assume(scope == "local" or len(doubles) == 1)  # roots of equal sums may be rounded differently
    targets = [target(tensor, str(i), mask) for i, (tensor, mask) in enumerate(cases)]
    fields = {"height": sides[0], "width": sides[1], "n": n, "scope": scope, "tail": "keep"}
    decisions = decide("block", *targets, amount=amount, **fields)
    ranked = [[] for _ in cases]
    for i, (tensor, mask) in enumerate(cases):
        remaining = remaining_of(tensor, mask)
        values = np.where(remaining, tensor.double().numpy().reshape(-1), 0)
        is_left = blocks_of(remaining, tensor.shape, *sides).any(1)
        for b, block in enumerate(blocks_of(values, tensor.shape, *sides)):
            if is_left[b]:
                ranked[0 if scope == "global" else i].append((power(block, n), i, b))
    lowest = {(i, b) for some in ranked for _, i, b in sorted(some)[: round(amount * len(some))]}
    for i, ((tensor, mask), decision) in enumerate(zip(cases, decisions, strict=True)):
        expected = np.zeros(tensor.numel(), bool)
        for b, indices in enumerate(blocks_of(np.arange(expected.size), tensor.shape, *sides)):
            expected[indices] = (i, b) in lowest
        assert np.array_equal(marked(decision, tensor, mask), expected)


@given(st.integers(0, 99), st.floats(0, 1), st.integers(0, 100))
def test_max_sparsity_limits_the_blocks_of_every_target(seed, amount, percent):
    targets = target(generated(8, 12, seed=seed) / 100, "a"), target(generated(16, 8), "b")
    shared = {"height": 2, "width": 4, "scope": "global", "max_sparsity": percent / 100}
    pruned = [one.pruned // 8 for one in decide("block", *targets, amount=amount, **shared)]
    limits = [percent * 12 // 100, percent * 16 // 100]
    assert all(some <= limit for some, limit in zip(pruned, limits, strict=True))
    assert sum(pruned) == min(round(amount * 28), sum(limits))


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e30])
@pytest.mark.parametrize("n", [0.5, 1, 2, 3, 5, "fro"])
def test_blocks_of_tiny_and_huge_weights_are_ranked(scale, n):
    tensor = generated(8, 12).abs() + 0.1
    fields = {"height": 2, "width": 3, "n": n, "amount": 7}
    [expected], [found] = (decide("block", target(t), **fields) for t in (tensor, tensor * scale))
    assert np.array_equal(marked(found, tensor), marked(expected, tensor))


@pytest.mark.parametrize(("first", "expected"), [(1.0, [1, 1, 0, 0]), (math.nan, [0, 0, 1, 1])])
def test_the_nuclear_norm_ranks_blocks_as_matrices(first, expected):
    # Both have the same 2-norm, but the first has rank 1.
    weights = torch.tensor([[first, 1.0, math.sqrt(2), 0.0], [1.0, 1.0, 0.0, math.sqrt(2)]])
    [decision] = decide("block", target(weights), height=2, width=2, n="nuc", amount=1)
    assert marked(decision, weights)[:4].tolist() == expected


def test_the_rank_of_an_element_is_that_of_its_block():
    weights = torch.arange(16.0).view(4, 4)[:, :3]
    [decision] = decide("block", target(weights), height=2, width=2, amount=1, tail="keep")
    first, second, rest = (decision.predicate.element_rank(flat) for flat in (4, 9, 2))
    assert (first.unit, first.pruned, first.rank, first.ranked) == ("block (0, 0)", True, 0, 2)
    assert (second.unit, second.pruned, second.rank) == ("block (1, 0)", False, 1)
    assert second.margin > 0 == first.margin
    assert (rest.pruned, rest.score) == (False, None)


@st.composite
def patterns(draw, dims):
    m = draw(st.integers(1, 9))
    return {
        "n": draw(st.integers(0, m)),
        "m": m,
        "dim": draw(st.integers(-dims, dims - 1)),
        "flatten": draw(st.booleans()),
        "tail": "keep",
    }


def grouped(entries, m, dim, *, flatten):
    """Return the complete groups of a tensor, one row per group."""
    dim %= entries.ndim
    if flatten:
        lines = entries.reshape(math.prod(entries.shape[:dim]), -1)
    else:
        lines = np.moveaxis(entries, dim, -1)
    return lines[..., : lines.shape[-1] // m * m].reshape(-1, m)


def lowest_of_groups(tensor, mask, n, m, dim, flatten, **_):
    """Return the mask by definition, sorting every group; pruned elements come first."""
    arrays = tensor.double().abs().numpy(), remaining_of(tensor, mask), np.arange(tensor.numel())
    groups = (grouped(a.reshape(tensor.shape), m, dim, flatten=flatten) for a in arrays)
    expected = np.zeros(tensor.numel(), bool)
    for scores, remaining, indices in zip(*groups, strict=True):
        order = np.lexsort((scores, remaining))
        before = np.flatnonzero(~remaining)  # whatever their value
        order = np.concatenate([before, order[len(before) :]])
        expected[indices[order[: m - n]]] = True
    return expected


@given(tensors(max_side=9), st.data())
def test_the_lowest_of_each_group_are_pruned(case, data):
    tensor, mask = case
    pattern = data.draw(patterns(tensor.dim()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", data.draw(st.integers(1, 20)))
        [decision] = decide("n_m", target(tensor, remaining_mask=mask), **pattern)
    expected = lowest_of_groups(tensor, mask, **pattern)
    assert np.array_equal(marked(decision, tensor, mask), expected)
    for _ in range(5):
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, expected.size)] * 2)))
        assert np.array_equal(decision.predicate.prunes(start, stop), expected[start:stop])


@given(st.integers(100, 300), st.integers(0, 99), st.booleans(), st.data())
def test_groups_of_any_size_are_ranked_correctly(m, seed, flatten, data):
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randint(-50, 50, (2, 2 * m + 1, 3), generator=generator).float()
    share = data.draw(st.floats(0, 1))
    mask = torch.rand(tensor.numel(), generator=generator).numpy() < share
    n = data.draw(st.integers(0, m))
    pattern = {"n": n, "m": m, "dim": 1, "flatten": flatten, "tail": "keep"}
    [decision] = decide("n_m", target(tensor, remaining_mask=mask), **pattern)
    expected = lowest_of_groups(tensor, mask, **pattern)
    assert np.array_equal(marked(decision, tensor, mask), expected)


@pytest.mark.parametrize("flatten", [False, True])
def test_more_groups_than_one_batch_are_ranked_correctly(flatten):
    tensor, pattern = generated(3, 4, 700).half(), {"n": 2, "m": 4, "dim": 1, "flatten": flatten}
    [decision] = decide("n_m", target(tensor), **pattern)
    assert np.array_equal(marked(decision, tensor), lowest_of_groups(tensor, None, **pattern))


def test_groups_of_a_convolution_run_over_its_flattened_input_by_default():
    # The last two of the four elements of each kernel are large.
    kernels = torch.tensor([1.0, 2.0, 8.0, 9.0]).expand(3, 4, 4).reshape(3, 4, 2, 2)
    [flat] = decide("n_m", target(kernels))
    assert flat.predicate.prunes(0, 8).tolist() == [True, True, False, False] * 2
    [along] = decide("n_m", target(kernels), flatten=False)
    assert along.predicate.prunes(0, 16).tolist() == [True] * 8 + [False] * 8


@given(tensors(max_side=9), st.data())
def test_the_rank_of_an_element_is_that_within_its_group(case, data):
    tensor, mask = case
    pattern = data.draw(patterns(tensor.dim()))
    assume(pattern["n"] < pattern["m"])
    [decision] = decide("n_m", target(tensor, remaining_mask=mask), **pattern)
    exact = tensor.double().abs().flatten().tolist()
    for flat, is_pruned in enumerate(marked(decision, tensor, mask)):
        rank = decision.predicate.element_rank(flat)
        assert rank.pruned == is_pruned
        if rank.score is not None and not math.isnan(rank.score):
            assert rank.score == exact[flat]
        if not remaining_of(tensor, mask)[flat]:
            assert rank.rank is None
        elif rank.rank is not None:
            assert is_pruned == (rank.rank < rank.ranked - pattern["n"])


@given(tensors(dtypes=[*ORDERED, torch.float8_e4m3fnuz]), st.data())
def test_elements_below_the_threshold_as_real_numbers_are_pruned(case, data):
    tensor, mask = case
    exact = tensor.double().abs().flatten().numpy()
    finite = exact[np.isfinite(exact)]
    at_an_entry = st.sampled_from(finite) if finite.size else st.nothing()
    value = data.draw(
        at_an_entry
        | at_an_entry.map(lambda x: float(np.nextafter(x, np.inf)))
        | at_an_entry.map(lambda x: max(0.0, float(np.nextafter(x, -np.inf))))
        | st.floats(0, 5)
        | st.floats(0, 1e308)
    )
    [decision] = decide("threshold", target(tensor, remaining_mask=mask), value=float(value))
    expected = (exact < value) & np.isfinite(exact)
    assert np.array_equal(marked(decision, tensor, mask), expected)


@given(tensors(), st.floats(0, 3), st.integers(1, 9))
def test_the_standard_deviation_is_that_of_all_finite_elements(case, value, chunk):
    tensor, mask = case
    exact = tensor.double().flatten()
    finite = exact[exact.isfinite()]
    assume(len(finite) > 1)
    threshold = value * finite.std().item()
    magnitude = exact.abs()
    assume(not ((magnitude - threshold).abs() <= 1e-9 * max(1, threshold)).any())
    given_target = target(tensor, remaining_mask=mask)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        [decision] = decide("threshold", given_target, value=value, relative_to="std")
    assert marked(decision, tensor, mask).tolist() == (magnitude < threshold).tolist()


def test_the_rank_of_an_element_has_its_distance_to_the_threshold():
    [decision] = decide("threshold", target(torch.tensor([0.25, -2.0, 0.5])), value=0.5)
    rank = decision.predicate.element_rank(1)
    assert (rank.pruned, rank.margin, rank.rank) == (False, 1.5, 2)
    assert decision.predicate.element_rank(0).margin == -0.25


def test_a_number_that_yaml_parses_as_text_is_accepted():
    assert METHODS["threshold"].model_validate({"value": "1e-3"}).value == 0.001


@given(hnp.array_shapes(max_dims=4, max_side=6), st.data())
def test_exactly_the_listed_channels_are_pruned(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    channels = data.draw(st.lists(st.integers(0, shape[dim] - 1), min_size=1, unique=True))
    mask = data.draw(st.none() | hnp.arrays(bool, math.prod(shape)))
    [decision] = decide("channels", unread(shape, remaining_mask=mask), channels=channels, dim=dim)
    expected = np.zeros(shape, bool)
    np.moveaxis(expected, dim, 0)[channels] = True
    assert np.array_equal(marked(decision, torch.empty(shape), mask), expected.reshape(-1))
    rank = decision.predicate.element_rank(int(np.flatnonzero(expected)[0]))
    assert (rank.pruned, rank.unit, rank.score) == (True, f"channel {min(channels)}", None)


@pytest.mark.parametrize(
    ("channels", "says"),
    [
        ([], "at least one"),
        ("", "at least one"),
        ([2, -1], "-1 is invalid"),
        ([3, 5, 3], "channel 3 is named more than once"),
        ("3, 1-4", "channel 3 is named more than once"),
        *(
            (text, f"'{text}' is not a list of channels")
            for text in ("-1", "one", "1-2-3", "1-", "²", "1.5", "1" * 40)
        ),
        ("5-4", "5-4 holds no channels"),
        (f"0-{MAX_CHANNELS}", "too many"),
        ("0-99999999999999", "too many"),
        ([1.0], "valid integer"),
        ([True], "valid integer"),
        (3, "valid tuple"),
        (None, "valid tuple"),
    ],
)
def test_an_invalid_list_of_channels_is_refused_with_the_reason(channels, says):
    with pytest.raises(ValidationError, match=says):
        METHODS["channels"].model_validate({"channels": channels})


def test_a_text_of_ranges_equals_a_list():
    method = METHODS["channels"].model_validate({"channels": " 3,7 , 12 - 15,"})
    assert method.channels == (3, 7, 12, 13, 14, 15)
    assert method.model_dump(mode="json")["channels"] == [3, 7, 12, 13, 14, 15]
    assert format_ranges([3, 7, 12, 13, 14, 20, 21]) == "3, 7, 12-14, 20, 21"


@given(st.lists(st.integers(0, 40), unique=True))
def test_a_formatted_list_parses_to_it(channels):
    assert parse_ranges(format_ranges(channels)) == tuple(channels)
