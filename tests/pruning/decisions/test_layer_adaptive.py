"""LAMP against its definition by sorting, and its laws; ERK: densities from shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import given
from hypothesis import strategies as st
from targets import decide, marked, target

from prune_gui.monitor import Monitor
from prune_gui.pruning.predicates import ElementCut
from prune_gui.pruning.selection import batched
from prune_gui.pruning.selection.lamp_cuts import PASSES

DTYPES = [*ORDERED, torch.float8_e4m3fnuz]
# Squares and sums of these are exact, so that the result is unique, including ties.
exact = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.25, 3.0, 2**-9, np.inf, np.nan])
# The keys of these differ in every digit.
anything = st.floats(-4, 4, width=32) | st.floats(-(2**-10), 2**-10, width=32)


@st.composite
def targets(draw: st.DrawFn, numbers: st.SearchStrategy[float]) -> list[tuple]:
    """Return tensors of any dtypes, and which of their elements remain."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        values = draw(st.lists(numbers, min_size=0, max_size=30))
        remaining_mask = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
        some = torch.tensor(values, dtype=torch.float64).to(draw(st.sampled_from(DTYPES)))
        made.append((some, np.array(remaining_mask, bool) if draw(st.booleans()) else None))
    return made


lamp = partial(decide, "lamp")


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


def expected(
    parts: Sequence[tuple[torch.Tensor, np.ndarray]], k: int, cap: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """Prune the sorted elements, skipping tensors at their cap; return masks and all scores."""
    each = [scores(tensor, remaining) for tensor, remaining in parts]
    owner = np.repeat(np.arange(len(each)), [len(own) for own in each])
    values = np.concatenate([tensor.double().abs().reshape(-1).numpy() for tensor, _ in parts])
    score, remaining = np.concatenate(each), np.concatenate([remaining for _, remaining in parts])
    order = np.lexsort((np.nan_to_num(values, nan=np.inf), np.isnan(values), owner, score))
    out, left = np.zeros(len(score), bool), k
    may_go = [math.floor(cap * len(ok)) - int((~ok).sum()) for _, ok in parts]
    for place in order[remaining[order]]:
        if left and may_go[owner[place]] > 0:
            out[place] = True
            may_go[owner[place]] -= 1
            left -= 1
    return np.split(out, np.cumsum([len(own) for own in each])[:-1]), score


def compare(made: list[tuple], share: float, cap: float, *, ties_too: bool) -> None:
    parts = [
        (t, np.ones(t.numel(), bool) if remaining_mask is None else remaining_mask)
        for t, remaining_mask in made
    ]
    k = round(share * sum(int(remaining.sum()) for _, remaining in parts))
    decisions = lamp(
        *[target(t, remaining_mask=mask) for t, mask in made], amount=k, max_sparsity=cap
    )
    masks, score = expected(parts, k, cap)
    found = [
        marked(decision, t) & remaining
        for decision, (t, remaining) in zip(decisions, parts, strict=True)
    ]
    assert [int(one.sum()) for one in found] == [decision.pruned for decision in decisions]
    ours, theirs = np.concatenate(found), np.concatenate(masks)
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
    [decision] = lamp(target(tensor), amount=13)
    assert marked(decision, tensor).tolist() == [True] * 13 + [False] * 2


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
    lamp(*map(target, tensors), amount=share, monitor=Monitor(lambda *done: seen.append(done)))
    together = sum(tensor.nbytes for tensor in tensors if tensor.numel() <= 500)
    apart = sum(tensor.nbytes for tensor in tensors) - together
    passes = {8: 10, 4: 4, 2: 1}[dtype.itemsize]
    assert seen[-1][0] <= passes * apart + PASSES * together
    assert seen[-1][0] <= seen[-1][1]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(0, 99), st.data())
def test_the_largest_element_of_a_target_is_pruned_last(sizes, seed, data):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randperm(size, generator=generator) + 1.0 for size in sizes]
    others = sum(sizes) - len(sizes)
    k = data.draw(st.integers(0, sum(sizes)))
    decisions = lamp(*map(target, tensors), amount=k)
    kept = [(~marked(d, t))[int(t.argmax())] for d, t in zip(decisions, tensors, strict=True)]
    assert sum(kept) == len(sizes) - max(0, k - others)


