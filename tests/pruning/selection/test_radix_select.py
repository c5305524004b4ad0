"""Radix selection, with limits and row by row, compared with plain sorting."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import parallel
from prune_gui.monitor import Monitor
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import ElementCut, RowCut
from prune_gui.pruning.selection import radix_select as row_cuts
from prune_gui.pruning.selection.histogram_cache import HistogramCache
from prune_gui.pruning.selection.keys import (
    KeySource,
    RandomKeys,
    Ranking,
    ScoreKeys,
    ranking_dtype,
    raw_bits,
)
from prune_gui.pruning.selection.radix_select import (
    MAX_SMALL_ELEMENTS,
    RowShape,
    count_below,
    find_cuts,
    find_row_cuts,
    mark,
    smallest,
)
from prune_gui.pruning.selection.scores import TensorScores

ONE_ROW = RowShape(1, 1, 6)
DTYPES = [*ORDERED, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
dtypes = st.sampled_from(DTYPES)
# Few distinct values, so that ties are common; both zeros, infinities and NaN among them.
values = st.lists(
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, 1.25, -3.0, 1e-3, np.inf, -np.inf, np.nan])
    | st.floats(-4, 4, width=32),
    min_size=1,
    max_size=60,
)


def k_smallest(scores: torch.Tensor, k: int) -> torch.Tensor:
    """The definition: a stable sort of the absolute values, NaN above infinity."""
    exact = scores.reshape(-1).double().abs().numpy()
    chosen = torch.zeros(exact.size, dtype=torch.bool)
    chosen[np.argsort(exact, stable=True)[:k].copy()] = True
    return chosen.view(scores.shape)


def keys_of(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> ScoreKeys:
    return ScoreKeys(TensorScores.of(tensor), dtype or ranking_dtype({tensor.dtype}))


def marked(keys: list[KeySource], k: int) -> list[np.ndarray]:
    cuts = find_cuts([Ranking(key) for key in keys], k, Monitor())
    masks = [mark(key, cut, 0, key.size) for key, cut in zip(keys, cuts, strict=True)]
    assert [int(m.sum()) for m in masks] == [cut.pruned for cut in cuts]
    return masks


@given(values, dtypes, st.data())
def test_the_k_smallest_equal_those_of_a_stable_sort_in_every_float_type(numbers, dtype, data):
    scores = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    k = data.draw(st.integers(0, len(numbers)))
    assert torch.equal(smallest(scores, k), k_smallest(scores, k))


@given(st.lists(st.tuples(values, dtypes), min_size=1, max_size=4), st.data())
def test_tensors_of_mixed_dtypes_are_cut_like_one_tensor(parts, data):
    tensors = [torch.tensor(v, dtype=torch.float64).to(d) for v, d in parts]
    shared = ranking_dtype({tensor.dtype for tensor in tensors})
    k = data.draw(st.integers(0, sum(map(torch.numel, tensors))))
    found = marked([keys_of(tensor, shared) for tensor in tensors], k)
    expected = k_smallest(torch.cat([tensor.double() for tensor in tensors]), k)
    assert np.array_equal(np.concatenate(found), expected.numpy())


@given(values, st.data())
def test_pruned_elements_are_neither_counted_nor_cut(numbers, data):
    scores = torch.tensor(numbers)
    remaining_mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    )
    k = data.draw(st.integers(0, int(remaining_mask.sum())))
    keys = keys_of(scores)
    [cut] = find_cuts([Ranking(keys, lambda start, stop: remaining_mask[start:stop])], k, Monitor())
    expected = np.zeros(len(numbers), bool)
    expected[np.flatnonzero(remaining_mask)] = k_smallest(
        scores[torch.from_numpy(remaining_mask)], k
    ).numpy()
    assert cut.pruned == k
    assert np.array_equal(mark(keys, cut, 0, keys.size) & remaining_mask, expected)


@given(st.permutations(range(24)), st.integers(0, 24))
def test_strides_do_not_matter(order, k):
    scores = torch.tensor(order, dtype=torch.float32).view(2, 3, 4)
    for seen in (scores.transpose(0, 2), scores[:, :, ::2], scores.permute(1, 2, 0)):
        count = min(k, seen.numel())
        assert torch.equal(smallest(seen, count), k_smallest(seen.contiguous(), count))


def test_scalars_and_empty_tensors_are_accepted():
    assert smallest(torch.tensor(3.0), 1).item() is True
    assert smallest(torch.zeros(0, 3), 0).shape == (0, 3)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 21])
def test_threads_and_chunks_do_not_change_the_cut(monkeypatch, set_torch_threads, threads, chunk):
    tensors = [torch.randint(-9, 9, (n,)).float() for n in (500, 1, 321)]
    expected = marked([keys_of(tensor) for tensor in tensors], 400)
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    set_torch_threads(threads)
    found = marked([keys_of(tensor) for tensor in tensors], 400)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a, b)


def test_the_mask_of_a_span_equals_that_span_of_the_whole_mask():
    keys = keys_of(torch.randint(-3, 3, (100,)).float())
    [cut] = find_cuts([Ranking(keys)], 50, Monitor())
    whole = mark(keys, cut, 0, 100)
    for start, stop in ((0, 1), (13, 57), (57, 100), (99, 100)):
        assert np.array_equal(mark(keys, cut, start, stop), whole[start:stop])


def test_non_finite_scores_are_counted_and_pruned_last():
    scores = torch.tensor([np.nan, 1.0, np.inf, -2.0, -np.inf])
    [cut] = find_cuts([Ranking(keys_of(scores))], 2, Monitor())
    assert cut.non_finite == 3
    assert smallest(scores, 4).tolist() == [False, True, True, True, True]


def nans_of(dtype: torch.dtype) -> torch.Tensor:
    """Four NaNs of different bits, and two numbers."""
    tensor = torch.zeros(6, dtype=dtype)
    bits = raw_bits(tensor)
    infinity = int(raw_bits(torch.tensor([np.inf], dtype=dtype))[0])
    sign = 1 << (8 * dtype.itemsize - 1)
    bits[:4] = [infinity + 3, infinity + 1, infinity + 2 | sign, infinity + 1]
    bits[4:] = [infinity, infinity - 1]
    return tensor


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2]
)
@pytest.mark.parametrize("k", range(7))
def test_nans_of_different_bits_rank_equal(dtype, k):
    scores = nans_of(dtype)
    assert smallest(scores, k).tolist() == [i in ([5, 4, 0, 1, 2, 3][:k]) for i in range(6)]
    [cut] = find_cuts([Ranking(keys_of(scores))], k, Monitor())
    predicate = ElementCut(Ranking(keys_of(scores)), Lazy.of_value(cut))
    element_ranks = [predicate.element_rank(i) for i in range(6)]
    assert [element_rank.rank for element_rank in element_ranks] == [2, 3, 4, 5, 1, 0]
    assert [element_rank.pruned for element_rank in element_ranks] == smallest(scores, k).tolist()
    rows = find_row_cuts(Ranking(keys_of(scores)), np.array([k]), ONE_ROW)
    assert np.array_equal(
        RowCut(Ranking(keys_of(scores)), ONE_ROW, Lazy.of_value(rows)).prunes(0, 6),
        smallest(scores, k),
    )


def test_random_keys_are_equal_for_any_span_and_differ_by_seed_and_label():
    keys = RandomKeys(seed=3, label="layer.weight", size=1000)
    whole = keys.bits(0, 1000)
    assert np.array_equal(keys.bits(321, 654), whole[321:654])
    for other in (RandomKeys(4, "layer.weight", 1000), RandomKeys(3, "layer.bias", 1000)):
        assert np.mean(other.bits(0, 1000) == whole) < 0.01


def test_random_keys_prune_every_index_with_equal_probability():
    pruned_counts = np.zeros(64)
    for seed in range(400):
        [found] = marked([RandomKeys(seed, "w", 64)], 16)
        pruned_counts += found
    # 400 draws with probability 1/4: mean 100, standard deviation about 8.7. The limit is five of
    # them, which is practically never exceeded.
    assert pruned_counts.sum() == 400 * 16
    assert np.abs(pruned_counts - 100).max() < 44


@given(st.floats(0, 5) | st.floats(0, 1e300), dtypes)
def test_first_key_is_the_lowest_key_of_at_least_the_value(value, dtype):
    keys = keys_of(torch.zeros(1, dtype=dtype))
    first = keys.first_key(value)
    assert first == keys.first_non_finite or keys.value(first) >= value
    assert first == 0 or keys.value(first - 1) < value


@given(st.lists(values, min_size=1, max_size=3), dtypes, st.floats(0, 5), st.booleans())
def test_elements_below_a_key_are_counted_exactly(parts, dtype, value, masked):
    tensors = [torch.tensor(part, dtype=torch.float64).to(dtype) for part in parts]
    remaining_mask = [
        np.arange(len(part)) % 3 > 0 if masked else np.ones(len(part), bool) for part in parts
    ]
    keys = [keys_of(tensor) for tensor in tensors]
    rankings = [
        Ranking(key, (lambda start, stop, mask=mask: mask[start:stop]) if masked else None)
        for key, mask in zip(keys, remaining_mask, strict=True)
    ]
    results = count_below(rankings, keys[0].first_key(value), Monitor())
    for tensor, mask, counted in zip(tensors, remaining_mask, results, strict=True):
        exact = tensor.double().abs().numpy()[mask]
        assert counted.below == np.count_nonzero(exact < value)
        assert counted.remaining == len(exact)
        assert counted.non_finite == np.count_nonzero(~np.isfinite(exact))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_cut_at_a_counted_key_reads_no_elements_again(dtype):
    size = MAX_SMALL_ELEMENTS + 1
    tensor = torch.randn(size).to(dtype)
    reads = []

    def read() -> torch.Tensor:
        reads.append(1)
        return tensor

    keys = ScoreKeys.of(TensorScores(read, (size,), dtype))
    ranking, at = Ranking(keys, histogram_cache=HistogramCache()), float(tensor.double().abs()[7])
    beyond = keys.first_key(math.nextafter(at, math.inf))
    [counted] = count_below([ranking], beyond, Monitor())
    reads_before = len(reads)
    [cut] = find_cuts([ranking], counted.below, Monitor())
    assert len(reads) == reads_before
    assert keys.value(cut.threshold) == at
    assert (cut.pruned, cut.last_tie) == (counted.below, size - 1)
    count_below([ranking], keys.first_key(at / 2), Monitor())
    assert len(reads) > reads_before or dtype is torch.bfloat16


@pytest.mark.parametrize("key", [0, 1 << 16, 12345, (1 << 16) - 1])
def test_the_progress_of_count_below_ends_at_its_total(key):
    reported: list[tuple[int, int]] = []
    monitor = Monitor(lambda *amounts: reported.append(amounts))
    count_below([Ranking(keys_of(torch.rand(1000)))], key, monitor)
    assert reported[-1] == (8000, 8000)


LIMITED = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2]
# Few distinct values, so that ties are at the cut; the floats differ in every digit of a key.
FEW = [0.0, 0.5, -0.5, 1.0, -3.0, 1e-3, np.nan]
few_numbers = st.sampled_from(FEW) | st.floats(-4, 4, width=32)


@st.composite
def capped(draw: st.DrawFn) -> tuple[list[torch.Tensor], list[np.ndarray], list[int], int]:
    """Tensors of one dtype, their remaining masks, the limit of each, and k."""
    dtype = draw(st.sampled_from(LIMITED))
    lists = draw(st.lists(st.lists(few_numbers, min_size=1, max_size=25), min_size=1, max_size=5))
    tensors = [torch.tensor(values, dtype=torch.float64).to(dtype) for values in lists]
    remaining_mask = [
        np.array(draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
        for values in lists
    ]
    limits = [draw(st.integers(0, int(mask.sum()))) for mask in remaining_mask]
    return tensors, remaining_mask, limits, draw(st.integers(0, sum(limits)))


def one_by_one(
    tensors: list[torch.Tensor], remaining_mask: list[np.ndarray], limits: list[int], k: int
) -> list[np.ndarray]:
    """The definition: prune sorted elements in order, except of tensors at their limit."""
    elements = sorted(
        (np.nan_to_num(abs(float(value)), nan=np.inf), np.isnan(float(value)), i, index)
        for i, tensor in enumerate(tensors)
        for index, value in enumerate(tensor.double())
        if remaining_mask[i][index]
    )
    pruned = [np.zeros(tensor.numel(), bool) for tensor in tensors]
    for _, _, i, index in elements:
        if sum(part.sum() for part in pruned) < k and pruned[i].sum() < limits[i]:
            pruned[i][index] = True
    return pruned


def within(remaining_mask: np.ndarray):
    return lambda start, stop: remaining_mask[start:stop]


@given(capped())
def test_a_tensor_at_its_limit_loses_no_more_elements(case):
    tensors, remaining_mask, limits, k = case
    keys = [keys_of(tensor) for tensor in tensors]
    rankings = [
        Ranking(key, within(mask), limit)
        for key, mask, limit in zip(keys, remaining_mask, limits, strict=True)
    ]
    cuts = find_cuts(rankings, k, Monitor())
    expected = one_by_one(tensors, remaining_mask, limits, k)
    for key, cut, remaining, wanted in zip(keys, cuts, remaining_mask, expected, strict=True):
        assert np.array_equal(mark(key, cut, 0, key.size) & remaining, wanted)
        assert cut.pruned == wanted.sum()


@given(
    st.sampled_from(LIMITED),
    st.sampled_from([(1, 1, 7), (1, 6, 7), (7, 5, 1), (3, 4, 2), (2, 1, 3), (3, 1, 1)]),
    st.lists(few_numbers, min_size=5, max_size=5),
    st.sampled_from([1, 9, 1 << 26]),
    st.data(),
)
def test_each_row_loses_its_own_smallest(dtype, shape, pool, gathered, data):
    size, shape = math.prod(shape), RowShape(*shape)
    drawn = data.draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size))
    tensor = torch.tensor(drawn, dtype=torch.float64).to(dtype).view(shape)
    remaining_mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    rows = np.moveaxis(remaining_mask.reshape(shape), 1, 0).reshape(shape.rows, -1)
    units = np.array([data.draw(st.integers(0, int(count))) for count in rows.sum(1)])
    ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)), within(remaining_mask))
    with mock.patch.object(row_cuts, "GATHERED_ELEMENTS", gathered):
        cuts = find_row_cuts(ranking, units, shape)
    predicate = RowCut(ranking, shape, Lazy.of_value(cuts))
    marked = predicate.prunes(0, size) & remaining_mask
    start = data.draw(st.integers(0, size))
    assert np.array_equal(predicate.prunes(start, size), predicate.prunes(0, size)[start:])
    of_rows = np.moveaxis(marked.reshape(shape), 1, 0).reshape(shape.rows, -1)
    values = tensor.movedim(1, 0).flatten(1)
    for row, (own, row_mask) in enumerate(zip(values, rows, strict=True)):
        [expected] = one_by_one([own], [row_mask], [shape.columns], int(units[row]))
        assert np.array_equal(of_rows[row], expected)
    for flat in np.flatnonzero(remaining_mask):
        rank = predicate.element_rank(int(flat))
        row, _ = shape.row_and_column(int(flat))
        assert (rank.pruned, rank.ranked) == (marked[flat], rows[row].sum())
        assert (rank.rank < units[row]) == rank.pruned


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_long_rows_lose_their_smallest(dtype):
    tensor = torch.randn(4, 700, generator=torch.Generator().manual_seed(0)).to(dtype)
    units, shape = np.array([0, 1, 350, 700]), RowShape(1, 4, 700)
    ranking = Ranking(keys_of(tensor))
    cuts = Lazy.of_value(find_row_cuts(ranking, units, shape))
    pruned = torch.from_numpy(RowCut(ranking, shape, cuts).prunes(0, tensor.numel()))
    expected = [k_smallest(row, int(k)) for row, k in zip(tensor, units, strict=True)]
    assert torch.equal(pruned.view(4, 700), torch.stack(expected))


@pytest.mark.parametrize("span", [(0, 1), (3, 19), (6, 7), (20, 21)])
def test_row_cuts_of_a_span_equal_that_span_of_the_whole(span):
    tensor = torch.randint(-3, 3, (3, 7)).float()
    ranking = Ranking(ScoreKeys.of(TensorScores.of(tensor)))
    cuts = Lazy.of_value(find_row_cuts(ranking, np.array([2, 0, 7]), RowShape(1, 3, 7)))
    predicate = RowCut(ranking, RowShape(1, 3, 7), cuts)
    whole = predicate.prunes(0, 21)
    assert whole.reshape(3, 7).sum(1).tolist() == [2, 0, 7]
    assert np.array_equal(predicate.prunes(*span), whole[slice(*span)])


@given(
    st.lists(st.integers(MAX_SMALL_ELEMENTS, 3 * MAX_SMALL_ELEMENTS), min_size=1, max_size=3),
    st.floats(0, 1),
    st.integers(0, 9),
)
def test_random_keys_lose_the_lowest_of_all(sizes, share, seed):
    every = [RandomKeys(seed, f"w{i}", size) for i, size in enumerate(sizes)]
    k = round(share * sum(sizes))
    cuts = find_cuts([Ranking(keys) for keys in every], k, Monitor())
    pruned = [mark(keys, cut, 0, keys.size) for keys, cut in zip(every, cuts, strict=True)]
    bits = np.concatenate([keys.bits(0, keys.size) for keys in every])
    expected = np.zeros(bits.size, bool)
    expected[np.argsort(bits, stable=True)[:k]] = True
    assert np.array_equal(np.concatenate(pruned), expected)
    assert [cut.pruned for cut in cuts] == [int(own.sum()) for own in pruned]
