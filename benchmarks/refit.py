"""The time of a refit, beside one Cholesky factorization for each row.

Usage: ``python benchmarks/refit.py [ROWS]``. Weights of 4096 columns and of 11008 columns, half of
them pruned at random; ROWS (4096 by default) are solved, and the time is printed for 4096 as well,
because it is proportional. Of the rows by factorization 4 are measured. Inputs have a spectrum that
falls as 1 / k, and channels of different scales. The error is that of the outputs of 64 rows,
relative to the pruned weights without correction.
"""

from __future__ import annotations

import sys
import time

import torch

from prune_gui.recipe.correction.least_squares import fit_rows

ALL_ROWS = 4096
FACTORIZED_ROWS = 4
ERROR_ROWS = 64
COLUMNS = (4096, 11008)


def second_moments(columns: int) -> torch.Tensor:
    """Return X^T X, float32 (columns, columns)."""
    spectrum = torch.arange(1, columns + 1).float().rsqrt()
    mixing = torch.randn(columns, columns) / columns**0.5
    inputs = (torch.randn(2 * columns, columns) * spectrum) @ mixing
    inputs *= torch.exp(torch.randn(columns) / 2)
    return inputs.T @ inputs


def by_factorization(weight: torch.Tensor, kept: torch.Tensor, moments: torch.Tensor) -> float:
    """Return the seconds that one row takes with a factorization of its own."""
    start = time.perf_counter()
    for row, mask in zip(weight[:FACTORIZED_ROWS], kept, strict=False):
        inside = mask.nonzero().squeeze(1)
        factor = torch.linalg.cholesky(moments[inside][:, inside])
        torch.cholesky_solve((moments[inside] @ row)[:, None], factor)
    return (time.perf_counter() - start) / FACTORIZED_ROWS


def measure(columns: int, rows: int) -> None:
    """Print the figures of a weight with unstructured and with structured masks."""
    moments = second_moments(columns)
    weight = torch.randn(rows, columns)
    unstructured = torch.rand(rows, columns) < 0.5
    structured = (torch.rand(columns) < 0.5).expand(rows, columns)
    for name, kept in (("a mask for each row", unstructured), ("one mask", structured)):
        start = time.perf_counter()
        fit = fit_rows(weight, kept, moments, 0.01)
        seconds = time.perf_counter() - start
        pruned = (weight * ~kept)[:ERROR_ROWS]
        left = pruned - fit.delta[:ERROR_ROWS]
        error = ((left @ moments) * left).sum() / ((pruned @ moments) * pruned).sum()
        print(
            f"{rows} x {columns}, {name}: {seconds:.1f} s"
            f" ({seconds * ALL_ROWS / rows:.0f} s for {ALL_ROWS} rows),"
            f" error {error:.4f}, gradient left {fit.residual:.1g}",
            flush=True,
        )
    seconds = by_factorization(weight, unstructured, moments)
    print(f"  by factorization of each row: {seconds * ALL_ROWS:.0f} s for {ALL_ROWS} rows")


if __name__ == "__main__":
    torch.manual_seed(0)
    for columns in COLUMNS:
        measure(columns, int(sys.argv[1]) if len(sys.argv) > 1 else ALL_ROWS)
