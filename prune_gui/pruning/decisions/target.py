"""What a decision is computed from, its result, and the arithmetic that decisions share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

from prune_gui.errors import RecipeError
from prune_gui.language import tr, trn
from prune_gui.pruning.amount import AmountOf, units_wanted
from prune_gui.pruning.layouts import USUAL, WeightLayout

if TYPE_CHECKING:
    from prune_gui.pruning.methods.fields import ChannelDim, RankingScope
    from prune_gui.pruning.predicates import Predicate
    from prune_gui.pruning.selection.histogram_cache import HistogramCache
    from prune_gui.pruning.selection.keys import RemainingMask
    from prune_gui.pruning.selection.scores import Scores

Content = Literal["scores", "weights", "mask"]
"""The role of a tensor in another file; "scores" may be one number per input column."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parameter that a step targets, with the state that earlier steps left."""

    name: str
    shape: tuple[int, ...]
    remaining: int
    weights: Scores
    other: Callable[[str, Content], Scores]  # reads the tensor of this name from another file
    remaining_mask: RemainingMask | None
    histogram_cache: HistogramCache | None = None
    layout: WeightLayout = USUAL

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GroupScores:
    """The scores that a file has for a group: of its `units`, or else of `weights` by name."""

    path: str
    units: Scores | None
    weights: Mapping[str, Scores]


@dataclass(frozen=True, slots=True)
class Decision:
    """The effect of a step on one parameter."""

    predicate: Predicate | None
    pruned: int  # the number of remaining elements that the step prunes
    note: str = ""  # that a limit of the method ended the pruning


class AmountMethod(Protocol):
    """A method that prunes an amount of the units with the lowest scores."""

    amount: int | float
    amount_of: AmountOf
    max_sparsity: float

    @property
    def ranking_scope(self) -> RankingScope:
        """See `Method.ranking_scope`."""


def count_units(
    method: AmountMethod, remaining: int, total: int, of: str | Callable[[], str]
) -> int:
    """Return the number of units to prune; `of` is their name for messages, or returns it."""
    units = units_wanted(method.amount, method.amount_of, remaining=remaining, total=total)
    if units > remaining:
        raise RecipeError(
            trn(
                "{of}: Cannot prune {wanted:,} units: only {count:,} remains. Lower the amount, or "
                "give a share such as 0.5.",
                "{of}: Cannot prune {wanted:,} units: only {count:,} remain. Lower the amount, or "
                "give a share such as 0.5.",
                remaining,
                of=of if isinstance(of, str) else of(),
                wanted=units,
            )
        )
    return units


def all_targets() -> str:
    """Return the name of the targets of a global step for messages."""
    return tr("All targets")


def max_prunable(max_sparsity: float, remaining: int, total: int) -> int:
    """Return how many of `remaining` units may be pruned under `max_sparsity` of `total`."""
    allowed = math.floor(Fraction(str(max_sparsity)) * total)
    return min(remaining, max(0, allowed - (total - remaining)))


def cap_note(max_sparsity: float, missing: int) -> str:
    """Return the note on a target that reached `max_sparsity`."""
    percent = 100 * max_sparsity
    if not missing:
        return tr("limited to {percent:.6g} % by max sparsity", percent=percent)
    return tr(
        "limited to {percent:.6g} % by max sparsity; the step prunes {missing:,} fewer than "
        "requested",
        percent=percent,
        missing=missing,
    )


def dimension(target: Target, dim: ChannelDim, *, min_dims: int, flat: str) -> int:
    """Return `dim` as a non-negative index; `flat` is the message for fewer than `min_dims`."""
    dims = len(target.shape)
    if dims < min_dims:
        raise RecipeError(flat, name=target.name, shape=list(target.shape))
    if isinstance(dim, str):
        dim = target.layout.output_dim if dim == "output" else target.layout.input_dim
    if not -dims <= dim < dims:
        raise RecipeError(
            trn(
                "{name} has {count} dimension; dim {dim} does not exist. Use {first} to {last}, or "
                "leave it out of the targets.",
                "{name} has {count} dimensions; dim {dim} does not exist. Use {first} to {last}, "
                "or leave it out of the targets.",
                dims,
                name=target.name,
                dim=dim,
                first=-dims,
                last=dims - 1,
            )
        )
    return dim % dims
