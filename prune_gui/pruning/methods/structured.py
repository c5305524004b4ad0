"""Methods that prune whole channels along one dimension."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, StrictFloat, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr, trn
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
)
from prune_gui.pruning.methods.units import Units, select_units

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.monitor import Monitor


def _parse_infinity(n: object) -> object:
    return float(n) if n in ("inf", "-inf") else n


def _write_infinity(n: object) -> Any:  # noqa: ANN401 - any YAML or JSON value
    return str(n) if isinstance(n, float) and math.isinf(n) else n


Norm = Annotated[
    StrictInt | StrictFloat | Literal["fro", "nuc"],
    BeforeValidator(_parse_infinity),
    PlainSerializer(_write_infinity),
    Field(description=deferred("The norm's order p: a number, inf, -inf, fro or nuc.")),
]

CHANNELS_OF_TWO: Final = deferred(
    "{name} has shape {shape}; pruning channels needs two dimensions or more. Leave it out of the "
    "targets, or use an unstructured method."
)
CHANNELS_OF_ONE: Final = deferred(
    "{name} has shape {shape}; pruning channels needs a dimension. Leave it out of the targets, or "
    "use an unstructured method."
)


class ChannelMethod(Method):
    """Prunes the lowest-ranked channels along `dim` of each target, or of all targets as one."""

    unit: ClassVar[Literal["entry", "channel", "block"]] = "channel"

    amount: Amount = 0.5
    dim: Dim = 0
    scope: Scope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    @abstractmethod
    def _rank_channels(
        self, target: Target, dim: int, monitor: Monitor
    ) -> NDArray[np.floating[Any]]:
        """Return a number >= 0 per channel along `dim`; the smallest are pruned first, NaN last."""

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Prune the k lowest-ranked channels among those with a remaining element."""
        return select_units([self._channel_units(target) for target in targets], self, monitor)

    def _channel_units(self, target: Target) -> Units:
        from prune_gui.pruning.predicates import ChannelCut

        dim = dimension(target, self.dim)
        elements = target.size // target.shape[dim]

        def rank(monitor: Monitor) -> NDArray[np.floating[Any]]:
            ranks = self._rank_channels(target, dim, monitor)
            return self._scale_ranks(ranks, elements) if self.scope == "global" else ranks

        return Units(
            target=target,
            label=lambda: tr("{name}, channels along dimension {dim}", name=target.name, dim=dim),
            remaining_elements=remaining_channels(target, dim),
            rank=rank,
            rank_bytes=self._rank_bytes(target),
            predicate=partial(ChannelCut, target.shape, dim),
        )

    def _rank_bytes(self, target: Target) -> int:
        """Return the number of bytes that ranking the channels reads."""
        return 0

    def _scale_ranks(
        self, ranks: NDArray[np.floating[Any]], elements: int
    ) -> NDArray[np.floating[Any]]:
        """Return ranks that are comparable between channels of different size.

        Args:
            ranks: one number per channel.
            elements: number of elements of each channel.

        Raises:
            RecipeError: the ranks cannot be made comparable.
        """
        return ranks


class LnStructured(ScoredMethod, ChannelMethod):
    """Prune the channels of least p-norm, taken over all other dimensions.

    Entries that an earlier step pruned count as zeros. Channels of equal norm go lowest index
    first; an infinite norm ranks above every finite one, and NaN above infinity. In a global step a
    norm is divided by (number of entries)^(1/p), so that layers compare; for n = 0 by that number.
    """

    name: ClassVar[str] = "ln_structured"
    title: ClassVar[str] = deferred("Ln structured")

    n: Norm = 2

    def _channel_units(self, target: Target) -> Units:
        units = super()._channel_units(target)
        if self.n == "nuc" and len(target.shape) != 3:
            raise RecipeError(
                tr(
                    "{name} has {dims} dimensions; n='nuc' needs 3, so that each channel is a "
                    "matrix. Leave it out of the targets, or use n='fro' or a number.",
                    name=target.name,
                    dims=len(target.shape),
                )
            )
        return units

    def _rank_channels(
        self, target: Target, dim: int, monitor: Monitor
    ) -> NDArray[np.floating[Any]]:
        from prune_gui.pruning.norms.channels import score_norms

        norms: NDArray[np.floating[Any]] = score_norms(
            self.scores(target), target.remaining_mask, self.n, dim, monitor=monitor
        ).numpy()
        return norms

    def _rank_bytes(self, target: Target) -> int:
        return self.scores(target).nbytes

    def _scale_ranks(
        self, ranks: NDArray[np.floating[Any]], elements: int
    ) -> NDArray[np.floating[Any]]:
        if self.n == "nuc":
            raise RecipeError(
                tr(
                    "n='nuc' cannot rank the channels of several layers together: it has no scale "
                    "that they share. Use scope local, or n='fro'."
                )
            )
        p = 2.0 if self.n == "fro" else float(self.n)
        if math.isinf(p):
            return ranks
        scaled: NDArray[np.floating[Any]] = ranks / elements ** (1 / p if p else 1)
        return scaled


class RandomStructured(ChannelMethod):
    """Prune channels at random, each with the same chance."""

    name: ClassVar[str] = "random_structured"
    title: ClassVar[str] = deferred("Random structured")

    seed: Seed = 0

    def _rank_channels(
        self, target: Target, dim: int, monitor: Monitor
    ) -> NDArray[np.floating[Any]]:
        import numpy as np

        from prune_gui.pruning.selection.keys import RandomKeys

        channels = target.shape[dim]
        return RandomKeys(self.seed, target.name, channels).bits(0, channels).astype(np.float64)


def dimension(target: Target, dim: int, *, min_dims: int = 2, flat: str = CHANNELS_OF_TWO) -> int:
    """Return `dim` as a non-negative index.

    Args:
        target: the parameter.
        dim: a dimension of it; negative values count from the last.
        min_dims: required number of dimensions: 1 or 2.
        flat: the message if it has fewer, with the fields ``{name}`` and ``{shape}``.

    Raises:
        RecipeError: the target has too few dimensions, or no such dimension.
    """
    dims = len(target.shape)
    if dims < min_dims:
        raise RecipeError(tr(flat, name=target.name, shape=list(target.shape)))
    if not -dims <= dim < dims:
        raise RecipeError(
            trn(
                "{name} has {count} dimension; dim {dim} is none of them. Use {first} to {last}, "
                "or leave it out of the targets.",
                "{name} has {count} dimensions; dim {dim} is none of them. Use {first} to {last}, "
                "or leave it out of the targets.",
                dims,
                name=target.name,
                dim=dim,
                first=-dims,
                last=dims - 1,
            )
        )
    return dim % dims


def remaining_channels(target: Target, dim: int) -> NDArray[np.int64]:
    """Return the number of remaining elements per channel along `dim` >= 0, int64."""
    import numpy as np

    from prune_gui.pruning.predicates import count_per_channel

    if target.remaining_mask is not None:
        return count_per_channel(target.shape, dim, target.remaining_mask)
    channels = target.shape[dim]
    return np.full(channels, target.size // channels)
