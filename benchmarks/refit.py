"""The time of a refit, beside one Cholesky factorization for each row.

Usage: ``python benchmarks/refit.py [--rows N] [--device DEVICE] [--columns N...] [--llama]``. Of
weights of 4096 and of 11008 columns, half of them pruned at random, N rows (4096 by default) are
solved, and the time is printed for 4096 as well, because it is proportional. Of the rows by
factorization 4 are measured. Inputs have a spectrum that falls as 1 / k, and channels of different
scales. The error is that of the outputs of 64 rows, relative to the pruned weights without
correction. With --llama, the 224 projections of a Llama of 7 B parameters are solved, with random
weights, instead.
"""

from __future__ import annotations

import argparse
import time

import torch

from prune_gui.pruning.devices import find_device
from prune_gui.recipe.correction.least_squares import fit_rows

ALL_ROWS = 4096
FACTORIZED_ROWS = 4
ERROR_ROWS = 64
COLUMNS = (4096, 11008)
LLAMA = ((4096, 4096),) * 4 + ((11008, 4096),) * 2 + ((4096, 11008),)
"""Rows and columns of the projections of a block."""
BLOCKS = 32


def second_moments(columns: int, device: torch.device) -> torch.Tensor:
    """Return X^T X, float32 (columns, columns)."""
    spectrum = torch.arange(1, columns + 1, device=device).float().rsqrt()
    mixing = torch.randn(columns, columns, device=device) / columns**0.5
    inputs = (torch.randn(2 * columns, columns, device=device) * spectrum) @ mixing
    inputs *= torch.exp(torch.randn(columns, device=device) / 2)
    return inputs.T @ inputs


def seconds_of_fit(
    weight: torch.Tensor, kept: torch.Tensor, moments: torch.Tensor
) -> tuple[float, torch.Tensor, float]:
    """Return the seconds of a fit, its delta and its residual."""
    start = time.perf_counter()
    fit = fit_rows(weight, kept, moments, 0.01)
    fit.delta[0, 0].item()  # waits for the device
    return time.perf_counter() - start, fit.delta, fit.residual


def by_factorization(weight: torch.Tensor, kept: torch.Tensor, moments: torch.Tensor) -> float:
    """Return the seconds that one row takes with a factorization of its own."""
    start = time.perf_counter()
    for row, mask in zip(weight[:FACTORIZED_ROWS], kept, strict=False):
        inside = mask.nonzero().squeeze(1)
        factor = torch.linalg.cholesky(moments[inside][:, inside])
        torch.cholesky_solve((moments[inside] @ row)[:, None], factor)
    return (time.perf_counter() - start) / FACTORIZED_ROWS


def measure(columns: int, rows: int, device: torch.device) -> None:
    """Print the figures of a weight with unstructured and with structured masks."""
    moments = second_moments(columns, device)
    weight = torch.randn(rows, columns, device=device)
    unstructured = torch.rand(rows, columns, device=device) < 0.5
    structured = (torch.rand(columns, device=device) < 0.5).expand(rows, columns)
    for name, kept in (("a mask for each row", unstructured), ("one mask", structured)):
        if device.type != "cpu":
            seconds_of_fit(weight, kept, moments)  # loads the kernels
        seconds, delta, residual = seconds_of_fit(weight, kept, moments)
        pruned = (weight * ~kept)[:ERROR_ROWS]
        left = pruned - delta[:ERROR_ROWS]
        error = ((left @ moments) * left).sum() / ((pruned @ moments) * pruned).sum()
        print(
            f"{rows} x {columns}, {name}: {seconds:.3f} s"
            f" ({seconds * ALL_ROWS / rows:.2f} s for {ALL_ROWS} rows),"
            f" error {error:.4f}, gradient left {residual:.1g}",
            flush=True,
        )
    seconds = by_factorization(weight, unstructured, moments)
    print(f"  by factorization of each row: {seconds * ALL_ROWS:.0f} s for {ALL_ROWS} rows")


def measure_llama(device: torch.device) -> None:
    """Print the time for all projections of a Llama; inputs of a block differ from each other."""
    moments = {columns: second_moments(columns, device) for columns in COLUMNS}
    start, left = time.perf_counter(), 0.0
    for block in range(BLOCKS):
        for rows, columns in LLAMA:
            weight = torch.randn(rows, columns, device=device, dtype=torch.bfloat16)
            kept = torch.rand(rows, columns, device=device) < 0.5
            left = max(left, seconds_of_fit(weight, kept, moments[columns])[2])
        seconds = time.perf_counter() - start
        print(f"{block + 1} of {BLOCKS} blocks: {seconds:.1f} s, gradient left {left:.1g}")
    if device.type == "cuda":
        print(f"memory: {torch.cuda.max_memory_allocated(device) / 1e9:.1f} GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ALL_ROWS)
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--llama", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    where = find_device(arguments.device)
    if arguments.llama:
        measure_llama(where)
    else:
        for columns in arguments.columns:
            measure(columns, arguments.rows, where)
