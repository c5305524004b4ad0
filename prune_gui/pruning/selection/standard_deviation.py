"""The standard deviation of scores, read span by span."""

from __future__ import annotations

import math
from functools import partial

import torch

from prune_gui.monitor import Monitor
from prune_gui.pruning.kernels import groups as group_kernels
from prune_gui.pruning.parallel import chunks, spread
from prune_gui.pruning.selection.scores import Scores


def standard_deviation(scores: Scores, monitor: Monitor) -> float:
    """Return the standard deviation of all finite scores, over N - 1; NaN if N < 2.

    Chunks are combined in order, so that the result does not depend on the number of threads (Chan,
    Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
    1979).
    """
    size = math.prod(scores.shape)

    n, mean, squares = 0, 0.0, 0.0
    for chunk_n, chunk_mean, chunk_squares in spread(
        partial(_moments, scores), chunks(size), monitor
    ):
        if chunk_n:
            delta = chunk_mean - mean
            squares += chunk_squares + delta * delta * (n * chunk_n / (n + chunk_n))
            mean += delta * (chunk_n / (n + chunk_n))
            n += chunk_n
    return math.sqrt(squares / (n - 1)) if n > 1 else math.nan


def _moments(scores: Scores, span: tuple[int, int], monitor: Monitor) -> tuple[int, float, float]:
    """Return the number, the mean and the sum of squared deviations of a span."""
    chunk = scores.part(*span).to(torch.float64).numpy()
    monitor.advance(scores.nbytes * chunk.size // math.prod(scores.shape))
    moments: tuple[int, float, float] = group_kernels.moments(chunk)
    return moments
