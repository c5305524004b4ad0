"""The base classes of the methods of recipes.

A method is a frozen pydantic model: its fields are its options, and `decide` computes a predicate
per targeted parameter. Recipe validation, the form of the window and ``prune-gui methods`` are
derived from the fields, so a new method is one class, listed in `prune_gui.pruning.methods`.

torch is imported only when a method decides, since the form must not wait for it.
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    model_validator,
)

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.pruning.amount import AmountOf, units_wanted
from prune_gui.pruning.methods.files import FileName, FilePath

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import Predicate
    from prune_gui.pruning.selection.histogram_cache import HistogramCache
    from prune_gui.pruning.selection.keys import RemainingMask
    from prune_gui.pruning.selection.scores import Scores


def _validate_amount(amount: int | float) -> int | float:
    if isinstance(amount, float) and not 0.0 <= amount <= 1.0:
        raise ValueError(
            tr("a share must lie between 0.0 and 1.0; write a whole number for a count")
        )
    if amount < 0:
        raise ValueError(tr("a number of units cannot be negative"))
    return amount


Amount = Annotated[
    StrictInt | StrictFloat,
    AfterValidator(_validate_amount),
    Field(description=deferred("A share between 0.0 and 1.0, or a whole number of units.")),
]
Scope = Annotated[
    Literal["local", "global"],
    Field(description=deferred("local: each parameter by itself; global: all targets as one.")),
]
MaxSparsity = Annotated[
    float,
    Field(
        ge=0.0,
        le=1.0,
        description=deferred(
            "No target loses more than this share of its units, those of earlier steps included; "
            "in a global step the others lose more for it."
        ),
    ),
]
Of = Annotated[
    AmountOf,
    Field(
        description=deferred(
            "A share of what remains (as torch does), of the total, or a total to reach."
        )
    ),
]
Dim = Annotated[
    StrictInt,
    Field(
        description=deferred("The dimension whose channels are pruned; 0 is the output channels.")
    ),
]
Seed = Annotated[
    StrictInt,
    Field(description=deferred("The same seed prunes the same entries, on any machine.")),
]
Content = Literal["scores", "weights", "mask"]
"""The role of a tensor in another file; "scores" may be one number per input column."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parameter that a step targets, with the state that earlier steps left.

    Attributes:
        name: name in the checkpoint.
        shape: shape of the parameter.
        remaining: number of elements that no earlier step pruned.
        weights: the elements.
        other: reads the tensor of this name from another file; it has the same shape, except for
            scores, see `Content`.
        remaining_mask: returns which elements of a span remain; None if all remain.
        histogram_cache: cache of histograms of its elements.
    """

    name: str
    shape: tuple[int, ...]
    remaining: int
    weights: Scores
    other: Callable[[str, Content], Scores]
    remaining_mask: RemainingMask | None
    histogram_cache: HistogramCache | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Decision:
    """The effect of a step on one parameter.

    Attributes:
        predicate: selects the elements to prune; None if the step prunes nothing.
        pruned: number of remaining elements that the step prunes.
        note: a remark for the user in addition to `Predicate.note`, or "".
    """

    predicate: Predicate | None
    pruned: int
    note: str = ""


class Method(BaseModel):
    """A pruning method of recipes. Subclasses add fields and implement `decide`."""

    # Infinity as null in JSON would be omitted from a recipe, and read as the default.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    name: ClassVar[str]
    """Name in recipes and on the command line; torch's name if torch has the method."""
    title: ClassVar[str]
    """Name in the window; a message for `tr`."""
    unit: ClassVar[Literal["entry", "channel", "block"]]
    """Unit of the amount."""
    source: ClassVar[str] = deferred("built-in")
    """File or package of a plug-in; "built-in" for others."""

    def __eq__(self, other: object) -> bool:
        """Compare strictly: 1 (one unit) differs from 1.0 (all units), unlike in pydantic."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def files(self) -> dict[str, FilePath]:
        """The files that the fields name, by field name."""
        return {name: value for name, value in self if isinstance(value, FilePath)}

    @abstractmethod
    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Decide what to prune of each target; a pure function of the targets.

        Raises:
            RecipeError: the method is not applicable to a target, which the message names.
            Cancelled: the work should stop.
        """


class ScoredMethod(Method):
    """A method that ranks elements by the weights, or by scores from a file."""

    importance: Annotated[
        FileName | None,
        Field(
            description=deferred(
                "A file of scores by parameter name, ranked by absolute value in place of the "
                "weights; one number per input column multiplies the weights instead (Wanda)."
            ),
            json_schema_extra={"format": "path"},
        ),
    ] = None
    moved_from: Annotated[
        FileName | None,
        Field(
            description=deferred(
                "A checkpoint of the weights as they were; entries are ranked by how far they "
                "moved since."
            ),
            json_schema_extra={"format": "path"},
        ),
    ] = None

    @model_validator(mode="after")
    def _check_score_source(self) -> Self:
        if self.importance is not None and self.moved_from is not None:
            raise ValueError(
                tr("importance and moved_from exclude each other; leave one of them out")
            )
        return self

    @property
    def ranks_weights(self) -> bool:
        """Whether the weights themselves are the scores."""
        return self.importance is None and self.moved_from is None

    def scores(self, target: Target) -> Scores:
        """Return the scores of a target, whose absolute values rank its elements.

        Raises:
            RecipeError: a file cannot be opened, or has no tensor for the target.
        """
        from prune_gui.pruning.selection.scores import ScaledColumns, WeightDelta

        if self.moved_from is not None:
            return WeightDelta(target.weights, target.other(self.moved_from, "weights"))
        if self.importance is None:
            return target.weights
        given = target.other(self.importance, "scores")
        return given if given.shape == target.shape else ScaledColumns(target.weights, given)


def count_units(
    amount: int | float,
    amount_of: AmountOf,
    *,
    remaining: int,
    total: int,
    of: Callable[[], str],
) -> int:
    """Return the number of units to prune.

    Args:
        amount: a share in [0, 1], or a number of units.
        amount_of: as for `units_to_prune`.
        remaining: number of units not yet pruned.
        total: number of all units.
        of: returns the subject of the error message.

    Raises:
        RecipeError: fewer units remain.
    """
    units = units_wanted(amount, amount_of, remaining=remaining, total=total)
    if units > remaining:
        raise RecipeError(
            tr(
                "{of}: Cannot prune {wanted:,} units: only {remaining:,} remain.",
                of=of(),
                wanted=units,
                remaining=remaining,
            )
        )
    return units


def all_targets() -> str:
    """Return the name of the targets of a global step for messages."""
    return tr("All targets")


def max_prunable(max_sparsity: float, *, remaining: int, total: int) -> int:
    """Return how many of `remaining` units may be pruned under `max_sparsity` of `total`."""
    allowed = math.floor(Fraction(str(max_sparsity)) * total)
    return min(remaining, max(0, allowed - (total - remaining)))


def cap_note(max_sparsity: float, missing: int) -> str:
    """Return the note on a target that reached `max_sparsity`.

    Args:
        max_sparsity: the limit, in [0, 1].
        missing: units by which the whole step falls short of its amount.
    """
    percent = 100 * max_sparsity
    if not missing:
        return tr("held at {percent:.6g} % by max_sparsity", percent=percent)
    return tr(
        "held at {percent:.6g} % by max_sparsity; the step prunes {missing:,} fewer than asked",
        percent=percent,
        missing=missing,
    )


def summary_of(method: type[Method]) -> str:
    """Return the first paragraph of the docstring of a method; a message for `tr`."""
    return (inspect.getdoc(method) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
