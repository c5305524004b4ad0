"""Pruning below a fixed threshold, whatever share of a parameter that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import Decision, ScoredMethod, Target

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.selection.scores import Scores


def _reject_bool(value: object) -> object:
    if isinstance(value, bool):
        # pydantic reports a ValueError as invalid input, but propagates a TypeError
        raise ValueError(tr("a threshold is a number"))  # noqa: TRY004
    return value


class Threshold(ScoredMethod):
    """Prune the entries whose absolute value (or score, if scores are given) is below a threshold.

    That is |score| < value, compared as real numbers whatever the type of the scores. Relative to
    std it is |score| < value * s, where s is the standard deviation of all finite scores x of the
    tensor, pruned earlier or not: s^2 = sum of (x - mean)^2 / (N - 1), as `torch.std` has it; Han
    et al., "Learning both Weights and Connections for Efficient Neural Networks", 2015. NaN and
    infinity are kept.
    """

    name: ClassVar[str] = "threshold"
    title: ClassVar[str] = deferred("Threshold")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "entry"

    value: Annotated[
        float,
        BeforeValidator(_reject_bool),
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description=deferred("What lies below, in absolute value, goes."),
        ),
    ]
    relative_to: Annotated[
        Literal["absolute", "std"],
        Field(
            description=deferred(
                "absolute: the value as it is; std: so many standard deviations of the tensor."
            )
        ),
    ] = "absolute"

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Cut each target at the threshold, and count the elements below it."""
        from prune_gui.pruning.selection.keys import ScoreKeys
        from prune_gui.pruning.selection.radix_select import work

        scores = [self.scores(target) for target in targets]
        total_work = sum(work(ScoreKeys.of(own)) for own in scores)
        if self.relative_to == "std":
            total_work += sum(own.nbytes for own in scores)
        with monitor.plan(total_work):
            return [
                self._decide(target, own, monitor)
                for target, own in zip(targets, scores, strict=True)
            ]

    def _decide(self, target: Target, scores: Scores, monitor: Monitor) -> Decision:
        from prune_gui.pruning.lazy import Lazy
        from prune_gui.pruning.predicates import ElementCut
        from prune_gui.pruning.selection.keys import ScoreKeys
        from prune_gui.pruning.selection.radix_select import Cut, Ranking, count_below

        value = self.value
        if self.relative_to == "std":
            deviation = standard_deviation(scores, monitor)
            if not math.isfinite(deviation):
                raise RecipeError(
                    tr(
                        "{name} has no standard deviation: that takes two finite entries or more, "
                        "and none so large that its square overflows. Set relative_to to absolute, "
                        "or leave it out of the targets.",
                        name=target.name,
                    )
                )
            value *= deviation
        keys = ScoreKeys.of(scores)
        ranking = Ranking(keys, target.remaining_mask, histogram_cache=target.histogram_cache)
        threshold = keys.first_key(value)
        [counts] = count_below([ranking], threshold, monitor)
        cut = Lazy.of_value(Cut(threshold, -1, counts.below, counts.non_finite))
        return Decision(ElementCut(ranking, cut), counts.below)


def standard_deviation(scores: Scores, monitor: Monitor) -> float:
    """Return the standard deviation of all finite scores, over N - 1; NaN if N < 2.

    Chunks are combined in order, so that the result does not depend on the number of threads (Chan,
    Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
    1979).
    """
    import torch

    from prune_gui.pruning.kernels import groups as group_kernels
    from prune_gui.pruning.parallel import chunks, run

    size = math.prod(scores.shape)

    def chunk_moments(span: tuple[int, int]) -> tuple[int, float, float]:
        chunk = scores.part(*span).to(torch.float64).numpy()
        monitor.advance(scores.nbytes * chunk.size // size)
        return group_kernels.moments(chunk)

    n, mean, squares = 0, 0.0, 0.0
    for chunk_n, chunk_mean, chunk_squares in run(chunk_moments, chunks(size)):
        if chunk_n:
            delta = chunk_mean - mean
            squares += chunk_squares + delta * delta * (n * chunk_n / (n + chunk_n))
            mean += delta * (chunk_n / (n + chunk_n))
            n += chunk_n
    return math.sqrt(squares / (n - 1)) if n > 1 else math.nan
