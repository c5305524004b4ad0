"""When a run of training is pruned, and how far.

A schedule is a tuple of `Update`. They happen after the optimizer step whose number they have; one
at step 0 happens at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Growth = Literal["gradient", "random"]
Rewind = Literal["weights", "learning_rate", "both"]


@dataclass(frozen=True, slots=True)
class Update:
    """A change of the masks.

    Attributes:
        step: number of optimizer steps before it.
        sparsity: share in [0, 1] of the targets that is pruned after it; None: as the recipe says,
            or as before if elements are only replaced.
        replaced: share of the kept elements of each parameter that is pruned and grown again
            elsewhere, after `sparsity` is reached.
        growth: which pruned elements grow: those of largest absolute gradient, or random ones.
        rewind_to: the step whose values are restored afterwards; None: training goes on.
        rewind: what is restored.

    Raises:
        ValueError: a share is not in [0, 1], or a step is negative.
    """

    step: int
    sparsity: float | None = None
    replaced: float = 0.0
    growth: Growth = "gradient"
    rewind_to: int | None = None
    rewind: Rewind = "weights"

    def __post_init__(self) -> None:
        _check_share(sparsity=self.sparsity or 0, replaced=self.replaced)
        if self.step < 0:
            raise ValueError(f"a step cannot be negative: {self.step}")


Schedule = tuple[Update, ...]


def one_shot(sparsity: float | None = None, at: int = 0) -> Schedule:
    """Prune once; to the amounts of the recipe if no sparsity is given."""
    return (Update(at, sparsity),)


def iterative(sparsities: Sequence[float], every: int, begin: int = 0) -> Schedule:
    """Prune to one sparsity after another, `every` steps apart."""
    _check_positive(every=every)
    return tuple(Update(begin + i * every, share) for i, share in enumerate(sparsities))


def cubic(initial: float, final: float, *, steps: int, every: int, begin: int = 0) -> Schedule:
    """Prune gradually: s = final + (initial - final) (1 - t / steps)^3.

    Source: Zhu and Gupta, "To Prune, or Not to Prune: Exploring the Efficacy of Pruning for Model
    Compression", 2017, equation 1.

    Args:
        initial, final: sparsities in [0, 1].
        steps: optimizer steps from `begin` until the final sparsity.
        every: optimizer steps between two updates.
        begin: the step t = 0.
    """
    _check_positive(steps=steps, every=every)
    _check_share(initial=initial, final=final)
    times = [*range(0, steps, every), steps]
    return tuple(Update(begin + t, final + (initial - final) * (1 - t / steps) ** 3) for t in times)


def regrowing(
    *,
    every: int,
    until: int,
    sparsity: float | None = None,
    replaced: float = 0.3,
    growth: Growth = "gradient",
) -> Schedule:
    """Prune at the start, then move a share of the kept elements, which falls as a cosine.

    `growth` by gradients is RigL (Evci et al., "Rigging the Lottery", 2020), random growth is SET
    (Mocanu et al., "Scalable Training of Artificial Neural Networks with Adaptive Sparse
    Connectivity", 2018). Grown elements start at 0.

    Args:
        every: optimizer steps between two updates.
        until: the last step at which one may happen.
        sparsity: see `one_shot`.
        replaced: share of the kept elements that the first update would move at step 0.
        growth: see `Update`.
    """
    _check_positive(every=every, until=until)
    moves = (
        Update(t, None, replaced / 2 * (1 + math.cos(math.pi * t / until)), growth)
        for t in range(every, until + 1, every)
    )
    return (Update(0, sparsity), *moves)


def lottery_ticket(
    *,
    rounds: int,
    steps: int,
    pruned: float = 0.2,
    rewind_to: int = 0,
    rewind: Rewind = "weights",
) -> Schedule:
    """Train, prune a share of what is kept, rewind; and again.

    Rewinding of weights is that of Frankle et al., "Linear Mode Connectivity and the Lottery Ticket
    Hypothesis", 2020; of the learning rate, of Renda et al., "Comparing Rewinding and Fine-tuning
    in Neural Network Pruning", 2020.

    Args:
        rounds: how often it is pruned; afterwards, the last ticket is trained.
        steps: of the optimizer up to each pruning, counted from step 0.
        pruned: share of the kept elements that a round prunes.
        rewind_to: the step that each round goes back to, below `steps`.
        rewind: "weights" restores them with the optimizer's state, "learning_rate" the state of
            the schedulers, "both" both.
    """
    _check_positive(rounds=rounds, steps=steps)
    _check_share(pruned=pruned)
    if not 0 <= rewind_to < steps:
        raise ValueError(f"rewind_to must be one of the {steps} steps, from 0 on, not {rewind_to}")
    length = steps - rewind_to
    return tuple(
        Update(steps + i * length, 1 - (1 - pruned) ** (i + 1), rewind_to=rewind_to, rewind=rewind)
        for i in range(rounds)
    )


def _check_share(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {number}")


def _check_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1, not {number}")
