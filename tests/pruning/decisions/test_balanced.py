"""Balanced scores and RIA against their documented formulas in numpy, bit by bit."""

import math

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import given
from hypothesis import strategies as st
from targets import decide, marked, remaining_of, target

from prune_gui.pruning.kernels.row_column import LANES
from prune_gui.pruning.selection import row_column_scores
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.row_column_scores import RIA, RowColumnScores, balanced
from prune_gui.pruning.selection.scores import TensorScores

DTYPES = [*ORDERED, torch.float8_e4m3fnuz]
SHAPES = [(1, 1), (1, 7), (9, 1), (5, 16), (7, 19), (3, 2, 3, 3), (4, 3, 2), (6, 1, 3, 3)]
EMPTY_SHAPES = [(0, 3), (3, 0), (2, 3, 0)]
# Many ties, zeros and non-finite numbers; all squares are exact.
exact = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.25, 3.0, 2**-9])
special = exact | st.sampled_from([np.inf, -np.inf, np.nan])
anything = st.floats(-4, 4, width=32) | st.floats(-(2**-10), 2**-10, width=32)


@st.composite
def tensors(
    draw: st.DrawFn, numbers: st.SearchStrategy[float]
) -> tuple[torch.Tensor, np.ndarray | None]:
    """Return a tensor of two dimensions or more, and which of its elements remain."""
    shape = draw(st.sampled_from(SHAPES))
    size = math.prod(shape)
    values = draw(st.lists(numbers, min_size=size, max_size=size))
    tensor = torch.tensor(values, dtype=torch.float64).view(shape)
    mask = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size).map(np.array))
    return tensor.to(draw(st.sampled_from(DTYPES))), mask


def in_order(numbers: np.ndarray, axis: int) -> np.ndarray:
    """Return sums that are added up in order of the elements."""
    return np.cumsum(numbers, axis=axis, dtype=np.float64).take(-1, axis=axis)


