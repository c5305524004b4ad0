"""Methods that prune whole channels along one dimension."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, StrictFloat, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.pruning.methods.base import (
    Amount,
    Decision,
    Dim,
    MaxSparsity,
    Method,
    Of,
    Scope,
    ScoredMethod,
    Seed,
    Target,
    at_most,
    count_units,
    held,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.monitor import Monitor


def _number(n: object) -> object:
    return float(n) if n in ("inf", "-inf") else n


def _word(n: object) -> Any:  # noqa: ANN401 - whatever YAML and JSON can say
    return str(n) if isinstance(n, float) and math.isinf(n) else n


Norm = Annotated[
    StrictInt | StrictFloat | Literal["fro", "nuc"],
    BeforeValidator(_number),
    PlainSerializer(_word),
    Field(description="The norm's order p: a number, inf, -inf, fro or nuc."),
]


class ChannelMethod(Method):
    """Prunes the lowest-ranked channels along `dim` of each target, or of all targets as one."""

    unit: ClassVar[Literal["entry", "channel", "block"]] = "channel"

    amount: Amount = 0.5
    dim: Dim = 0
    scope: Scope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    @abstractmethod
    def _ranks(self, target: Target, dim: int, monitor: Monitor) -> NDArray[np.floating[Any]]:
        """Return one number per channel along `dim`; the least go first, NaN last."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune the k lowest-ranked channels that have at least one entry left."""
        rows = [_Channels.of(target, self.dim) for target in targets]
        if self.scope == "global":
            with monitor.plan(sum(self._work(target) for target in targets)):
                return self._choose_together(rows, monitor)
        decisions = []
        for row in rows:
            monitor.advance()
            decisions.append(self._choose_alone(row))
        return decisions

    def _work(self, target: Target) -> int:
        """Return how many bytes ranking the channels reads."""
        return 0

    def _comparable(
        self, ranks: NDArray[np.floating[Any]], channels: _Channels
    ) -> NDArray[np.floating[Any]]:
        """Return ranks that compare between channels of different sizes.

        Raises:
            RecipeError: there are none.
        """
        return ranks

    def _most(self, channels: _Channels) -> int:
        there = int(channels.there.astype(bool).sum())
        return at_most(self.max_sparsity, remaining=there, total=len(channels.there))

    def _choose_alone(self, channels: _Channels) -> Decision:
        """Decide by arithmetic, if all entries are there; which channels go is found later."""
        import numpy as np

        from prune_gui.monitor import Monitor
        from prune_gui.pruning.once import Once
        from prune_gui.pruning.predicates import ChannelCut, Chosen

        target, dim, there = channels.target, channels.dim, channels.there
        k = count_units(
            self.amount,
            self.amount_of,
            remaining=int(np.count_nonzero(there)),
            total=len(there),
            of=f"{target.name}, channels along dimension {dim}",
        )
        possible = min(k, self._most(channels))

        def choose() -> Chosen:
            ranks = self._ranks(target, dim, Monitor())
            order = np.argsort(ranks, stable=True)
            pruned = np.zeros(len(there), np.bool_)
            pruned[order[there[order] > 0][:possible]] = True
            return Chosen(pruned, ranks, there)

        chosen = Once(choose)
        if target.alive is None:
            entries = possible * (target.size // len(there))
        else:
            entries = int(there[chosen().pruned].sum())
        note = held(self.max_sparsity, k - possible) if k > possible else ""
        return Decision(ChannelCut(target.shape, dim, chosen), entries, note)

    def _choose_together(self, rows: Sequence[_Channels], monitor: Monitor) -> list[Decision]:
        import numpy as np

        from prune_gui.pruning.once import Once
        from prune_gui.pruning.predicates import ChannelCut, Chosen

        k = count_units(
            self.amount,
            self.amount_of,
            remaining=sum(int(np.count_nonzero(row.there)) for row in rows),
            total=sum(len(row.there) for row in rows),
            of="All targets",
        )
        ranks, candidates, missing = [], [], k
        for row in rows:
            own = self._comparable(self._ranks(row.target, row.dim, monitor), row)
            order = np.argsort(own, stable=True)
            candidates.append(order[row.there[order] > 0][: self._most(row)])
            ranks.append(own)
        owners = np.repeat(np.arange(len(rows)), [len(some) for some in candidates])
        channels = np.concatenate(candidates)
        keys = np.concatenate([own[some] for own, some in zip(ranks, candidates, strict=True)])
        # Of equal ranks an earlier target goes first, then the lower channel.
        going = np.lexsort((channels, owners, keys))[:k]
        missing = k - len(going)
        decisions = []
        for i, row in enumerate(rows):
            pruned = np.zeros(len(row.there), np.bool_)
            pruned[channels[going[owners[going] == i]]] = True
            chosen = Once.known(Chosen(pruned, ranks[i], row.there))
            reached = self.max_sparsity < 1.0 and int(pruned.sum()) == self._most(row)
            decisions.append(
                Decision(
                    ChannelCut(row.target.shape, row.dim, chosen),
                    int(row.there[pruned].sum()),
                    held(self.max_sparsity, missing) if reached else "",
                )
            )
        return decisions


@dataclass(frozen=True, slots=True)
class _Channels:
    """The channels of one target.

    Attributes:
        target: whose they are.
        dim: along which they lie, counted from the front.
        there: int64, how many entries of each no earlier step pruned.
    """

    target: Target
    dim: int
    there: NDArray[np.int64]

    @classmethod
    def of(cls, target: Target, dim: int) -> _Channels:
        """Return the channels of a target along a dimension.

        Raises:
            RecipeError: it has none along it.
        """
        import numpy as np

        from prune_gui.pruning.predicates import count_per_channel

        dim = dimension(target, dim)
        if target.alive is not None:
            return cls(target, dim, count_per_channel(target.shape, dim, target.alive))
        channels = target.shape[dim]
        return cls(target, dim, np.full(channels, target.size // channels))

    @property
    def entries(self) -> int:
        """Entries per channel."""
        return self.target.size // len(self.there)


class LnStructured(ScoredMethod, ChannelMethod):
    """Prune the channels of least p-norm, taken over all other dimensions.

    Entries that an earlier step pruned count as zeros. Channels of equal norm go lowest index
    first; a channel whose norm is NaN or infinite ranks as the largest. In a global step a norm is
    divided by (number of entries)^(1/p), so that layers compare; for n = 0 by that number.
    """

    name: ClassVar[str] = "ln_structured"
    title: ClassVar[str] = "Ln structured"

    n: Norm = 2

    def _ranks(self, target: Target, dim: int, monitor: Monitor) -> NDArray[np.floating[Any]]:
        from prune_gui.pruning.norms import score_norms

        try:
            norms: NDArray[np.floating[Any]] = score_norms(
                self.scores(target), target.alive, self.n, dim, monitor=monitor
            ).numpy()
        except ValueError as error:
            raise RecipeError(f"{target.name}: {error}") from error
        return norms

    def _work(self, target: Target) -> int:
        return self.scores(target).nbytes

    def _comparable(
        self, ranks: NDArray[np.floating[Any]], channels: _Channels
    ) -> NDArray[np.floating[Any]]:
        if self.n == "nuc":
            raise RecipeError(
                "n='nuc' cannot rank the channels of several layers together: it has no scale that "
                "they share. Use scope local, or n='fro'."
            )
        p = 2.0 if self.n == "fro" else float(self.n)
        if math.isinf(p):
            return ranks
        scaled: NDArray[np.floating[Any]] = ranks / channels.entries ** (1 / p if p else 1)
        return scaled


class RandomStructured(ChannelMethod):
    """Prune channels at random, each with the same chance."""

    name: ClassVar[str] = "random_structured"
    title: ClassVar[str] = "Random structured"

    seed: Seed = 0

    def _ranks(self, target: Target, dim: int, monitor: Monitor) -> NDArray[np.floating[Any]]:
        import numpy as np

        from prune_gui.pruning.keys import RandomKeys

        channels = target.shape[dim]
        return RandomKeys(self.seed, target.name, channels).bits(0, channels).astype(np.float64)


def dimension(target: Target, dim: int) -> int:
    """Return `dim` counted from the front.

    Raises:
        RecipeError: the target has no channels along it.
    """
    dims = len(target.shape)
    if dims < 2:
        raise RecipeError(
            f"{target.name} has shape {list(target.shape)}; pruning channels needs two dimensions "
            "or more. Leave it out of the targets, or use an unstructured method."
        )
    if not -dims <= dim < dims:
        raise RecipeError(
            f"{target.name} has {dims} dimensions; dim {dim} is none of them. "
            f"Use {-dims} to {dims - 1}."
        )
    return dim % dims
