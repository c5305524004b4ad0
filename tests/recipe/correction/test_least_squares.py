"""Least squares for kept weights: against `lstsq`, in any arithmetic, in parts, on a device."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from prune_gui.pruning.devices import in_parts
from prune_gui.recipe.correction import least_squares
from prune_gui.recipe.correction.least_squares import fit_rows


def problem(
    rows: int, columns: int, samples: int, seed: int, density: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return inputs (samples, columns), weights (rows, columns) and a mask; the first is whole."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, columns, generator=generator, dtype=torch.float64)
    inputs *= torch.rand(columns, generator=generator, dtype=torch.float64) + 0.1
    weights = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    kept = torch.rand(rows, columns, generator=generator) < density
    kept[0] = True
    return inputs, weights, kept


def by_lstsq(
    inputs: torch.Tensor, row: torch.Tensor, kept: torch.Tensor, damping: float
) -> np.ndarray:
    """Return the row that minimizes |X (v - w)|^2 + damping * mean(diag X^T X) * |v - w|^2."""
    ridge = (damping * inputs.square().sum(0).mean()).sqrt() * torch.eye(inputs.shape[1])
    design = torch.cat([inputs, ridge.double()]).numpy()
    solved = np.zeros(len(row))
    outputs = design @ row.numpy()
    solved[kept.numpy()] = np.linalg.lstsq(design[:, kept.numpy()], outputs, rcond=None)[0]
    return solved


@pytest.mark.parametrize("factor_cost", [0.4, 1e9], ids=["factorized", "iterated"])
@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 12),
    density=st.floats(0, 1),
    damping=st.sampled_from([0.0, 0.01, 1.0]),
    seed=st.integers(0, 1000),
)
def test_each_row_is_the_least_squares_solution_for_its_mask(
    factor_cost, rows, columns, density, damping, seed
):
    inputs, weights, kept = problem(rows, columns, 3 * columns, seed, density)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_squares, "FACTOR_COST", factor_cost)
        patch.setattr(least_squares, "TOLERANCE", 1e-12)
        fit = fit_rows(weights, kept, inputs.T @ inputs, damping)
    assert fit.damping == damping
    assert (fit.delta[~kept] == 0).all()
    for row, mask, delta in zip(weights, kept, fit.delta, strict=True):
        expected = by_lstsq(inputs, row, mask, damping)
        # The iteration stops at a small residual; the error is larger by the condition number.
        np.testing.assert_allclose((row * mask + delta).numpy(), expected, rtol=1e-6, atol=1e-6)


class Operations(TorchDispatchMode):
    """Counts operations by name, and those whose result is float64."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.in_float64: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.counts[name] += 1
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            self.in_float64[name] += 1
        return result


ITERATE = least_squares._System.iterate


def rounded_iterate(system, *args):
    """Iterate with a matrix of 8 bits of mantissa, as by products that a card rounds."""
    exact = system._unit
    system._unit = exact.bfloat16().float()
    try:
        return ITERATE(system, *args)
    finally:
        system._unit = exact


@given(
    density=st.floats(0, 1),
    seed=st.integers(0, 1000),
    spectrum=st.floats(0, 4),
    shared=st.booleans(),
    groups=st.sampled_from([1, 3]),
)
def test_the_part_of_the_gradient_that_is_left_is_as_stated_whatever_the_arithmetic(
    density, seed, spectrum, shared, groups
):
    """Where float64 is slow, and in parts of a row, the error is that of the processor."""
    inputs, weights, kept = problem(groups * 12, 40, 100, seed, density)
    inputs *= torch.logspace(0, -spectrum, 40, dtype=torch.float64)
    kept = kept[1].expand(kept.shape) if shared else kept
    moments = (inputs.T @ inputs).float()
    arithmetic = product((torch.float64, torch.float32), (False, True), (1 << 26, 1))
    for dtype, is_rounded, room in arithmetic:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(least_squares, "rounds_products", lambda _, own=is_rounded: own)
            if is_rounded:
                patch.setattr(least_squares._System, "iterate", rounded_iterate)
            patch.setattr(least_squares, "residual_dtype", lambda _, dtype=dtype: dtype)
            patch.setattr(least_squares, "working_bytes", lambda _, room=room: room)
            fit = fit_rows(
                weights.float().view(groups, 12, 40),
                kept.reshape(groups, 12, 40),
                moments.expand(groups, 40, 40),
                0.01,
            )
        diagonal = moments.double().diagonal()
        damped = moments.double() + 0.01 * diagonal.mean() * torch.eye(40)
        pruned, scale = weights.float().double() * ~kept, damped.diagonal().rsqrt()
        before, left = (
            ((rows @ damped) * kept * scale).norm(dim=1)
            for rows in (pruned, pruned - fit.delta.view(-1, 40))
        )
        assert (left <= 1.02 * least_squares.TOLERANCE * before).all()
        assert fit.damping == 0.01
        assert fit.residual <= least_squares.TOLERANCE


