"""Texts of methods and their fields, and the types of fields that several methods have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictFloat,
    StrictInt,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from prune_gui.language import deferred, tr, trn
from prune_gui.number_formats import percent
from prune_gui.pruning.amount import AmountOf

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FieldText:
    """The texts of a field, as metadata of its type: ``Annotated[int, FieldText(...)]``.

    Texts are messages for `tr`; `choices` and `values` have one by value as text.

    Attributes:
        placeholder: what an empty field of a file means.
        choices: the texts of choices in the form. Other values are shown as they are.
        folded: whether the form shows the field below *More*.
        position: the position among the fields that the title of a step always contains; None if
            the title contains the field only where it differs from its default.
        values: the texts of values in the title of a step.
        show: the text of other values but None there: a message with the field ``{value}``, or a
            function of the method and the value; None for the name of the field and the value.
    """

    label: str = ""
    placeholder: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    folded: bool = False
    position: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    show: str | Callable[[Any, Any], str] | None = None

    def in_title(self, method: object, name: str, value: object) -> str:
        """Return the text of the value of a field in the title of a step; "" to leave it out."""
        if message := self.values.get(str(value)):
            return tr(message)
        if self.show is None:
            return f"{name} {value}"
        if value is None:
            return ""
        if isinstance(self.show, str):
            return tr(self.show, value=value)
        return self.show(method, value)


def text_of(field_info: FieldInfo) -> FieldText:
    """Return the texts of a field; those of the outermost annotation if there are several."""
    texts = [item for item in field_info.metadata if isinstance(item, FieldText)]
    return texts[-1] if texts else FieldText()


Unit = Literal["entry", "channel", "block", "unit"]
"""What a method prunes as a whole."""

UNITS: Final[dict[Unit, str]] = {
    "entry": deferred("weights"),
    "channel": deferred("channels"),
    "block": deferred("blocks"),
    "unit": deferred("units"),
}
"""Names of the units; messages for `tr`."""


def count_in_words(unit: Unit, count: int) -> str:
    """Return a number of units: "1,200 weights"."""
    match unit:
        case "channel":
            return trn("{count:,} channel", "{count:,} channels", count)
        case "block":
            return trn("{count:,} block", "{count:,} blocks", count)
        case "unit":
            return trn("{count:,} unit", "{count:,} units", count)
        case "entry":
            return trn("{count:,} weight", "{count:,} weights", count)


MethodGroup = Literal[
    "elements", "channels", "coupled", "patterns", "manual", "correction", "plugins"
]
"""What a method prunes, who selects it, or where the method comes from."""

GROUPS: Final[dict[MethodGroup, str]] = {
    "elements": deferred("Elements"),
    "channels": deferred("Whole channels"),
    "coupled": deferred("Units across layers"),
    "patterns": deferred("Patterns"),
    "manual": deferred("By hand"),
    "correction": deferred("Correction"),
    "plugins": deferred("Plug-ins"),
}
"""Titles of the groups in their order in the window; messages for `tr`."""

RankingScope = Literal["local", "global", "row", "group"]
"""The units that are ranked together: those of a target, of all targets, of a row, of a group."""
ChannelDim = int | Literal["output", "input"]
"""A dimension, or the one of the output or input channels; which it is depends on the layer."""


PERCENT: Final = re.compile(r"(\d{1,30}(?:\.\d{1,30})?) ?%")


def _share_in_percent(given: object) -> object:
    """Return the share that a text such as "50%" means; any other value as it is."""
    match = PERCENT.fullmatch(given) if isinstance(given, str) else None
    return float(Fraction(match[1]) / 100) if match else given


def _validate_amount(amount: int | float) -> int | float:
    if isinstance(amount, float) and not 0.0 <= amount <= 1.0:
        raise ValueError(
            tr("a share must lie between 0.0 and 1.0; write a whole number for a count")
        )
    if amount < 0:
        raise ValueError(tr("a number of units cannot be negative"))
    return amount


def amount_text(method: Any, amount: int | float) -> str:  # noqa: ANN401 - any method
    """Return an amount for the title of a step: "50 %", "3 units"."""
    return percent(amount) if isinstance(amount, float) else count_in_words(method.unit, amount)


def torch_dim(dim: ChannelDim) -> int:
    """Return a dimension as a number for the layers of torch, whose weights are (out, in, ...)."""
    return ("output", "input").index(dim) if isinstance(dim, str) else dim


Amount = Annotated[
    StrictInt | StrictFloat,
    BeforeValidator(_share_in_percent),
    AfterValidator(_validate_amount),
    Field(description=deferred("A share between 0.0 and 1.0, or a whole number of units.")),
    FieldText(label=deferred("Amo&unt"), position=2, show=amount_text),
]
SCOPE_TEXT: Final = FieldText(
    label=deferred("S&cope"),
    position=0,
    choices={
        "local": deferred("local: each parameter by itself"),
        "global": deferred("global: all targets together"),
        "row": deferred("row: each output row by itself"),
    },
    values={"local": deferred("local"), "global": deferred("global"), "row": deferred("row")},
)
Scope = Annotated[
    Literal["local", "global"],
    Field(description=deferred("local: each parameter by itself; global: all targets together.")),
    SCOPE_TEXT,
]
RowScope = Annotated[
    Literal["local", "global", "row"],
    Field(
        description=deferred(
            "local: each parameter by itself; global: all targets together; row: each output "
            "channel by itself, wherever the layer has them (dimension 0 of torch's Linear and "
            "Conv)."
        )
    ),
    SCOPE_TEXT,
]
MaxSparsity = Annotated[
    float,
    BeforeValidator(_share_in_percent),
    Field(
        ge=0.0,
        le=1.0,
        description=deferred(
            "Maximum share of units pruned in any target, including earlier steps; in a global "
            "step, the other targets are pruned more to compensate."
        ),
        json_schema_extra={"format": "share"},
    ),
    FieldText(
        label=deferred("Max sparsity"),
        folded=True,
        show=lambda _, share: tr("≤ {share}", share=percent(share)),
    ),
]
Of = Annotated[
    AmountOf,
    Field(
        description=deferred(
            "A share of what remains (as torch does), of the total, or a total to reach."
        )
    ),
    FieldText(
        label=deferred("Share &of"),
        folded=True,
        choices={
            "remaining": deferred("remaining units"),
            "total": deferred("all units"),
            "reach": deferred("all units, as a total to reach"),
        },
        values={"total": deferred("of all"), "reach": deferred("in total")},
    ),
]
Dim = Annotated[
    StrictInt | Literal["output", "input"],
    Field(
        description=deferred(
            "The dimension whose channels are pruned: output or input channels, wherever the layer "
            "has them, or a number; 0 is the output channels of torch's Linear and Conv, 1 those "
            "of (in, out) weights, as of GPT-2."
        ),
        examples=["output", "input", "0", "1"],
    ),
    FieldText(
        label=deferred("D&imension"),
        position=1,
        values={"output": deferred("output channels"), "input": deferred("input channels")},
        show=deferred("dim {value}"),
    ),
]
Seed = Annotated[
    StrictInt,
    Field(description=deferred("The same seed prunes the same weights, on any machine.")),
    FieldText(label=deferred("Seed"), folded=True, show=deferred("seed {value}")),
]
Norm = Annotated[
    StrictInt | StrictFloat | Literal["fro", "nuc"],
    BeforeValidator(lambda n: float(n) if n in ("inf", "-inf") else n),
    PlainSerializer(lambda n: str(n) if n in (math.inf, -math.inf) else n),
    Field(
        description=deferred("The norm's order p: a number, inf, -inf, fro or nuc."),
        examples=["1", "2", "inf", "fro", "nuc"],
    ),
    FieldText(label=deferred("Norm"), folded=True, show=deferred("n {value}")),
]
Tail = Annotated[
    Literal["refuse", "keep"],
    Field(
        description=deferred(
            "For a target that does not divide evenly: refuse it, or keep the remainder unpruned."
        )
    ),
    FieldText(
        label=deferred("Tail"),
        choices={
            "refuse": deferred("refuse: a remainder is an error"),
            "keep": deferred("keep: the remainder is not pruned"),
        },
        values={"keep": deferred("tail keep")},
    ),
]
ElementScore = Annotated[
    Literal["magnitude", "balanced", "ria"],
    Field(
        description=deferred(
            "What ranks a weight: magnitude, its absolute value; balanced, the same, divided by "
            "the square roots of the root mean squares of its row and of its column; ria, its "
            "share of its row plus its share of its column."
        )
    ),
    FieldText(
        label=deferred("Rank by"),
        folded=True,
        choices={
            "magnitude": deferred("magnitude: the absolute value"),
            "balanced": deferred("balanced: relative to row and column"),
            "ria": deferred("ria: shares of row and column"),
        },
        values={"balanced": deferred("balanced"), "ria": deferred("RIA")},
    ),
]


class FilePath(str):
    """The path of a file, absolute within a recipe; `written` does not affect equality."""

    __slots__ = ("written",)

    written: str

    @classmethod
    def of(cls, written: str, folder: Path) -> FilePath:
        """Return the path of a file that a recipe in `folder` names."""
        path = cls((folder / written).absolute())
        path.written = written
        return path

    @property
    def in_full(self) -> FilePath:
        """The same path, written as absolute path."""
        return FilePath.of(str(self), Path())

    def seen_from(self, folder: Path) -> FilePath:
        """Return the same path for a recipe in `folder`, written as absolute path if necessary."""
        return self if FilePath.of(self.written, folder) == self else self.in_full


def _written(path: str) -> str:
    return path.written if isinstance(path, FilePath) else path


def _validate_path(
    given: Any,  # noqa: ANN401 - not validated yet
    handler: ValidatorFunctionWrapHandler,
    info: ValidationInfo,
) -> FilePath:
    """Validate a path, relative to the validation context: the folder of the recipe, if any."""
    text: str = handler(given)
    if isinstance(given, FilePath):
        return given
    if info.context is None:
        path = FilePath(text)
        path.written = text
        return path
    try:
        return FilePath.of(text, info.context)
    except OSError as error:
        raise ValueError(tr("the current folder does not exist; write the path in full")) from error


FileName = Annotated[
    str, WrapValidator(_validate_path), PlainSerializer(_written, return_type=str, when_used="json")
]
"""The type of a field that names a file: a `FilePath`; JSON has its `written` form."""


def path_field(description: str, kind: str = "path") -> Any:  # noqa: ANN401 - as of pydantic
    """Return the metadata of a field that names a file; the form has a button to choose it."""
    return Field(description=description, json_schema_extra={"format": kind})


OPTIMIZER: Final = "optimizer"
"""In place of a file of scores: those of the optimizer in the checkpoint."""


def _validate_scores(
    given: Any,  # noqa: ANN401 - not validated yet
    handler: ValidatorFunctionWrapHandler,
    info: ValidationInfo,
) -> str:
    return OPTIMIZER if given == OPTIMIZER else _validate_path(given, handler, info)


ScoresName = Annotated[
    str,
    WrapValidator(_validate_scores),
    PlainSerializer(_written, return_type=str, when_used="json"),
]
"""The type of a field that names a file of scores: a `FilePath`, or `OPTIMIZER`."""


def file_name(path: str) -> str:
    """Return the last part of a path of any operating system."""
    return path.replace("\\", "/").rpartition("/")[2]