def sums_of(powers: np.ndarray, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the rows and the columns of a matrix, in the documented order."""
    rows, columns = powers.shape
    padded = np.pad(powers, ((0, 0), (0, -columns % LANES))).reshape(rows, -1, LANES)
    by_block = [in_order(powers[i : i + height], 0) for i in range(0, rows, height)]
    return in_order(in_order(padded, 1), 1), in_order(np.array(by_block), 0)


@np.errstate(over="ignore", invalid="ignore")  # invalid: numpy warns about some NaN
def reference(
    tensor: torch.Tensor, mask: np.ndarray | None, formula: str, height: int = 1 << 30
) -> np.ndarray:
    """Return the scores of a tensor by the documented formula; flat, float32 or float64."""
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    weights = tensor.to(wide).abs().numpy()
    matrix = weights.reshape(len(weights), -1).astype(np.float64)
    used = np.isfinite(matrix)
    if mask is not None:
        used &= mask.reshape(matrix.shape)
    exponent = 0
    if wide == torch.float64:
        exponent = max(int(np.frexp(np.max(matrix, where=used, initial=0.0))[1]), -1000)
    values = np.where(used, np.ldexp(matrix, -exponent), 0.0)
    row, column = sums_of(values if formula == "ria" else values * values, height)
    row_count, column_count = used.sum(1), used.sum(0)
    per_channel = (weights.shape[1], -1)
    column = in_order(column.reshape(per_channel), 1)
    column_count = column_count.reshape(per_channel).sum(1)
    factors = []
    for sums, counts in ((row, row_count), (column, column_count)):
        size = sums if formula == "ria" else np.sqrt(sums / np.maximum(counts, 1))
        size = np.where(size > 0, np.ldexp(size, exponent), 1.0)
        factor = 1.0 / (size if formula == "ria" else np.sqrt(size))
        limits = np.finfo(weights.dtype)
        factors.append(np.clip(factor, limits.tiny, limits.max / 2).astype(weights.dtype))
    row, column = factors[0][:, None], np.repeat(factors[1], math.prod(tensor.shape[2:]))
    flat = weights.reshape(matrix.shape)
    scores = flat * (row + column) if formula == "ria" else flat * row * column
    assert scores.dtype == weights.dtype
    return scores.reshape(-1)


def lowest(scores: np.ndarray, mask: np.ndarray | None, k: int) -> np.ndarray:
    """Mark the k lowest scores; of equal ones those of lower index, infinity and NaN last."""
    ranked = np.flatnonzero(np.ones(scores.size, bool) if mask is None else mask)
    own = scores[ranked]
    order = np.lexsort((np.nan_to_num(own, nan=np.inf), np.isnan(own)))
    marked = np.zeros(scores.size, bool)
    marked[ranked[order[:k]]] = True
    return marked


def pruned(decision, tensor: torch.Tensor, mask: np.ndarray | None = None) -> np.ndarray:
    """Return which remaining elements a decision prunes; flat."""
    return marked(decision, tensor, mask) & remaining_of(tensor, mask)


@pytest.mark.slow
@given(tensors(special | anything), st.sampled_from(["balanced", "ria"]), st.integers(0, 60))
def test_scores_equal_the_formula_bit_by_bit_in_any_span(drawn, formula, start):
    tensor, mask = drawn
    expected = reference(tensor, mask, formula)
    reader = None if mask is None else lambda a, b: mask[a:b]
    scores = RowColumnScores(
        TensorScores.of(tensor), reader, RIA if formula == "ria" else balanced()
    )
    start = min(start, tensor.numel())
    for first in (0, start):
        found = scores.part(first, tensor.numel()).numpy()
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected[first:], equal_nan=True)


@given(st.lists(tensors(exact), min_size=1, max_size=4), st.sampled_from(["balanced", "ria"]))
def test_a_global_step_prunes_the_k_lowest_scores_of_all_targets(drawn, formula):
    decisions = decide(
        "l1_unstructured",
        *[target(tensor, remaining_mask=mask) for tensor, mask in drawn],
        score=formula,
        scope="global",
    )
    masks = [np.ones(t.numel(), bool) if mask is None else mask for t, mask in drawn]
    scores = np.concatenate([reference(t, mask, formula).astype(float) for t, mask in drawn])
    remaining = np.concatenate(masks)
    expected = lowest(scores, remaining, round(0.5 * int(remaining.sum())))
    found = [
        pruned(one, tensor, mask)
        for one, (tensor, _), mask in zip(decisions, drawn, masks, strict=True)
    ]
    assert np.array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("formula", ["balanced", "ria"])
@pytest.mark.parametrize("stacked", [False, True])
def test_sums_in_blocks_equal_the_formula(monkeypatch, dtype, formula, stacked):
    monkeypatch.setattr(row_column_scores, "BLOCK_ELEMENTS", 4 * 90 + 5)
    tensor = torch.randn(23, 10, 3, 3).to(dtype)
    mask = (tensor.abs() > 0.3).reshape(-1).numpy() if stacked else None
    [decision] = decide(
        "l1_unstructured", target(tensor, remaining_mask=mask), score=formula, amount=700
    )
    expected = lowest(reference(tensor, mask, formula, height=4), mask, 700)
    assert np.array_equal(pruned(decision, tensor, mask), expected)


@pytest.mark.parametrize("columns", [1021, 1024, 2051])
def test_sums_of_long_rows_equal_the_formula(columns):
    tensor = torch.randn(5, columns)
    scores = RowColumnScores(TensorScores.of(tensor), None, RIA).part(0, tensor.numel())
    assert np.array_equal(scores.numpy(), reference(tensor, None, "ria"))
    mask = np.ones(tensor.numel(), bool)
    stacked = RowColumnScores(TensorScores.of(tensor), lambda a, b: mask[a:b], RIA)
    assert torch.equal(stacked.part(0, tensor.numel()), scores)


SCORED = [
    ("l1_unstructured", {}),
    ("l1_unstructured", {"scope": "row"}),
    ("erk", {}),
    ("lamp", {}),
    ("threshold", {"value": 0.4}),
    ("n_m", {"n": 1, "m": 2}),
    ("block", {"height": 2, "width": 2, "n": 1}),
    ("ln_structured", {"n": 1, "dim": 1}),
]


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("score", ["balanced", "ria"])
@pytest.mark.parametrize(("name", "parameters"), SCORED)
def test_every_scored_method_ranks_by_the_scores(name, parameters, score, stacked):
    tensor = torch.randn(12, 10)
    tensor *= torch.logspace(-1, 1, 12)[:, None] * torch.logspace(1, -1, 10)
    mask = np.arange(120) % 7 > 0 if stacked else None
    scores = torch.from_numpy(reference(tensor, mask, score)).view(tensor.shape)
    [ours] = decide(name, target(tensor, remaining_mask=mask), score=score, **parameters)
    [theirs] = decide(name, target(scores, remaining_mask=mask), **parameters)
    [by_weight] = decide(name, target(tensor, remaining_mask=mask), **parameters)
    assert np.array_equal(pruned(ours, tensor, mask), pruned(theirs, tensor, mask))
    assert not np.array_equal(pruned(ours, tensor, mask), pruned(by_weight, tensor, mask))


@given(tensors(anything), st.sampled_from(["lamp", "row", "local"]), st.floats(0, 1))
def test_balanced_is_a_method_on_balanced_scores(drawn, over, amount):
    tensor, mask = drawn
    name, scope = ("lamp", {}) if over == "lamp" else ("l1_unstructured", {"scope": over})
    drawn_target = target(tensor, remaining_mask=mask)
    [ours] = decide("balanced", drawn_target, over=over, amount=amount)
    [theirs] = decide(name, drawn_target, score="balanced", amount=amount, **scope)
    assert np.array_equal(pruned(ours, tensor, mask), pruned(theirs, tensor, mask))


@given(st.integers(0, 2**31), st.sampled_from(["row_power", "column_power"]))
def test_at_power_1_the_size_of_a_row_or_column_does_not_matter(seed, power):
    tensor = torch.randn(8, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    other_power = {"row_power": "column_power", "column_power": "row_power"}[power]
    parameters = {"over": "local", power: 1.0, other_power: 0.0}
    scale = 2.0 ** torch.arange(8 if power == "row_power" else 6)  # exact products
    scaled = tensor * (scale[:, None] if power == "row_power" else scale)
    [one], [other] = (decide("balanced", target(t), **parameters) for t in (tensor, scaled))
    assert np.array_equal(pruned(one, tensor), pruned(other, scaled))


def test_at_powers_0_the_score_is_the_magnitude():
    tensor = torch.randn(9, 7, 3)
    [one] = decide("balanced", target(tensor), over="local", row_power=0.0, column_power=0.0)
    [other] = decide("l1_unstructured", target(tensor))
    assert np.array_equal(pruned(one, tensor), pruned(other, tensor))


@pytest.mark.parametrize("score", ["balanced", "ria"])
@pytest.mark.parametrize("shape", [(), (9,)])
def test_without_columns_the_score_is_the_magnitude(score, shape):
    tensor = torch.randn(shape).to(torch.bfloat16)
    [one] = decide("l1_unstructured", target(tensor), score=score)
    [other] = decide("l1_unstructured", target(tensor))
    assert np.array_equal(pruned(one, tensor), pruned(other, tensor))


@pytest.mark.parametrize("score", ["balanced", "ria"])
@pytest.mark.parametrize("shape", EMPTY_SHAPES)
def test_parameters_without_elements_are_accepted(score, shape):
    [decision] = decide("l1_unstructured", target(torch.empty(shape)), score=score)
    assert decision.pruned == 0


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e307])
def test_extreme_float64_weights_neither_overflow_nor_vanish(scale):
    tensor = torch.randn(9, 7, dtype=torch.float64)
    for score in ("balanced", "ria"):
        [decision] = decide("l1_unstructured", target(tensor * scale), score=score)
        expected = lowest(reference(tensor * scale, None, score), None, decision.pruned)
        assert np.array_equal(pruned(decision, tensor), expected)
        assert decision.predicate.note == ""


@pytest.mark.parametrize("score", ["balanced", "ria"])
def test_rows_and_columns_of_zeros_score_zero_and_infinity_ranks_below_nan(score):
    tensor = torch.ones(4, 4)
    tensor[1], tensor[:, 2] = 0.0, 0.0
    tensor[3] = torch.tensor([math.inf, math.nan, 0.0, math.inf])
    scores = reference(tensor, None, score)
    assert (scores[tensor.reshape(-1).numpy() == 0] == 0).all()
    [decision] = decide("l1_unstructured", target(tensor), score=score, amount=15)
    assert np.flatnonzero(~pruned(decision, tensor)).tolist() == [13]


@pytest.mark.parametrize(
    ("name", "parameters", "add"),
    [
        ("l1_unstructured", {"score": "balanced"}, False),
        ("l1_unstructured", {"score": "ria", "scope": "row"}, True),
        ("n_m", {"score": "ria", "dim": 0}, True),
    ],
)
def test_an_element_is_explained_by_the_factors_of_its_row_and_column(name, parameters, add):
    tensor = torch.randn(8, 3, 2)
    [decision] = decide(name, target(tensor), **parameters)
    marked = pruned(decision, tensor)
    for flat, weight in enumerate(tensor.abs().reshape(-1).tolist()):
        rank = decision.predicate.element_rank(flat)
        row, column = rank.factors
        assert rank.score == pytest.approx(weight * (row + column if add else row * column))
        assert rank.pruned == marked[flat]


def test_a_new_amount_reads_the_rows_and_columns_from_the_cache():
    tensor = torch.randn(20, 30)
    passes: list[int] = []

    def read() -> torch.Tensor:
        passes.append(1)
        return tensor

    weights = TensorScores(read, tuple(tensor.shape), tensor.dtype)
    cache = HistogramCache()
    both = [RowColumnScores(weights, None, balanced(), cache=cache) for _ in range(2)]
    first, second = (scores.part(0, 600) for scores in both)
    assert torch.equal(first, second)
    assert len(passes) == 3  # one for the rows and columns, and one for each result
