"""The decision of `LnStructured`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import target_scores
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.decisions.units import Units, channel_dimension, channel_units, select_units
from prune_gui.pruning.methods.structured import LnStructured
from prune_gui.pruning.norms.unit_norms import score_norms


def decide(method: LnStructured, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Prune the k channels of smallest norm among those with a remaining element."""
    return select_units([_units(method, target) for target in targets], method, monitor)


def _units(method: LnStructured, target: Target) -> Units:
    dim = channel_dimension(method, target)
    scores = target_scores(method, target)
    if method.n == "nuc" and len(target.shape) != 3:
        raise RecipeError(
            tr(
                "{name} has {dims} dimensions; n='nuc' needs 3, so that each channel is a "
                "matrix. Leave it out of the targets, or use n='fro' or a number.",
                name=target.name,
                dims=len(target.shape),
            )
        )

    def rank(monitor: Monitor) -> NDArray[np.floating[Any]]:
        norms: NDArray[np.floating[Any]] = score_norms(
            scores, target.remaining_mask, method.n, dim, monitor=monitor
        ).numpy()
        if method.scope == "local":
            return norms
        return _scaled(norms, method.n, target.size // target.shape[dim])

    return channel_units(target, dim, rank, scores.nbytes)


def _scaled(
    norms: NDArray[np.floating[Any]], n: int | float | str, elements: int
) -> NDArray[np.floating[Any]]:
    """Return norms that are comparable between channels of different size."""
    if n == "nuc":
        raise RecipeError(
            tr(
                "n='nuc' cannot rank the channels of several layers together: they have no common "
                "scale. Use scope local, or n='fro'."
            )
        )
    p = 2.0 if n == "fro" else float(n)
    if math.isinf(p):
        return norms
    scaled: NDArray[np.floating[Any]] = norms / elements ** (1 / p if p else 1)
    return scaled
