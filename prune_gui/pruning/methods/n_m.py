"""n:m sparsity, the pattern of sparse tensor cores: n of m consecutive elements are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictInt, ValidationInfo, field_validator

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods.base import Decision, Dim, ScoredMethod, Target
from prune_gui.pruning.methods.structured import dimension

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import NMCut

Tail = Annotated[
    Literal["refuse", "keep"],
    Field(
        description=deferred(
            "What to do with a target that does not divide evenly: refuse it, or keep the rest "
            "whole."
        )
    ),
]

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning groups needs a dimension. Leave it out of the targets, or "
    "use an unstructured method."
)
UNEVEN: Final = deferred(
    "{name} has shape {shape}: {length:,} entries along dimension {dim} do not divide into groups "
    "of {m}. Set tail to keep to leave the last {rest} as they are, or leave it out of the targets."
)
UNEVEN_AS_ONE: Final = deferred(
    "{name} has shape {shape}: {length:,} entries along dimension {dim} and those after it do not "
    "divide into groups of {m}. Set tail to keep to leave the last {rest} as they are, or leave it "
    "out of the targets."
)


class NM(ScoredMethod):
    """Keep the n entries of largest absolute value (or score) of each m consecutive ones.

    Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021: 2:4 and 4:8 are what hardware
    runs. Entries that an earlier step pruned rank lowest and count among the m - n that go. Of
    equal scores the lowest index goes first; infinity ranks above every finite score, and NaN above
    infinity.
    """

    name: ClassVar[str] = "n_m"
    title: ClassVar[str] = deferred("n:m")
    unit: ClassVar[Literal["entry", "channel", "block"]] = "entry"

    n: Annotated[StrictInt, Field(ge=0, description=deferred("How many of each group stay."))] = 2
    m: Annotated[
        StrictInt,
        Field(ge=1, validate_default=True, description=deferred("How many entries make a group.")),
    ] = 4
    dim: Annotated[
        Dim,
        Field(
            description=deferred("The dimension along which groups lie; 1 is the input channels.")
        ),
    ] = 1
    flatten: Annotated[
        bool,
        Field(
            description=deferred(
                "Take the dimension and all after it as one, as a convolution over flattened input "
                "does; else groups lie along the dimension alone."
            )
        ),
    ] = True
    tail: Tail = "refuse"

    @field_validator("m")
    @classmethod
    def _check_group_size(cls, m: int, info: ValidationInfo) -> int:
        if m < info.data.get("n", 0):
            raise ValueError(tr("a group is no smaller than what stays of it: m is at least n"))
        return m

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Compute the counts of unpruned targets from shapes; count the elements of others."""
        cuts = [self._cut(target) for target in targets]
        counted_elements = sum(
            target.size for target in targets if target.remaining_mask is not None
        )
        decisions = []
        with monitor.plan(counted_elements):
            for target, cut in zip(targets, cuts, strict=True):
                monitor.advance()
                decisions.append(Decision(cut, self._count(target, cut, monitor)))
        return decisions

    def _cut(self, target: Target) -> NMCut:
        from prune_gui.pruning.predicates import Groups, NMCut
        from prune_gui.pruning.selection.keys import ScoreKeys
        from prune_gui.pruning.selection.radix_select import Ranking

        dim = dimension(target, self.dim, min_dims=1, flat=FLAT)
        after = math.prod(target.shape[dim + 1 :])
        along = target.shape[dim]
        groups = Groups(self.m, along * after, 1) if self.flatten else Groups(self.m, along, after)
        if groups.length % self.m and self.tail == "refuse":
            raise RecipeError(
                tr(
                    UNEVEN_AS_ONE if self.flatten else UNEVEN,
                    name=target.name,
                    shape=list(target.shape),
                    length=groups.length,
                    dim=dim,
                    m=self.m,
                    rest=groups.length % self.m,
                )
            )
        keys = ScoreKeys.of(self.scores(target))
        return NMCut(Ranking(keys, target.remaining_mask), groups, self.m - self.n)

    def _count(self, target: Target, cut: NMCut, monitor: Monitor) -> int:
        from prune_gui.pruning.parallel import chunks, run

        if target.remaining_mask is None:
            slabs = target.size // cut.groups.slab
            return slabs * (cut.groups.slab // cut.groups.block) * cut.groups.inner * cut.going

        def count(span: tuple[int, int]) -> int:
            monitor.advance(span[1] - span[0])
            return cut.count(*span)

        return sum(run(count, chunks(target.size)))
