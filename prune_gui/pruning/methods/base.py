"""The base classes of the methods of recipes.

A method is a frozen pydantic model: its fields are its options. Recipe validation, the form of the
window and ``prune-gui methods`` are derived from it; its `decide` computes what it prunes. Methods
are imported without torch and numpy, because the form must not wait for them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from prune_gui.language import deferred, join_clauses, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods.fields import (
    Amount,
    ElementScore,
    FieldText,
    FileName,
    FilePath,
    MethodGroup,
    RankingScope,
    ScoresName,
    Unit,
    file_name,
    path_field,
    text_of,
)

if TYPE_CHECKING:
    from prune_gui.pruning.decisions import Decision, Target


ScoreKind = Literal["weights", "scores", "lamp", "lamp_of_scores", "random"]
"""Absolute weights; other scores; LAMP scores of absolute weights, or of other scores; random
numbers in [0, 1)."""
LAMP_KINDS: Final[tuple[ScoreKind, ...]] = ("lamp", "lamp_of_scores")
"""Kinds of LAMP scores, whose cut of all targets is another weight or score in each target."""


Setting = tuple[str, float]
"""The name of a field of a method, and its value."""


class UnitCounts(NamedTuple):
    """Numbers of units: remaining ones up to a cut, all remaining ones, and all."""

    below: int
    remaining: int
    total: int


class DraggedCut(Protocol):
    """The cut of a draft through the weights or scores of one parameter, before the change."""

    def up_to_weight(self, weight: float) -> UnitCounts | None:
        """Count the elements up to an absolute weight, in all that the cut ranks together.

        None if the draft does not rank weights.
        """

    def up_to_score(self, score: float) -> UnitCounts:
        """Count the elements up to a score as `up_to_weight`, exact to a group of the histogram."""

    def own_up_to_weight(self, weight: float) -> UnitCounts | None:
        """Count as `up_to_weight` does, but in the parameter of the dragged cut alone."""

    def of_targets(self) -> UnitCounts | None:
        """Count the elements of all targets; 0 below. None if earlier steps changed."""

    def own_pruned_with(self, **fields: object) -> int | None:
        """Return how many elements the draft prunes with other field values; None if it cannot."""

    def score_of(self, weight: float) -> float | None:
        """Return the score of an absolute weight; None if the draft ranks no elements."""

    def standard_deviation(self) -> float:
        """Return the standard deviation of the scores of the parameter; NaN if it has none."""


class Method(BaseModel):
    """A pruning method of recipes. Subclasses add fields."""

    # Infinity as null in JSON would be omitted from a recipe, and read as the default.
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", ser_json_inf_nan="constants"
    )

    name: ClassVar[str]
    """Name in recipes and on the command line; torch's name if torch has the method."""
    title: ClassVar[str]
    """Name in the window; a message for `tr`."""
    unit: ClassVar[Unit] = "entry"
    """Unit of the amount."""
    method_group: ClassVar[MethodGroup] = "elements"
    """Group in the list of the window."""
    corrects: ClassVar[bool] = False
    """Whether the method changes kept weights and prunes nothing; see `CorrectionMethod`."""
    is_coupled: ClassVar[bool] = False
    """Whether the method prunes the same slices of several tensors; see `CoupledMethod`."""
    takes_own_amounts: ClassVar[bool] = False
    """Whether targets may have amounts of their own; see `AllocatedMethod`."""
    takes_every_kind: ClassVar[bool] = False
    """Whether patterns also stand for tensors that are no weights; see `TensorInfo.kind`."""
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

    @property
    def score_kind(self) -> ScoreKind | None:
        """The kind of the scores that rank the units; None if the method ranks none."""
        return None

    @property
    def ranks_weights(self) -> bool:
        """Whether the absolute weights are the scores, or LAMP scores of them are."""
        return False

    @property
    def ranking_scope(self) -> RankingScope:
        """Which units share one cut: the field `scope`, if there is one."""
        scope: RankingScope = dict(self).get("scope", "local")
        return scope

    @property
    def depends_on_layout(self) -> bool:
        """Whether the method speaks of rows and columns, or of output and input channels."""
        return self.ranking_scope == "row" or isinstance(dict(self).get("dim"), str)

    @property
    def own_amounts(self) -> Mapping[str, Amount]:
        return {}

    @property
    def listed_channels(self) -> tuple[int, ...] | None:
        """The channels that the user listed; None if the method selects units itself."""
        return None

    @property
    def listed_units(self) -> tuple[int, ...]:
        """The units of coupled groups that the user listed, from 0; () if there is no list."""
        return ()

    @property
    def coupled_space(self) -> str | None:
        """The space of the groups of a coupled method; None for all spaces of single layers."""
        return None

    @classmethod
    def unused_fields(cls, values: Mapping[str, object]) -> Collection[str]:
        """Return the names of the fields that have no effect with the values of all fields."""
        return ()

    def with_one_amount(self, amount: Amount) -> Self:
        return self

    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Decide what to prune of each target; a pure function of the targets.

        `RecipeError` names a target to which the method is not applicable.
        """
        raise NotImplementedError

    def options_text(self, without: Collection[str] = ()) -> str:
        """Return the main and the non-default field values: "global, 50 %"."""
        shown = []
        for name, field in type(self).model_fields.items():
            text, value = text_of(field), getattr(self, name)
            if name not in without and (text.position is not None or value != field.default):
                order = math.inf if text.position is None else text.position
                shown.append((order, text.in_title(self, name, value)))
        return join_clauses(text for _, text in sorted(shown, key=itemgetter(0)))

    def torch_lines(self, names: str) -> list[str]:
        """Return lines of Python that prune with `torch.nn.utils.prune`; [] if it cannot.

        They can use all that `resources/scripts/prelude.py` defines. `names` is an expression for
        the names of the targets.
        """
        return []

    def setting_for_weight(self, cut: DraggedCut, weight: float) -> Setting | None:
        """Return the setting that prunes the elements with at most an absolute weight.

        None if the method does not rank weights.
        """
        counts = cut.up_to_weight(weight)
        return ("amount", self.amount_for(counts)) if counts else None

    def setting_for_score(self, cut: DraggedCut, score: float) -> Setting | None:
        """Return the setting that prunes the elements with at most a score."""
        return "amount", self.amount_for(cut.up_to_score(score))

    def amount_for(self, counts: UnitCounts) -> int | float:
        """Return the amount that prunes the units below a cut: a number or a share, as now."""
        amount_of = getattr(self, "amount_of", "remaining")
        below, remaining, total = counts
        units = total - remaining + below if amount_of == "reach" else below
        if isinstance(getattr(self, "amount", None), int):
            return units
        whole = remaining if amount_of == "remaining" else total
        return units / whole if whole else 0.0


class ScoredMethod(Method):
    """A method that ranks elements by the weights, by scores of them, or by scores from a file."""

    score: ElementScore = "magnitude"
    importance: Annotated[
        ScoresName | None,
        path_field(
            deferred(
                "A file of scores by parameter name, ranked by absolute value in place of the "
                "weights; one number per input column is multiplied with the weights instead "
                "(Wanda). The word optimizer: exp_avg_sq of Adam in this training checkpoint, "
                "times the squared weight (OBD)."
            )
        ),
        FieldText(label=deferred("Scores"), folded=True, show=lambda _, path: file_name(path)),
    ] = None
    moved_from: Annotated[
        FileName | None,
        path_field(
            deferred(
                "An earlier checkpoint; weights are ranked by how much they changed since then."
            )
        ),
        FieldText(
            label=deferred("Moved from"),
            folded=True,
            show=lambda _, path: tr("moved from {file}", file=file_name(path)),
        ),
    ] = None

    @model_validator(mode="after")
    def _check_score_source(self) -> Self:
        if self.importance is not None and self.moved_from is not None:
            raise ValueError(tr("importance and moved_from cannot be combined; remove one of them"))
        if self.score != "magnitude" and (self.importance or self.moved_from):
            raise ValueError(
                tr(
                    "{score} scores are computed from the weights; set score to magnitude, or "
                    "remove importance and moved_from",
                    score=self.score,
                )
            )
        return self

    @property
    def ranks_weights(self) -> bool:
        return self.importance is None and self.moved_from is None and self.score == "magnitude"

    @property
    def score_kind(self) -> ScoreKind | None:
        return "weights" if self.ranks_weights else "scores"

    @property
    def depends_on_layout(self) -> bool:
        has_columns = self.score != "magnitude" or self.importance is not None
        return has_columns or super().depends_on_layout


SHARED_RANKINGS: Final = frozenset({"global", "lamp"})
"""The values of `scope` and `over` with which all targets share one amount."""


def _from_pairs(value: object) -> object:
    """Return a list of pairs of a pattern and an amount as a mapping; other values unchanged."""
    if isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
    ):
        return dict(value)
    return value


Amounts = Annotated[
    Annotated[dict[str, Amount], Field(min_length=1), BeforeValidator(_from_pairs)] | None,
    Field(
        description=deferred(
            "Amounts of single targets, by pattern; the patterns are those of targets. Of several "
            "patterns that match a target, the last one counts; a target that none matches has the "
            "amount of the step."
        ),
        json_schema_extra={"format": "amounts"},
    ),
    FieldText(
        label=deferred("Own amounts"),
        placeholder=deferred("pattern = amount, one per line"),
        folded=True,
        show=lambda _, amounts: trn("{count:,} own amount", "{count:,} own amounts", len(amounts)),
    ),
]


class AllocatedMethod(Method):
    """A method that can rank each target by itself, and then prune each by its own amount."""

    takes_own_amounts = True

    amount: Amount = 0.5
    amounts: Amounts = None

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        field = "over" if "over" in type(self).model_fields else "scope"
        value = getattr(self, field)
        if self.amounts and value in SHARED_RANKINGS:
            raise ValueError(
                tr(
                    "amounts cannot be combined with {field}: {value}, which ranks all targets "
                    "together; set {field} to local, or remove amounts",
                    field=field,
                    value=value,
                )
            )
        return self

    @classmethod
    def unused_fields(cls, values: Mapping[str, object]) -> Collection[str]:
        shared = values.get("over", values.get("scope")) in SHARED_RANKINGS
        return ("amounts",) if shared else ()

    @property
    def own_amounts(self) -> Mapping[str, Amount]:
        return self.amounts or {}

    def with_one_amount(self, amount: Amount) -> Self:
        return self.model_copy(update={"amount": amount, "amounts": None})


def summary_of(method: type[Method]) -> str:
    """Return the first paragraph of the docstring of a method; a message for `tr`."""
    return (inspect.getdoc(method) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
