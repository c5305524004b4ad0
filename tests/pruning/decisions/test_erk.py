"""ERK: densities from shapes, exact counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from targets import target

from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.selection.scores import TensorScores

shapes = st.lists(st.integers(1, 12), min_size=0, max_size=4).map(tuple)


def erk(*targets: Target, **parameters: object) -> list[Decision]:
    return METHODS["erk"].model_validate(parameters).decide(targets, Monitor())


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


def test_densities_agree_with_a_calculation_by_hand():
    # The sums of dimensions are 20, 110, 7; the last target has only 7 elements.
    layers = [torch.rand(10, 10), torch.rand(100, 10), torch.rand(7)]
    decisions = erk(*map(target, layers), amount=1107 - 397)
    # 390 = f * (20 + 110), so f = 3: 60 of 100, 330 of 1000, and all 7.
    assert [decision.pruned for decision in decisions] == [40, 670, 0]


def test_of_equal_elements_in_a_target_the_lowest_index_is_pruned_first():
    first = torch.tensor([[3.0, -1.0], [1.0, 5.0]])
    decisions = erk(target(first), target(first * 100), amount=4)
    for decision in decisions:
        assert decision.predicate is not None
        assert decision.pruned == 2
        assert decision.predicate.prunes(0, 4).tolist() == [False, True, True, False]


@given(st.lists(shapes, min_size=1, max_size=5), st.floats(0, 1), st.sampled_from([0.3, 0.5, 0.9]))
def test_max_sparsity_limits_every_target(shapes, amount, cap):
    decisions = erk(
        *[target(torch.rand(shape)) for shape in shapes], amount=amount, max_sparsity=cap
    )
    most = [math.floor(cap * math.prod(shape) + 1e-9) for shape in shapes]
    asked = round(amount * sum(math.prod(shape) for shape in shapes))
    assert all(d.pruned <= some for d, some in zip(decisions, most, strict=True))
    assert sum(d.pruned for d in decisions) == min(asked, sum(most))
    missing = asked - min(asked, sum(most))
    assert any(f"{missing:,} fewer" in d.note for d in decisions) == (missing > 0)


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


def test_more_than_remain_are_refused():
    with pytest.raises(RecipeError, match=r"All targets.*6.*5"):
        erk(target(torch.ones(3)), target(torch.ones(2)), amount=6)


def test_deciding_reads_no_weights():
    def read() -> torch.Tensor:
        raise AssertionError

    weights = TensorScores(read, (4, 4), torch.float32)
    unread = Target("w", (4, 4), 16, weights, lambda path, what: weights, None)
    assert erk(unread, amount=3)[0].pruned == 3