@given(targets(exact), st.floats(0, 1), st.lists(st.integers(-20, 20), min_size=4, max_size=4))
def test_lamp_is_invariant_to_the_scale_of_a_layer(made, share, powers):
    made = [(tensor.double(), remaining_mask) for tensor, remaining_mask in made]
    scaled = [
        (t * 2.0**n, remaining_mask) for (t, remaining_mask), n in zip(made, powers, strict=False)
    ]
    for one, other, (tensor, _) in zip(
        lamp(*[target(t, remaining_mask=mask) for t, mask in made], amount=share),
        lamp(*[target(t, remaining_mask=mask) for t, mask in scaled], amount=share),
        made,
        strict=True,
    ):
        assert np.array_equal(marked(one, tensor), marked(other, tensor))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("power", [1013, 600, -600, -1060])
def test_overflow_and_underflow_of_squares_do_not_affect_scores(monkeypatch, power, small):
    if not small:
        monkeypatch.setattr(batched, "MAX_BATCH_TENSORS", 0)
    generator = torch.Generator().manual_seed(0)
    tensors = [
        torch.randint(-999, 999, (n,), generator=generator).double() for n in (700, 90, 400, 1)
    ]
    tensors[1][:3] = torch.tensor([math.nan, math.inf, -math.inf])
    remaining_mask = np.ones(700, bool)
    remaining_mask[int(tensors[0].abs().argmax())] = False
    scaled = [torch.ldexp(tensors[0], torch.tensor(power)), *tensors[1:]]
    scaled[0][~torch.from_numpy(remaining_mask)] = 2.0**1000
    wanted = lamp(
        target(tensors[0], remaining_mask=remaining_mask), *map(target, tensors[1:]), amount=0.6
    )
    found = lamp(
        target(scaled[0], remaining_mask=remaining_mask), *map(target, scaled[1:]), amount=0.6
    )
    assert 0 < found[0].pruned < 699
    for one, other, tensor in zip(found, wanted, tensors, strict=True):
        remaining = remaining_mask if tensor is tensors[0] else slice(None)
        assert np.array_equal(marked(one, tensor)[remaining], marked(other, tensor)[remaining])


@given(targets(anything), st.floats(0, 1))
def test_a_cut_is_the_largest_pruned_value(made, share):
    for decision, (tensor, remaining_mask) in zip(
        lamp(*[target(t, remaining_mask=mask) for t, mask in made], amount=share), made, strict=True
    ):
        assert isinstance(decision.predicate, ElementCut)
        if decision.pruned:
            going = marked(decision, tensor) & (True if remaining_mask is None else remaining_mask)
            largest = tensor.double().abs().numpy()[going].max()
            assert decision.predicate.element_rank(0).cut == largest


shapes = st.lists(st.integers(1, 12), min_size=0, max_size=4).map(tuple)


erk = partial(decide, "erk")


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
    there = [rng.random(size) < rng.choice([0.5, 1.0]) for size in sizes]
    remaining = [int(one.sum()) for one in there]
    decisions = erk(
        *[target(torch.rand(s), remaining_mask=a) for s, a in zip(shapes, there, strict=True)],
        amount=amount,
    )
    kept = [left - d.pruned for left, d in zip(remaining, decisions, strict=True)]
    total = sum(remaining) - round(amount * sum(remaining))
    assert sum(kept) == total
    caps = [left / size for left, size in zip(remaining, sizes, strict=True)]
    wanted = densities(shapes, caps, total)
    for count, size, left, density in zip(kept, sizes, remaining, wanted, strict=True):
        assert 0 <= count <= left
        assert abs(count - density * size) < 1 + 1e-6


@pytest.mark.parametrize("amount_of", ["remaining", "total", "reach"])
def test_earlier_pruning_counts_according_to_amount_of(amount_of):
    remaining_mask = np.arange(100) < 80
    decisions = erk(
        target(torch.rand(10, 10), remaining_mask=remaining_mask),
        target(torch.rand(10, 10)),
        amount=0.5,
        amount_of=amount_of,
    )
    pruned = {"remaining": 90, "total": 100, "reach": 80}[amount_of]
    assert sum(decision.pruned for decision in decisions) == pruned
    kept = [80 - decisions[0].pruned, 100 - decisions[1].pruned]
    assert abs(kept[0] - kept[1]) <= 1
