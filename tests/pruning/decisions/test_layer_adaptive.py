"""LAMP against its definition by sorting, and its laws; ERK: densities from shapes."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import given
from hypothesis import strategies as st
from targets import decide, marked, remaining_of, target

from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision
from prune_gui.pruning.selection import batched
from prune_gui.pruning.selection.lamp_cuts import PASSES

DTYPES = [*ORDERED, torch.float8_e4m3fnuz]
# Squares and sums of these are exact, so that the result is unique, including ties.
exact = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.25, 3.0, 2**-9, np.inf, np.nan])
# The keys of these differ in every digit.
anything = st.floats(-4, 4, width=32) | st.floats(-(2**-10), 2**-10, width=32)


Case = tuple[torch.Tensor, np.ndarray | None]
"""A tensor, and which of its elements remain."""


@st.composite
def targets(draw: st.DrawFn, numbers: st.SearchStrategy[float]) -> list[Case]:
    made = []
    for _ in range(draw(st.integers(1, 4))):
        values = draw(st.lists(numbers, min_size=0, max_size=30))
        mask = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        some = torch.tensor(values, dtype=torch.float64).to(draw(st.sampled_from(DTYPES)))
        made.append((some, np.array(mask, bool) if draw(st.booleans()) else None))
    return made


def decisions_of(made: list[Case], **parameters: object) -> list[Decision]:
    return decide("lamp", *[target(t, remaining_mask=mask) for t, mask in made], **parameters)


def pruned(made: list[Case], **parameters: object) -> np.ndarray:
    """Return which remaining elements of all tensors LAMP prunes."""
    decisions = decisions_of(made, **parameters)
    pairs = zip(decisions, made, strict=True)
    return np.concatenate([marked(one, *case) & remaining_of(*case) for one, case in pairs])


def scores(tensor: torch.Tensor, remaining: np.ndarray) -> np.ndarray:
    """Return the scores by definition, with sorting; pruned elements have the score NaN."""
    magnitudes = tensor.double().abs().reshape(-1)
    finite = magnitudes.isfinite() & torch.from_numpy(remaining)
    ascending = magnitudes[finite].sort().values
    rest = ascending.square().flip(0).cumsum(0).flip(0)
    own = magnitudes[finite]
    found = torch.full_like(magnitudes, math.inf)
    found[finite] = own.square() / rest[torch.searchsorted(ascending, own)]
    found[finite & (magnitudes == 0)] = 0.0
    return np.where(remaining, found.numpy(), np.nan)


def expected(made: list[Case], k: int, cap: float) -> tuple[np.ndarray, np.ndarray]:
    """Prune the sorted elements, skipping tensors at their cap; return the mask and all scores."""
    masks = [remaining_of(*case) for case in made]
    owner = np.repeat(np.arange(len(masks)), [len(own) for own in masks])
    values = np.concatenate([tensor.double().abs().reshape(-1).numpy() for tensor, _ in made])
    score = np.concatenate([scores(t, own) for (t, _), own in zip(made, masks, strict=True)])
    order = np.lexsort((np.nan_to_num(values, nan=np.inf), np.isnan(values), owner, score))
    out, left = np.zeros(len(score), bool), k
    limits = [math.floor(cap * len(own)) - int((~own).sum()) for own in masks]
    for index in order[np.concatenate(masks)[order]]:
        if left and limits[owner[index]] > 0:
            out[index] = True
            limits[owner[index]] -= 1
            left -= 1
    return out, score


def compare(made: list[Case], share: float, cap: float, *, ties_too: bool) -> None:
    k = round(share * sum(int(remaining_of(*case).sum()) for case in made))
    theirs, score = expected(made, k, cap)
    ours = pruned(made, amount=k, max_sparsity=cap)
    assert ours.sum() == theirs.sum()
    if ties_too:
        assert np.array_equal(ours, theirs)
    elif (differ := score[ours != theirs]).size:
        assert differ.max() <= differ.min() * (1 + 1e-12)


@given(targets(exact), st.floats(0, 1), st.sampled_from([1.0, 0.75, 0.5]))
def test_lamp_agrees_with_its_definition_including_ties(made, share, cap):
    compare(made, share, cap, ties_too=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_several_nans_the_first_are_pruned(dtype):
    tensor = torch.tensor([0.0] * 12 + [math.nan] * 3).to(dtype)
    assert pruned([(tensor, None)], amount=13).tolist() == [True] * 13 + [False] * 2


@given(targets(anything), st.floats(0, 1), st.sampled_from([1.0, 1.0, 0.5]))
def test_lamp_agrees_with_its_definition_up_to_rounding(made, share, cap):
    compare(made, share, cap, ties_too=False)


def several(dtype: torch.dtype, kind: str) -> list[torch.Tensor]:
    """Return layers of many sizes; "mixed" ones span eight decades, or differ only in one digit of
    their keys."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for i, size in enumerate((60_000, 9_000, 30_000, 500, 7, 20_000)):
        uniform = torch.rand(size, generator=generator, dtype=torch.float64)
        normal = torch.randn(size, generator=generator, dtype=torch.float64)
        mixed = 10 ** (-8 * uniform) if i % 2 else 1 + uniform / 200
        made.append(((mixed if kind == "mixed" else normal) * 1.37**i).to(dtype))
    return made