@given(
    seed=st.integers(0, 1000),
    groups=st.sampled_from([1, 3]),
    distances=st.tuples(*[st.sampled_from([0.0, 1e-3, 1.0, 1e6, torch.nan])] * 4),
)
def test_a_guess_changes_how_long_it_takes_not_what_is_found(seed, groups, distances):
    inputs, weights, kept = problem(groups * 4, 40, 100, seed)
    inputs *= torch.logspace(0, -2, 40, dtype=torch.float64)
    moments = (inputs.T @ inputs).expand(groups, 40, 40)
    weights, kept = weights.view(groups, 4, 40), kept.view(groups, 4, 40)
    with Operations() as before:
        expected = fit_rows(weights, kept, moments, 0.01)
    noise = torch.randn(weights.shape, generator=torch.Generator().manual_seed(seed))
    guess = weights + expected.delta + torch.tensor(distances)[:, None] * noise * weights
    with Operations() as after:
        found = fit_rows(weights, kept, moments, 0.01, guess=guess)
    assert found.residual <= least_squares.TOLERANCE
    torch.testing.assert_close(found.delta, expected.delta, rtol=0.01, atol=0.01)
    if not any(distances):
        assert after.counts["bmm"] < before.counts["bmm"]


@pytest.mark.parametrize("capacity", [1, 3, 1000])
def test_parts_are_halved_until_they_fit_the_memory(capacity):
    done = []

    def work(start: int, stop: int) -> None:
        if stop - start > capacity:
            raise torch.OutOfMemoryError
        done.extend(range(start, stop))

    in_parts(10, 8, work)
    assert done == list(range(10))


def test_a_device_without_memory_for_one_row_leaves_the_work_to_the_processor(monkeypatch):
    inputs, weights, kept = problem(4, 10, 30, 1)
    expected = fit_rows(weights, kept, inputs.T @ inputs, 0.01).delta
    calls = []

    def full_at_first(count, part, work):
        calls.append(count)
        if len(calls) == 1:
            raise torch.OutOfMemoryError
        in_parts(count, part, work)

    monkeypatch.setattr(least_squares, "in_parts", full_at_first)
    torch.testing.assert_close(fit_rows(weights, kept, inputs.T @ inputs, 0.01).delta, expected)


@pytest.mark.parametrize("shared", [False, True], ids=["a mask for each row", "one mask"])
def test_a_device_computes_by_itself_and_is_seldom_waited_for(monkeypatch, shared):
    def leave_device(_: torch.Tensor) -> None:
        pytest.fail("the device is left")

    monkeypatch.setattr(least_squares, "residual_dtype", lambda _: torch.float32)
    monkeypatch.setattr(torch.Tensor, "cpu", leave_device)
    monkeypatch.setattr(torch.Tensor, "numpy", leave_device)
    inputs, weights, kept = problem(64, 300, 400, 0)
    inputs *= torch.logspace(0, -2, 300, dtype=torch.float64)
    weights, moments = weights.float(), (inputs.T @ inputs).float()
    kept = kept[1].expand(64, 300) if shared else kept
    with Operations() as operations:
        fit_rows(weights, kept, moments, 1e-5)
    waits, products = operations.counts["_local_scalar_dense"], operations.counts["bmm"]
    assert not operations.in_float64
    assert waits < 20 if shared else waits < products / 2 + 8
    assert shared or products > 20


@pytest.mark.parametrize("guess", [None, 0.5, torch.nan])
def test_rows_without_pruned_weights_and_dead_columns_are_unchanged(guess):
    inputs, weights, kept = problem(4, 10, 30, 1)
    inputs[:, 3] = 0
    guess = guess and torch.full_like(weights, guess)
    for damping in (0.0, 0.01):
        delta = fit_rows(weights, kept, inputs.T @ inputs, damping, guess=guess).delta
        assert (delta[0] == 0).all()
        assert (delta[:, 3] == 0).all()
        assert (delta[1:] != 0).any()


@pytest.mark.parametrize("factor_cost", [0.4, 1e9], ids=["factorized", "iterated"])
def test_damping_is_raised_until_the_moments_are_positive_definite(monkeypatch, factor_cost):
    monkeypatch.setattr(least_squares, "FACTOR_COST", factor_cost)
    inputs, weights, kept = problem(3, 10, 40, 2)
    moments = inputs.T @ inputs
    moments -= 1.5 * torch.linalg.eigvalsh(moments)[-1] * torch.eye(10) / 10  # some are negative
    fit = fit_rows(weights, kept, moments, 0.0)
    assert fit.damping > 0
    assert fit.delta.isfinite().all()


def test_a_pruned_nan_counts_as_zero():
    inputs, weights, kept = problem(2, 5, 20, 3)
    kept[1] = torch.tensor([True, False, True, True, False])
    as_zero = weights.clone()
    weights[1, 1], as_zero[1, 1] = torch.nan, 0.0
    moments = inputs.T @ inputs
    found, expected = (fit_rows(one, kept, moments, 0.0).delta for one in (weights, as_zero))
    torch.testing.assert_close(found, expected)
