"""Methods that prune whole channels along one dimension."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, StrictFloat, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.pruning.methods.base import (
    Amount,
    Decision,
    Dim,
    Importance,
    Method,
    Of,
    Seed,
    Target,
    count_units,
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


class _Channels(Method):
    """Prunes the lowest-ranked channels along `dim` of each target."""

    unit: ClassVar[Literal["entry", "channel"]] = "channel"

    amount: Amount = 0.5
    dim: Dim = 0
    amount_of: Of = "remaining"

    @abstractmethod
    def _ranks(self, target: Target, dim: int, monitor: Monitor) -> NDArray[np.floating[Any]]:
        """Return one number per channel along `dim`; the least go first, NaN last."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune the k lowest-ranked channels that have at least one entry left."""
        with monitor.plan(sum(self._work(target) for target in targets)):
            return [self._decide(target, monitor) for target in targets]

    def _work(self, target: Target) -> int:
        """Return how many bytes ranking the channels reads."""
        return 0

    def _decide(self, target: Target, monitor: Monitor) -> Decision:
        import numpy as np

        from prune_gui.pruning.predicate import ChannelCut, count_per_channel

        monitor.advance()
        dim = _dimension(target, self.dim)
        channels, size = target.shape[dim], math.prod(target.shape)
        if target.alive is None:
            there = np.full(channels, size // channels)
        else:
            there = count_per_channel(target.shape, dim, target.alive)
        k = count_units(
            self.amount,
            self.amount_of,
            remaining=int(np.count_nonzero(there)),
            total=channels,
            of=f"{target.name}, channels along dimension {dim}",
        )
        ranks = self._ranks(target, dim, monitor)
        order = np.argsort(ranks, stable=True)
        pruned = np.zeros(channels, np.bool_)
        pruned[order[there[order] > 0][:k]] = True
        odd = int(np.count_nonzero(~np.isfinite(ranks)))
        note = f"{odd:,} channels of NaN or infinite norm rank as the largest" if odd else ""
        return Decision(ChannelCut(target.shape, dim, pruned), int(there[pruned].sum()), note)


class LnStructured(_Channels):
    """Prune the channels of least p-norm, taken over all other dimensions.

    Entries that an earlier step pruned count as zeros. Channels of equal norm go lowest index
    first; a channel whose norm is NaN or infinite ranks as the largest.
    """

    name: ClassVar[str] = "ln_structured"
    title: ClassVar[str] = "Ln structured"

    n: Norm = 2
    importance: Importance = None

    def _ranks(self, target: Target, dim: int, monitor: Monitor) -> NDArray[np.floating[Any]]:
        import torch

        from prune_gui.pruning.norms import channel_norms

        scores = target.scores(self.importance)()
        if target.alive is not None:
            alive = torch.from_numpy(target.alive(0, scores.numel())).view(scores.shape)
            scores = torch.where(alive, scores, torch.zeros((), dtype=scores.dtype))
        try:
            norms: NDArray[np.floating[Any]] = channel_norms(
                scores, self.n, dim, monitor=monitor
            ).numpy()
        except ValueError as error:
            raise RecipeError(f"{target.name}: {error}") from error
        return norms

    def _work(self, target: Target) -> int:
        return target.scores(self.importance)().nbytes


class RandomStructured(_Channels):
    """Prune channels at random, each with the same chance."""

    name: ClassVar[str] = "random_structured"
    title: ClassVar[str] = "Random structured"

    seed: Seed = 0

    def _ranks(self, target: Target, dim: int, monitor: Monitor) -> NDArray[np.floating[Any]]:
        import numpy as np

        from prune_gui.pruning.keys import RandomKeys

        channels = target.shape[dim]
        return RandomKeys(self.seed, target.name, channels).bits(0, channels).astype(np.float64)


def _dimension(target: Target, dim: int) -> int:
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