@pytest.mark.parametrize("kind", ["normal", "mixed"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("share", [0.001, 0.5, 0.7, 0.99])
def test_cuts_of_many_elements_agree_with_sorting_in_few_passes(kind, dtype, share):
    tensors = several(dtype, kind)
    compare([(tensor, None) for tensor in tensors], share, 1.0, ties_too=False)
    seen: list[tuple[int, int]] = []
    monitor = Monitor(lambda *done: seen.append(done))
    decide("lamp", *map(target, tensors), amount=share, monitor=monitor)
    together = sum(tensor.nbytes for tensor in tensors if tensor.numel() <= 500)
    apart = sum(tensor.nbytes for tensor in tensors) - together
    passes = {8: 10, 4: 4, 2: 1}[dtype.itemsize]
    assert seen[-1][0] <= passes * apart + PASSES * together
    assert seen[-1][0] <= seen[-1][1]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(0, 99), st.data())
def test_the_largest_element_of_a_target_is_pruned_last(sizes, seed, data):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randperm(size, generator=generator) + 1.0 for size in sizes]
    k = data.draw(st.integers(0, sum(sizes)))
    is_largest = torch.cat([tensor == tensor.max() for tensor in tensors]).numpy()
    kept = ~pruned([(tensor, None) for tensor in tensors], amount=k)
    assert kept[is_largest].sum() == len(sizes) - max(0, k - (sum(sizes) - len(sizes)))


@given(targets(exact), st.floats(0, 1), st.lists(st.integers(-20, 20), min_size=4, max_size=4))
def test_lamp_is_invariant_to_the_scale_of_a_layer(made, share, powers):
    made = [(tensor.double(), mask) for tensor, mask in made]
    scaled = [(t * 2.0**n, mask) for (t, mask), n in zip(made, powers, strict=False)]
    assert np.array_equal(pruned(made, amount=share), pruned(scaled, amount=share))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("power", [1013, 600, -600, -1060])
def test_overflow_and_underflow_of_squares_do_not_affect_scores(monkeypatch, power, small):
    if not small:
        monkeypatch.setattr(batched, "MAX_BATCH_TENSORS", 0)
    sizes = (700, 90, 400, 1)
    first, *others = (torch.randint(-999, 999, (n,)).double() for n in sizes)
    others[0][:3] = torch.tensor([math.nan, math.inf, -math.inf])
    mask = np.ones(700, bool)
    mask[int(first.abs().argmax())] = False
    scaled = torch.ldexp(first, torch.tensor(power))
    scaled[~torch.from_numpy(mask)] = 2.0**1000
    rest = [(other, None) for other in others]
    wanted, found = (pruned([(t, mask), *rest], amount=0.6) for t in (first, scaled))
    assert 0 < found[:700].sum() < 699
    assert np.array_equal(found, wanted)


