"""Kept weights by least squares, compared with `numpy.linalg.lstsq` on the inputs themselves."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import prune_gui
from prune_gui.recipe.correction import least_squares
from prune_gui.recipe.correction.least_squares import fit_rows
from prune_gui.recipe.correction.planning import correction_beside


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


def test_conjugate_gradients_leave_at_most_the_tolerance(monkeypatch):
    inputs, weights, kept = problem(8, 60, 200, 0)
    moments = inputs.T @ inputs
    exact = fit_rows(weights, kept, moments, 0.01)
    monkeypatch.setattr(least_squares, "FACTOR_COST", 1e9)
    iterated = fit_rows(weights, kept, moments, 0.01)
    assert exact.residual == 0
    assert 0 < iterated.residual <= least_squares.TOLERANCE
    excess = inputs @ (iterated.delta - exact.delta).T
    error = inputs @ (weights * ~kept - exact.delta).T
    assert excess.square().sum() < 1e-6 * error.square().sum()


def test_rows_without_pruned_weights_and_dead_columns_are_unchanged():
    inputs, weights, kept = problem(4, 10, 30, 1)
    inputs[:, 3] = 0
    for damping in (0.0, 0.01):
        delta = fit_rows(weights, kept, inputs.T @ inputs, damping).delta
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


def test_a_fit_on_many_threads_leaves_the_number_of_threads_as_it_was(monkeypatch):
    later = torch.get_num_threads()
    found = []
    set_by = threading.local()

    def get_num_threads() -> int:  # a thread that starts during a fit finds the last number set
        return getattr(set_by, "count", found[-1] if found else later)

    def set_num_threads(count: int) -> None:
        set_by.count = count
        found.append(count)

    monkeypatch.setattr(torch, "get_num_threads", get_num_threads)
    monkeypatch.setattr(torch, "set_num_threads", set_num_threads)
    set_by.count = 4
    inputs, weights, kept = problem(40, 8, 24, 0)
    fit_rows(weights, kept, inputs.T @ inputs, 0.01)
    assert 1 in found
    assert set(found) == {1, 4}
    assert found[-1] == 4


def save_recording(model, statistic, folder):
    folder.mkdir(exist_ok=True)
    with prune_gui.record(model, statistic) as recording:
        model(torch.randn(5, 6))
    return recording.save(folder)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


@pytest.fixture
def checkpoint(model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(model.state_dict(), path)
    with prune_gui.open_checkpoint(path) as opened:
        yield opened


@pytest.mark.parametrize("folder", [".", "statistics"])
def test_second_moments_beside_a_checkpoint_make_a_refit_possible(
    model, checkpoint, tmp_path, folder
):
    [path] = save_recording(model, "second_moments", tmp_path / folder)
    step = correction_beside(checkpoint)
    assert (step.method.name, step.method.moments) == ("refit", str(path))
    prune_gui.resolve(prune_gui.Recipe(steps=(step,)), checkpoint)


def test_refit_precedes_bias_correction(model, checkpoint, tmp_path):
    save_recording(model, "means", tmp_path)
    assert correction_beside(checkpoint).method.name == "bias_correction"
    save_recording(model, "second_moments", tmp_path / "b")
    assert correction_beside(checkpoint).method.name == "refit"


def test_recordings_of_other_models_and_other_files_are_passed_over(checkpoint, tmp_path):
    assert correction_beside(checkpoint) is None
    save_recording(nn.Sequential(nn.Linear(6, 5)), "second_moments", tmp_path / "other")
    (tmp_path / "second_moments.safetensors").write_bytes(b"broken")
    (tmp_path / "x" / "second_moments.safetensors").mkdir(parents=True)
    save_file({"0.weight": torch.zeros(6, 6)}, tmp_path / "means.safetensors")
    assert correction_beside(checkpoint) is None
