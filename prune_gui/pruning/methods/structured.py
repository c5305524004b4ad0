"""Methods that prune whole channels along one dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from prune_gui.errors import RecipeError
from prune_gui.language import deferred
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, norms, selection
from prune_gui.pruning.methods.base import AllocatedMethod, ScoredMethod, ScoreKind
from prune_gui.pruning.methods.fields import Dim, MaxSparsity, Norm, Of, Scope, Seed, torch_dim

if TYPE_CHECKING:
    from prune_gui.pruning.arrays import Values
    from prune_gui.pruning.decisions import Decision, Target, Units

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning channels needs two dimensions or more. Leave it out of the "
    "targets, or use an unstructured method."
)


class ChannelMethod(AllocatedMethod):
    """Prunes the lowest-ranked channels along `dim` of each target, or of all targets as one."""

    unit = "channel"
    method_group = "channels"

    dim: Dim = "output"
    scope: Scope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        return decisions.select_units([self._units(target) for target in targets], self, monitor)

    def _units(self, target: Target) -> Units:
        raise NotImplementedError

    def _dimension(self, target: Target) -> int:
        """Return the dimension of a target whose channels are pruned, not negative."""
        return decisions.dimension(target, self.dim, min_dims=2, flat=FLAT)


class LnStructuredMethod(ScoredMethod, ChannelMethod):
    """Prune the channels with the smallest p-norm over all other dimensions.

    Entries that an earlier step pruned count as zeros. Channels of equal norm go lowest index
    first; an infinite norm ranks above every finite one, and NaN above infinity. In a global step a
    norm is divided by (number of entries)^(1/p), so that layers compare; for n = 0 by that number.
    """

    name = "ln_structured"
    title = deferred("Ln structured")

    n: Norm = 2

    def _units(self, target: Target) -> Units:
        dim, scores = self._dimension(target), decisions.target_scores(self, target)
        if self.n == "nuc" and len(target.shape) != 3:
            raise RecipeError(
                "{name} has {dims} dimensions; n='nuc' needs 3, so that each channel is a "
                "matrix. Leave it out of the targets, or use n='fro' or a number.",
                name=target.name,
                dims=len(target.shape),
            )

        def rank(monitor: Monitor) -> Values:
            found = norms.score_norms(scores, target.remaining_mask, self.n, dim, monitor=monitor)
            scale = self._scale(target.size // target.shape[dim])
            ranks: Values = found.numpy() / scale
            return ranks

        return decisions.channel_units(target, dim, rank, scores.nbytes)

    def _scale(self, elements: int) -> float:
        """Return by what norms of channels are divided before layers are compared."""
        if self.scope == "local":
            return 1.0
        if self.n == "nuc":
            raise RecipeError(
                "n='nuc' cannot rank the channels of several layers together: they have no "
                "common scale. Use scope local, or n='fro'."
            )
        p = 2.0 if self.n == "fro" else float(self.n)
        scale: float = elements ** (1 / p if p else 1)
        return scale

    def torch_lines(self, names: str) -> list[str]:
        in_torch = self.ranks_weights and self.amount_of == "remaining" and self.max_sparsity == 1.0
        if not in_torch or self.scope != "local" or self.n == "nuc":
            return []
        order = 2.0 if self.n == "fro" else float(self.n)
        n = f'float("{order}")' if math.isinf(order) else repr(order)
        call = f"Ln.apply(*parameters[name], {self.amount!r}, {n}, {torch_dim(self.dim)})"
        return [f"for name in {names}:", f"    {call}"]


class RandomStructuredMethod(ChannelMethod):
    """Prune channels at random, with equal probability."""

    name = "random_structured"
    title = deferred("Random structured")
    score_kind: ClassVar[ScoreKind] = "random"

    seed: Seed = 0

    def _units(self, target: Target) -> Units:
        dim = self._dimension(target)
        channels = target.shape[dim]
        keys = selection.RandomKeys(self.seed, target.name, channels)
        return decisions.channel_units(
            target, dim, lambda _: keys.bits(0, channels).astype("float64")
        )
