"""Methods that prune whole channels along one dimension."""

from __future__ import annotations

import math
from typing import ClassVar

from prune_gui.language import deferred
from prune_gui.pruning.methods.base import AllocatedMethod, RankingScope, ScoredMethod, ScoreKind
from prune_gui.pruning.methods.fields import (
    Dim,
    MaxSparsity,
    MethodGroup,
    Norm,
    Of,
    Scope,
    Seed,
    Unit,
    torch_dim,
)


class ChannelMethod(AllocatedMethod):
    """Prunes the lowest-ranked channels along `dim` of each target, or of all targets as one."""

    unit: ClassVar[Unit] = "channel"
    method_group: ClassVar[MethodGroup] = "channels"

    dim: Dim = "output"
    scope: Scope = "local"
    amount_of: Of = "remaining"
    max_sparsity: MaxSparsity = 1.0

    @property
    def ranking_scope(self) -> RankingScope:
        """Which channels share one cut."""
        return self.scope


class LnStructured(ScoredMethod, ChannelMethod):
    """Prune the channels with the smallest p-norm, computed over all other dimensions.

    Entries that an earlier step pruned count as zeros. Channels of equal norm go lowest index
    first; an infinite norm ranks above every finite one, and NaN above infinity. In a global step a
    norm is divided by (number of entries)^(1/p), so that layers compare; for n = 0 by that number.
    """

    name: ClassVar[str] = "ln_structured"
    title: ClassVar[str] = deferred("Ln structured")

    n: Norm = 2

    def torch_lines(self, names: str) -> list[str]:
        """Return lines of Python that prune with torch, unless an option is one that it lacks."""
        in_torch = self.ranks_weights and self.amount_of == "remaining" and self.max_sparsity == 1.0
        if not in_torch or self.scope != "local" or self.n == "nuc":
            return []
        order = 2.0 if self.n == "fro" else float(self.n)
        n = f'float("{order}")' if math.isinf(order) else repr(order)
        call = f"Ln.apply(*parameters[name], {self.amount!r}, {n}, {torch_dim(self.dim)})"
        return [f"for name in {names}:", f"    {call}"]


class RandomStructured(ChannelMethod):
    """Prune channels at random, with equal probability."""

    name: ClassVar[str] = "random_structured"
    title: ClassVar[str] = deferred("Random structured")

    seed: Seed = 0

    @property
    def score_kind(self) -> ScoreKind:
        """Random numbers rank the channels."""
        return "random"
