"""What every method of a recipe has in common.

A method is one frozen model: its typed parameters are its fields, and `decide` turns them into a
predicate per parameter. The recipe's validation, the window's form and ``prune-gui methods`` are
made from the fields, so a new method is one class, named in `prune_gui.pruning.methods`.

Nothing here imports torch until a method decides: the form must not wait for it.
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
from prune_gui.language import later, tr
from prune_gui.pruning.amount import AmountOf, units_wanted
from prune_gui.pruning.methods.files import FileName, FilePath

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.predicates import Predicate
    from prune_gui.pruning.selection.histogram_cache import HistogramCache
    from prune_gui.pruning.selection.keys import RemainingMask
    from prune_gui.pruning.selection.scores import Scores


def _within_range(amount: int | float) -> int | float:
    if isinstance(amount, float) and not 0.0 <= amount <= 1.0:
        raise ValueError(
            tr("a share must lie between 0.0 and 1.0; write a whole number for a count")
        )
    if amount < 0:
        raise ValueError(tr("a number of units cannot be negative"))
    return amount


Amount = Annotated[
    StrictInt | StrictFloat,
    AfterValidator(_within_range),
    Field(description=later("A share between 0.0 and 1.0, or a whole number of units.")),
]
Scope = Annotated[
    Literal["local", "global"],
    Field(description=later("local: each parameter by itself; global: all targets as one.")),
]
MaxSparsity = Annotated[
    float,
    Field(
        ge=0.0,
        le=1.0,
        description=later(
            "No target loses more than this share of its units, those of earlier steps included; "
            "in a global step the others lose more for it."
        ),
    ),
]
Of = Annotated[
    AmountOf,
    Field(
        description=later(
            "A share of what remains (as torch does), of the total, or a total to reach."
        )
    ),
]
Dim = Annotated[
    StrictInt,
    Field(description=later("The dimension whose channels are pruned; 0 is the output channels.")),
]
Seed = Annotated[
    StrictInt,
    Field(description=later("The same seed prunes the same entries, on any machine.")),
]
Content = Literal["scores", "weights", "mask"]
"""What a tensor in another file is to a method: "scores" may be one number per input column."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parameter as a step finds it.

    Attributes:
        name: as the checkpoint names it.
        shape: of the parameter.
        remaining: entries that no earlier step pruned.
        weights: the entries.
        other: gives the tensor of this parameter's name in another file; of the same shape, but
            see `Content`.
        remaining_mask: where entries are still there; None if all are.
        remembered: knows counts of its entries from earlier.
    """

    name: str
    shape: tuple[int, ...]
    remaining: int
    weights: Scores
    other: Callable[[str, Content], Scores]
    remaining_mask: RemainingMask | None
    remembered: HistogramCache | None = None

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step does to one parameter.

    Attributes:
        predicate: the entries it prunes; None where it prunes nothing.
        pruned: how many entries that were still there it prunes.
        note: what a person should know about it beside `Predicate.note`, or "".
    """

    predicate: Predicate | None
    pruned: int
    note: str = ""


class Method(BaseModel):
    """One way of choosing what to prune. Subclasses add typed parameters and `decide`."""

    # JSON has no NaN and infinity: a recipe would be written without them, and so with defaults.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    name: ClassVar[str]
    """In recipes and on the command line; torch's name where torch has the method."""
    title: ClassVar[str]
    """In the window; a message for `tr`."""
    unit: ClassVar[Literal["entry", "channel", "block"]]
    """What an amount counts."""
    source: ClassVar[str] = later("built-in")
    """Where it comes from, if it is a plug-in's."""

    def __eq__(self, other: object) -> bool:
        """Tell 1, one unit, from 1.0, all of them; pydantic and Python do not."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def files(self) -> dict[str, FilePath]:
        """The files that it names, by field."""
        return {name: value for name, value in self if isinstance(value, FilePath)}

    @abstractmethod
    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Decide what to prune of each target: a pure function of the targets.

        Raises:
            RecipeError: the method cannot do this to a target; the message names it.
            Cancelled: the monitor said so.
        """


class ScoredMethod(Method):
    """A method that ranks entries by their weights, or by scores that were made elsewhere."""

    importance: Annotated[
        FileName | None,
        Field(
            description=later(
                "A file of scores by parameter name, ranked by absolute value in place of the "
                "weights; one number per input column multiplies the weights instead (Wanda)."
            ),
            json_schema_extra={"format": "path"},
        ),
    ] = None
    moved_from: Annotated[
        FileName | None,
        Field(
            description=later(
                "A checkpoint of the weights as they were; entries are ranked by how far they "
                "moved since."
            ),
            json_schema_extra={"format": "path"},
        ),
    ] = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.importance is not None and self.moved_from is not None:
            raise ValueError(
                tr("importance and moved_from exclude each other; leave one of them out")
            )
        return self

    @property
    def ranks_weights(self) -> bool:
        """Whether nothing but the weights themselves decides."""
        return self.importance is None and self.moved_from is None

    def scores(self, target: Target) -> Scores:
        """Return what the entries of a target are ranked by, in absolute value.

        Raises:
            RecipeError: a file cannot be opened, or has no tensor that fits the target.
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
    """Return how many units to prune.

    Args:
        amount: a share in [0, 1], or a number of units.
        amount_of: as for `units_to_prune`.
        remaining: units not yet pruned.
        total: all units.
        of: says whose units they are, if there are too few.

    Raises:
        RecipeError: more than remain.
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
    """Return what the targets of a global step are called in a message."""
    return tr("All targets")


def at_most(max_sparsity: float, *, remaining: int, total: int) -> int:
    """Return how many of `remaining` units may go until that share of `total` is pruned."""
    allowed = math.floor(Fraction(str(max_sparsity)) * total)
    return min(remaining, max(0, allowed - (total - remaining)))


def cap_note(max_sparsity: float, missing: int) -> str:
    """Say of a target that it was held, and by how much the whole step falls short."""
    percent = 100 * max_sparsity
    if not missing:
        return tr("held at {percent:.6g} % by max_sparsity", percent=percent)
    return tr(
        "held at {percent:.6g} % by max_sparsity; the step prunes {missing:,} fewer than asked",
        percent=percent,
        missing=missing,
    )


def summary_of(method: type[Method]) -> str:
    """Return what a method does, as the first paragraph of its docstring; a message for `tr`."""
    return (inspect.getdoc(method) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
