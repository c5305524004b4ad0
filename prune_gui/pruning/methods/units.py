"""Units that go as a whole, channels or blocks: how the lowest-ranked are chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.methods.base import (
    Decision,
    Target,
    all_targets,
    at_most,
    cap_note,
    count_units,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.monitor import Monitor
    from prune_gui.pruning.amount import AmountOf
    from prune_gui.pruning.lazy import Lazy
    from prune_gui.pruning.predicates import Predicate, PrunedChannels


class UnitRequest(Protocol):
    """How many units a method prunes, by the names of its fields."""

    @property
    def amount(self) -> int | float:
        """A share, or a number of units."""

    @property
    def scope(self) -> Literal["local", "global"]:
        """Whether the units of all targets are ranked together."""

    @property
    def amount_of(self) -> AmountOf:
        """What a share is a share of."""

    @property
    def max_sparsity(self) -> float:
        """Which share of its units a target loses at most."""


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one target.

    Attributes:
        target: whose they are.
        called: returns what a message calls them, with the name of the target.
        there: int64, how many entries of each no earlier step pruned; units of none are out.
        rank: returns a number for each, none negative: the least go first, NaN last; or raises
            `ValueError`.
        work: how many bytes `rank` reads.
        predicate: returns what prunes those chosen.
    """

    target: Target
    called: Callable[[], str]
    there: NDArray[np.int64]
    rank: Callable[[Monitor], NDArray[np.floating[Any]]]
    work: int
    predicate: Callable[[Lazy[PrunedChannels]], Predicate]

    def ranks(self, monitor: Monitor) -> NDArray[np.floating[Any]]:
        """Return what `rank` does.

        Raises:
            RecipeError: it cannot; the message names the target.
            Cancelled: the monitor said so.
        """
        try:
            return self.rank(monitor)
        except ValueError as error:
            raise RecipeError(
                tr("{name}: {reason}", name=self.target.name, reason=error)
            ) from error

    @property
    def remaining(self) -> int:
        """Units that have at least one entry left."""
        return int((self.there > 0).sum())

    def most(self, asked: UnitRequest) -> int:
        """Return how many of them may go."""
        return at_most(asked.max_sparsity, remaining=self.remaining, total=len(self.there))


def choose(every: Sequence[Units], asked: UnitRequest, monitor: Monitor) -> list[Decision]:
    """Prune the k lowest-ranked units of each target, or of all as one.

    Raises:
        RecipeError: there are not so many, or they cannot be ranked.
        Cancelled: the monitor said so.
    """
    if asked.scope == "global":
        with monitor.plan(sum(units.work for units in every)):
            return _choose_globally(every, asked, monitor)
    decisions = []
    for units in every:
        monitor.advance()
        decisions.append(_choose_alone(units, asked))
    return decisions


def _choose_alone(units: Units, asked: UnitRequest) -> Decision:
    """Decide by arithmetic, if all entries are there; which units go is found later."""
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.lazy import Lazy

    k = count_units(
        asked.amount,
        asked.amount_of,
        remaining=units.remaining,
        total=len(units.there),
        of=units.called,
    )
    possible = min(k, units.most(asked))

    def find() -> PrunedChannels:
        [chosen] = _lowest([units], [units.ranks(Monitor())], [possible], possible)
        return chosen

    chosen = Lazy(find)
    if units.target.remaining_mask is None:
        entries = possible * int(units.there.max(initial=0))
    else:
        entries = int(units.there[chosen().pruned].sum())
    note = cap_note(asked.max_sparsity, k - possible) if k > possible else ""
    return Decision(units.predicate(chosen), entries, note)


def _choose_globally(
    every: Sequence[Units], asked: UnitRequest, monitor: Monitor
) -> list[Decision]:
    from prune_gui.pruning.lazy import Lazy

    k = count_units(
        asked.amount,
        asked.amount_of,
        remaining=sum(units.remaining for units in every),
        total=sum(len(units.there) for units in every),
        of=all_targets,
    )
    most = [units.most(asked) for units in every]
    possible = min(k, sum(most))
    ranks = [units.ranks(monitor) for units in every]
    decisions = []
    for units, own_most, chosen in zip(
        every, most, _lowest(every, ranks, most, possible), strict=True
    ):
        pruned = chosen.pruned
        reached = asked.max_sparsity < 1.0 and int(pruned.sum()) == own_most
        decisions.append(
            Decision(
                units.predicate(Lazy.known(chosen)),
                int(units.there[pruned].sum()),
                cap_note(asked.max_sparsity, k - possible) if reached else "",
            )
        )
    return decisions


def _lowest(
    every: Sequence[Units],
    ranks: Sequence[NDArray[np.floating[Any]]],
    most: Sequence[int],
    k: int,
) -> list[PrunedChannels]:
    """Choose the `k` lowest units of all, at most so many of each target.

    Of equal ranks an earlier target's go first, then the lower unit's.
    """
    import torch

    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import PrunedChannels
    from prune_gui.pruning.selection.batched import find_cuts_batched
    from prune_gui.pruning.selection.keys import ScoreKeys, ranking_dtype
    from prune_gui.pruning.selection.radix_select import Ranking, mark
    from prune_gui.pruning.selection.scores import TensorScores

    scores = [TensorScores.of(torch.from_numpy(own)) for own in ranks]
    dtype = ranking_dtype({some.dtype for some in scores})
    left = [units.there > 0 for units in every]
    rankings = [
        Ranking(
            ScoreKeys(some, dtype),
            None if there.all() else partial(_stretch, there),
            None if own == there.sum() else own,
        )
        for some, there, own in zip(scores, left, most, strict=True)
    ]
    found = []
    for units, own, ranking, there, cut in zip(
        every, ranks, rankings, left, find_cuts_batched(rankings, k, Monitor()), strict=True
    ):
        pruned = mark(ranking.keys, cut, 0, len(there)) & there
        found.append(PrunedChannels(pruned, own, units.there))
    return found


def _stretch(marked: NDArray[np.bool_], start: int, stop: int) -> NDArray[np.bool_]:
    return marked[start:stop]
