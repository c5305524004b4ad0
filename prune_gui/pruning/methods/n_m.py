"""n:m sparsity, the pattern of sparse tensor cores: n of m consecutive elements are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import Field, StrictInt, ValidationInfo, field_validator

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning import decisions, predicates, selection
from prune_gui.pruning.methods.base import ScoredMethod
from prune_gui.pruning.methods.fields import Dim, FieldText, RankingScope, Tail

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target
    from prune_gui.pruning.predicates import NMCut

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning groups needs at least one dimension. Leave it out of the "
    "targets, or use an unstructured method."
)
UNEVEN: Final = deferred(
    "{name} has shape {shape}: {length:,} elements along dimension {dim} do not divide into groups "
    "of {m}. Set tail to keep to leave the last {rest} unpruned, or leave it out of the targets."
)
UNEVEN_AS_ONE: Final = deferred(
    "{name} has shape {shape}: {length:,} elements along dimension {dim} and those after it do not "
    "divide into groups of {m}. Set tail to keep to leave the last {rest} unpruned, or leave it "
    "out of the targets."
)


class NM(ScoredMethod):
    """Keep the n largest of every m consecutive weights.

    Mishra et al., "Accelerating Sparse Deep Neural Networks", 2021: 2:4 and 4:8 are what hardware
    runs. Entries that an earlier step pruned rank lowest and count among the m - n that go. Of
    equal scores the lowest index goes first; infinity ranks above every finite score, and NaN above
    infinity.
    """

    name = "n_m"
    title = deferred("n:m")
    method_group = "patterns"
    ranking_scope: ClassVar[RankingScope] = "group"

    n: Annotated[
        StrictInt,
        Field(ge=0, description=deferred("Number of weights kept in each group.")),
        FieldText(label=deferred("&Keep"), show=lambda _method, _n: ""),  # shown with m
    ] = 2
    m: Annotated[
        StrictInt,
        Field(ge=1, validate_default=True, description=deferred("Number of weights in a group.")),
        FieldText(label=deferred("Of each"), position=2, show=lambda method, m: f"{method.n}:{m}"),
    ] = 4
    dim: Annotated[
        Dim,
        Field(
            description=deferred(
                "The dimension along which groups are formed: input or output channels, wherever "
                "the layer has them, or a number; 1 is the input channels of torch's Linear and "
                "Conv."
            )
        ),
    ] = "input"
    flatten: Annotated[
        bool,
        Field(
            description=deferred(
                "Flatten the dimension and all after it, as a convolution over flattened input "
                "does; otherwise, form groups along the dimension alone, as always along the input "
                "channels of a layer that has its output channels after them."
            )
        ),
        FieldText(
            label=deferred("Flatten"), folded=True, values={"False": deferred("flatten False")}
        ),
    ] = True
    tail: Tail = "refuse"

    @field_validator("m")
    @classmethod
    def _check_group_size(cls, m: int, info: ValidationInfo) -> int:
        if m < info.data.get("n", 0):
            raise ValueError(
                tr("a group cannot be smaller than the number kept: m must be at least n")
            )
        return m

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Compute the counts of unpruned targets from shapes; count the elements of others."""
        cuts = [self._cut(target) for target in targets]
        with monitor.plan(sum(target.size for target in targets if target.remaining_mask)):
            pairs = monitor.each(zip(targets, cuts, strict=True))
            return [
                decisions.Decision(cut, cut.total(target.size, monitor)) for target, cut in pairs
            ]

    def _cut(self, target: Target) -> NMCut:
        dim = decisions.dimension(target, self.dim, min_dims=1, flat=FLAT)
        _, along, after = target.layout.around(dim, target.shape)
        flatten = self.flatten
        if isinstance(self.dim, str):  # groups have no channels of the other kind
            others = target.layout.input_dim if self.dim == "output" else target.layout.output_dim
            flatten = flatten and others < dim
        length, inner = (along * after, 1) if flatten else (along, after)
        if length % self.m and self.tail == "refuse":
            raise RecipeError(
                UNEVEN_AS_ONE if flatten else UNEVEN,
                name=target.name,
                shape=list(target.shape),
                length=length,
                dim=dim,
                m=self.m,
                rest=length % self.m,
            )
        keys = selection.ScoreKeys.of(decisions.target_scores(self, target))
        ranking = selection.Ranking(keys, target.remaining_mask)
        return predicates.NMCut(
            ranking, predicates.NMGroups(self.m, length, inner), self.m - self.n
        )
