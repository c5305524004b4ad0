"""Masks that are chosen in the solve lose less than those of scores, in each pattern."""

from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from prune_gui.pruning.selection import device_select, radix_select
from prune_gui.pruning.selection.device_select import select_portably
from prune_gui.recipe.correction.least_squares import fit_rows
from prune_gui.reconstruction import solver
from prune_gui.reconstruction.patterns import MAX_COMPARED, _in_groups, largest
from prune_gui.reconstruction.solver import choose_masks, damped

DAMPING = 0.01


def two_of_four(scores):
    order = scores.view(-1, 4).topk(2, dim=1).indices
    return (
        torch.zeros(scores.numel() // 4, 4, dtype=torch.bool)
        .scatter_(1, order, True)
        .view_as(scores)
    )


def problem(seed, rows=12, columns=32, tokens=200, decay=1.0):
    """Return a weight and the second moments of inputs with a spectrum that falls."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(columns, columns, generator=generator)
    spectrum = torch.arange(1, columns + 1) ** -decay
    inputs = torch.randn(tokens, columns, generator=generator) * spectrum @ mixing
    inputs = inputs * torch.exp(torch.randn(columns, generator=generator) / 2)
    return torch.randn(1, rows, columns, generator=generator), (inputs.T @ inputs)[None]


def loss(weight, kept, moments):
    """Return the damped loss of the best values of the kept weights."""
    system, _ = damped(moments, DAMPING)
    delta = fit_rows(weight, kept, moments, DAMPING).delta
    lost = (weight + delta).masked_fill(~kept, 0.0) - weight
    return float(((lost @ system) * lost).sum())


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(4, 24),
    tokens=st.sampled_from([3, 10, 40, 400]),  # of 32 columns
    decay=st.floats(0, 2),
    pattern=st.sampled_from(["2:4", 0.4, 0.6, 0.8]),
)
def test_the_mask_is_never_worse_than_that_of_wanda(seed, rows, tokens, decay, pattern):
    weight, moments = problem(seed, rows, tokens=tokens, decay=decay)
    choose = two_of_four
    if pattern != "2:4":
        choose = partial(largest, weight.numel() - round(pattern * weight.numel()))
    system, _ = damped(moments, DAMPING)
    scores = weight.abs() * system.diagonal(dim1=1, dim2=2).sqrt()[:, None]
    wanda = choose(scores[0])[None]
    [(kept, _)] = choose_masks([weight], system, [choose])
    assert kept.sum() == wanda.sum()
    assert loss(weight, kept, moments) <= 1.0001 * loss(weight, wanda, moments)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([8, 32, 100]))
def test_changes_in_bfloat16_solve_what_float32_does(seed, size):
    _, moments = problem(seed)
    generator = torch.Generator().manual_seed(seed)
    right = torch.randn(1, 100, 32, generator=generator)
    parts = [slice(start, start + size) for start in range(0, 100, size)]
    with pytest.MonkeyPatch.context() as patch:
        exact = solver._Solve(moments, right)
        patch.setattr(solver, "ROUNDED_FROM", 1)
        patch.setattr(solver, "multiplies_bfloat16", lambda device: True)
        rounded = solver._Solve(moments, right)
    exact.set_penalty(1.0)
    rounded.set_penalty(1.0)
    step = torch.randn(1, 100, 32, generator=generator)
    for iteration in range(20):
        right = right + step * 0.5**iteration
        found, expected = (
            torch.cat([solve(right[:, rows].clone(), rows) for rows in parts], 1)
            for solve in (rounded, exact)
        )
        limit = 1e-5 + 0.02 * min(iteration, 1)
        assert (found - expected).norm() <= limit * expected.norm()
    assert (found - expected).norm() > 1e-6 * expected.norm()


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**31),
    tokens=st.sampled_from([3, 40, 400]),  # of 32 columns
    growths=st.integers(0, 2 * solver.HELD),
    rounds=st.booleans(),
)
def test_an_inverse_at_a_smaller_penalty_solves_with_the_present_one(seed, tokens, growths, rounds):
    weight, moments = problem(seed, tokens=tokens)
    moments = moments / moments.diagonal(dim1=1, dim2=2).mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "ROUNDED_FROM", 1 if rounds else 1 << 60)
        patch.setattr(solver, "multiplies_bfloat16", lambda device: True)
        solve = solver._Solve(moments, weight)
    for growth in range(growths + 1):
        penalty = 0.1 * solver.GROWTH**growth
        solve.set_penalty(penalty)
        for _ in range(30):
            found = solve(weight.clone(), slice(None))
    expected = weight @ torch.linalg.inv(moments + penalty * torch.eye(32))
    assert (found - expected).norm() <= (1e-2 if rounds else 1e-5) * expected.norm()


@pytest.mark.parametrize("pattern", ["2:4", 0.5, 0.8])
def test_masks_found_with_bfloat16_are_as_good(monkeypatch, pattern):
    weight, moments = problem(0, 200, tokens=400)
    choose = two_of_four
    if pattern != "2:4":
        choose = partial(largest, weight.numel() - round(pattern * weight.numel()))
    losses = []
    for rounds in (False, True):
        monkeypatch.setattr(solver, "ROUNDED_FROM", 1)
        monkeypatch.setattr(solver, "multiplies_bfloat16", lambda device, rounds=rounds: rounds)
        [(kept, _)] = choose_masks([weight], damped(moments, DAMPING)[0], [choose])
        losses.append(loss(weight, kept, moments))
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1] != losses[0]


@given(seed=st.integers(0, 2**31), damping=st.sampled_from([0.0, 1e-6, 0.01]))
@settings(max_examples=20)
def test_moments_of_few_tokens_and_unused_inputs_can_be_solved(seed, damping):
    weight, moments = problem(seed, tokens=5)
    moments[:, :, 3] = moments[:, 3] = 0  # an input that was always 0
    system, factor = damped(moments, damping)
    torch.testing.assert_close(factor @ factor.mT, system, rtol=1e-4, atol=1e-4)
    [(kept, _)] = choose_masks([weight], system, [two_of_four])
    assert (kept.view(-1, 4).sum(1) == 2).all()


def test_layers_with_the_same_inputs_get_the_masks_of_their_own_patterns():
    weight, moments = problem(0, rows=20)
    system, _ = damped(moments, DAMPING)
    half = partial(largest, 8 * 32 // 2)
    (first, _), (second, _) = choose_masks(
        [weight[:, :12], weight[:, 12:]], system, [two_of_four, half]
    )
    assert (first.view(-1, 4).sum(1) == 2).all()
    assert second.sum() == 8 * 32 // 2
    assert (second.sum(2) != 16).any()
    assert choose_masks([], system, []) == []


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), m=st.sampled_from([2, 4, 8, 16]), data=st.data())
def test_of_each_group_the_largest_are_kept_and_of_equal_ones_the_last(seed, m, data):
    n = data.draw(st.integers(1, m - 1))
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(6, 48, generator=generator)
    if m <= MAX_COMPARED:
        values = (values * 4).round()
    order = values.view(-1, m).sort(dim=1, stable=True).indices[:, m - n :]
    expected = torch.zeros(6 * 48 // m, m, dtype=torch.bool).scatter(1, order, True)
    assert torch.equal(_in_groups(n, m, values), expected.view(6, 48))


@pytest.mark.parametrize("count", [0, 1, 100, 191, 192])
def test_the_largest_scores_of_another_device_are_those_of_the_processor(monkeypatch, count):
    scores = torch.randn(12, 16).abs()
    scores[::3] = 1.0
    expected = largest(count, scores)
    monkeypatch.setattr(radix_select, "is_on_cpu", lambda device: False)
    monkeypatch.setattr(device_select, "select_of", lambda device: select_portably)
    assert torch.equal(largest(count, scores), expected)


def test_moments_are_inverted_on_another_device_as_on_the_processor(monkeypatch):
    _, moments = problem(0)
    expected = solver._inverse(moments, 1.0)
    monkeypatch.setattr(solver, "is_on_cpu", lambda device: False)
    torch.testing.assert_close(solver._inverse(moments, 1.0), expected, rtol=1e-3, atol=1e-6)