@given(targets(anything), st.floats(0, 1))
def test_a_cut_is_the_largest_pruned_value(made, share):
    for decision, (tensor, mask) in zip(decisions_of(made, amount=share), made, strict=True):
        if decision.pruned:
            going = marked(decision, tensor, mask) & remaining_of(tensor, mask)
            largest = tensor.double().abs().numpy()[going].max()
            assert decision.predicate.element_rank(0).cut == largest


shapes = st.lists(st.integers(1, 12), min_size=0, max_size=4).map(tuple)


def densities(shapes: Sequence[tuple[int, ...]], caps: Sequence[float], kept: int) -> list[float]:
    """Return the densities by bisection in floats; a scalar has ratio 1."""
    ratios = [sum(shape) / math.prod(shape) if shape else 1.0 for shape in shapes]
    sizes = [math.prod(shape) for shape in shapes]
    low, high = 0.0, float(max(sizes))
    for _ in range(200):
        f = (low + high) / 2
        found = [min(f * ratio, cap) for ratio, cap in zip(ratios, caps, strict=True)]
        if sum(d * size for d, size in zip(found, sizes, strict=True)) < kept:
            low = f
        else:
            high = f
    return found


@given(st.lists(shapes, min_size=1, max_size=6), st.floats(0, 1), st.integers(0, 99))
def test_densities_are_proportional_to_the_shape_ratio_and_the_total_is_exact(shapes, amount, seed):
    rng = np.random.default_rng(seed)
    sizes = [math.prod(shape) for shape in shapes]
    masks = [rng.random(size) < rng.choice([0.5, 1.0]) for size in sizes]
    remaining = [int(mask.sum()) for mask in masks]
    targets = [target(torch.rand(s), remaining_mask=a) for s, a in zip(shapes, masks, strict=True)]
    decisions = decide("erk", *targets, amount=amount)
    kept = [left - one.pruned for left, one in zip(remaining, decisions, strict=True)]
    total = sum(remaining) - round(amount * sum(remaining))
    assert sum(kept) == total
    caps = [left / size for left, size in zip(remaining, sizes, strict=True)]
    wanted = densities(shapes, caps, total)
    for count, size, left, density in zip(kept, sizes, remaining, wanted, strict=True):
        assert 0 <= count <= left
        assert abs(count - density * size) < 1 + 1e-6


@pytest.mark.parametrize(
    ("amount_of", "expected"), [("remaining", 90), ("total", 100), ("reach", 80)]
)
def test_earlier_pruning_counts_according_to_amount_of(amount_of, expected):
    pruned_before = target(torch.rand(10, 10), remaining_mask=np.arange(100) < 80)
    targets = pruned_before, target(torch.rand(10, 10))
    first, second = (one.pruned for one in decide("erk", *targets, amount=0.5, amount_of=amount_of))
    assert first + second == expected
    assert abs((80 - first) - (100 - second)) <= 1


def test_densities_agree_with_a_calculation_by_hand():
    # The sums of dimensions are 20, 110, 7; the last target has only 7 elements.
    layers = [torch.rand(10, 10), torch.rand(100, 10), torch.rand(7)]
    decisions = decide("erk", *map(target, layers), amount=1107 - 397)
    # 390 = f * (20 + 110), so f = 3: 60 of 100, 330 of 1000, and all 7.
    assert [decision.pruned for decision in decisions] == [40, 670, 0]


def test_of_equal_elements_in_a_target_the_lowest_index_is_pruned_first():
    first = torch.tensor([[3.0, -1.0], [1.0, 5.0]])
    decisions = decide("erk", target(first), target(first * 100), amount=4)
    for decision in decisions:
        assert decision.pruned == 2
        assert decision.predicate.prunes(0, 4).tolist() == [False, True, True, False]
