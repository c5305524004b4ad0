"""Selecting parameters: globs over names, and conditions on properties of a parameter."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.language import suggestion, tr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Count = int | NDArray[np.int64]

PropertyValue = frozenset[str] | float  # texts, of which one must match a glob; or a number
ModuleTypes = Mapping[str, frozenset[str]]
"""Types of the modules that contain each parameter, by its name; see `module_types_around`."""
Counts = Mapping[str, tuple[int, int]]  # (pruned elements, all elements) by parameter name
RELATIONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ":": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MULTIPLES: Final = {"%": 0.01, "k": 1e3, "m": 1e6, "b": 1e9}
CONDITION: Final = re.compile(r"(?<!\S)(?P<field>[a-z]+)(?P<relation>[<>]=?|[:=])(?P<value>\S*)")
"""A condition, if `field` is one of `CONDITION_FIELDS`."""
NUMBER: Final = re.compile(r"([\d_.e]+)([%kmb]?)")
SEPARATOR: Final = re.compile(r"[,\[\]]|\s(?=!)")
"""A separator of patterns in a line, or a bracket: between brackets nothing separates."""
LITERAL: Final = re.compile(r"[^*?\[]|\[([^\]!])\]")
"""A literal character in a glob, plain or in brackets."""
MAX_PATTERN_CHARS: Final = 1000
"""Limit on the characters of a pattern that is not a plain name: matching time grows with it."""
MAX_COMPARED: Final = 2_000
"""Limit on the names of parameters among which one like a mistyped pattern is looked for."""
NEAR: Final = 0.8
"""How like a word of a pattern a part of a name must be to be what was meant."""
NOTHING: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TextProperty:
    """A property that is compared with a glob, ignoring case; `words` complete its conditions."""

    name: str
    example: str
    texts: Callable[[TensorInfo, frozenset[str]], frozenset[str]]
    words: Callable[[Checkpoint], Iterable[str]]
    uses_module_types: bool = False


@dataclass(frozen=True, slots=True)
class NumberProperty:
    """A property of the header that is compared with a number."""

    name: str
    example: str
    number: Callable[[TensorInfo], float]


@dataclass(frozen=True, slots=True)
class CountProperty:
    """A property of the numbers (or int64 arrays) of pruned and of all elements (at least 1)."""

    name: str
    example: str
    number: Callable[[Count, Count], Count | float | NDArray[np.float64]]


ConditionField = TextProperty | NumberProperty | CountProperty

_FIELDS: Final[tuple[ConditionField, ...]] = (
    TextProperty(
        "type",
        "type:Linear",
        lambda _, module_types: module_types,
        lambda checkpoint: sorted(frozenset().union(*checkpoint.module_types.values())),
        uses_module_types=True,
    ),
    TextProperty(
        "dtype",
        "dtype:bfloat16",
        lambda tensor, _: frozenset((tensor.dtype,)),
        lambda checkpoint: sorted({tensor.dtype for tensor in checkpoint.tensors.values()}),
    ),
    TextProperty(
        "shape",
        "shape:768x*",
        lambda tensor, _: frozenset(("x".join(map(str, tensor.shape)),)),
        lambda _: ("",),
    ),
    NumberProperty("dims", "dims>1", lambda tensor: len(tensor.shape)),
    NumberProperty("size", "size>=1M", lambda tensor: tensor.numel),
    CountProperty("sparsity", "sparsity>90%", lambda pruned, total: pruned / total),
)
CONDITION_FIELDS: Final[dict[str, ConditionField]] = {field.name: field for field in _FIELDS}
"""The fields of conditions by name."""


def condition_words(checkpoint: Checkpoint) -> list[str]:
    """Return conditions that complete a typed word, and prefixes of conditions on numbers."""
    completed: list[str] = []
    for field in CONDITION_FIELDS.values():
        if isinstance(field, TextProperty):
            completed += (f"{field.name}:{text}" for text in field.words(checkpoint))
        else:
            completed.append(f"{field.name}>")
    return completed


def condition_examples(*, numbers_only: bool = False) -> str:
    """Return one condition of each field, separated by commas."""
    return ", ".join(
        field.example
        for field in CONDITION_FIELDS.values()
        if not (numbers_only and isinstance(field, TextProperty))
    )


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a property of a parameter; `value` is a lower-case glob or a number."""

    field: ConditionField
    relation: str
    value: str | float

    @classmethod
    def parse(cls, name: str, relation: str, value: str) -> Self:
        """Parse the parts of a condition, such as "size", ">" and "1M"."""
        field, text = CONDITION_FIELDS[name], f"{name}{relation}{value}"
        if isinstance(field, TextProperty):
            if relation not in (":", "=") or not value:
                raise RecipeError(
                    "{condition} is not a condition: write {field}:glob.",
                    condition=text,
                    field=name,
                )
            return cls(field, relation, value.lower())
        number = math.inf
        if match := NUMBER.fullmatch(value.lower()):
            with suppress(ValueError):  # such as "_1" or "1e"
                number = float(match[1]) * MULTIPLES.get(match[2], 1)
        if number == math.inf:
            raise RecipeError(
                "{condition} is not a condition: write a number after {field}, as in {examples}.",
                condition=text,
                field=name,
                examples=condition_examples(numbers_only=True),
            )
        return cls(field, relation, number)

    def property_of(
        self, tensor: TensorInfo, module_types: ModuleTypes, counts: Counts = NOTHING
    ) -> PropertyValue:
        """Return the property of a parameter that the condition tests, for `accepts`."""
        match self.field:
            case TextProperty(texts=texts):
                return texts(tensor, module_types.get(tensor.name, frozenset()))
            case NumberProperty(number=number):
                return number(tensor)
            case CountProperty(number=number_of_counts):
                pruned, total = counts.get(tensor.name, (0, 1))
                return float(number_of_counts(pruned, max(total, 1)))

    def accepts(self, value: PropertyValue) -> bool:
        """Return whether the condition holds for a value of `property_of`."""
        if isinstance(value, frozenset):
            return any(fnmatchcase(text.lower(), str(self.value)) for text in value)
        return RELATIONS[self.relation](value, float(self.value))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern of a step's targets."""

    excludes: bool
    glob: str
    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern, such as "!encoder.* type:Linear size>1M"."""
        body = text.removeprefix("!")
        if len(text) > MAX_PATTERN_CHARS and _plain_name(body) is None:
            raise RecipeError(
                "a pattern has {length:,} characters, more than {limit:,}. Write several "
                "shorter ones.",
                length=len(text),
                limit=MAX_PATTERN_CHARS,
            )
        matches = [match for match in CONDITION.finditer(body) if match[1] in CONDITION_FIELDS]
        if not matches:
            return cls(text.startswith("!"), body, ())
        starts = [0, *(match.end() for match in matches)]
        ends = [*(match.start() for match in matches), len(body)]
        between = [body[start:end] for start, end in zip(starts, ends, strict=True)]
        glob = "".join([*(words.rstrip() for words in between[:-1]), between[-1]]).strip()
        conditions = tuple(Condition.parse(*match.groups()) for match in matches)
        return cls(text.startswith("!"), glob, conditions)

    @property
    def exact_name(self) -> str | None:
        """The only name that the pattern matches; None if it may match several."""
        return None if self.excludes or self.conditions else _plain_name(self.glob)

    def holds(self, tensor: TensorInfo, module_types: ModuleTypes, counts: Counts) -> bool:
        """Return whether all conditions hold for a parameter; ignores its name."""
        return all(
            one.accepts(one.property_of(tensor, module_types, counts)) for one in self.conditions
        )


def patterns_in(line: str) -> tuple[str, ...]:
    """Return the patterns in a line, separated by commas, and by white space before "!"."""
    ends, bracket = [len(line)], "["  # the nearest bracket to the right
    for match in reversed(list(SEPARATOR.finditer(line))):
        if match[0] in "[]":
            bracket = match[0]
        elif bracket != "]":
            ends.append(match.start())
    starts = [0, *(end + 1 for end in reversed(ends[1:]))]
    parts = (line[start:end].strip() for start, end in zip(starts, reversed(ends), strict=True))
    return tuple(filter(None, parts))


def select(
    patterns: Sequence[str],
    tensors: Iterable[TensorInfo],
    counts: Counts = NOTHING,
    module_types: Callable[[], ModuleTypes] = dict,
    *,
    every_kind: bool = False,
) -> list[TensorInfo]:
    """Return the tensors that match an including pattern and no excluding one, in the given order.

    A pattern is a shell glob over the whole name or an alias; ``*`` also matches dots. Conditions
    may follow the glob or replace it: ``type:Linear``, ``dtype:bfloat16``, ``shape:768x*``,
    ``dims>1``, ``size>=1M``, ``sparsity>90%``. A pattern that begins with ``!`` excludes. If all
    patterns exclude, every other tensor is selected.

    A pattern that includes without conditions and is not the name of one tensor selects weights
    only: no tensor with a `TensorInfo.kind`.

    Args:
        counts: for conditions on sparsity; a tensor that is missing has sparsity 0.
        module_types: returns the module types; called only if there is a condition on the type.
        every_kind: whether such a pattern selects tensors that are no weights, too.

    Raises:
        RecipeError: a condition is not valid.
    """
    parsed = [Pattern.parse(text) for text in patterns]
    including = [pattern for pattern in parsed if not pattern.excludes] or [Pattern.parse("*")]
    excluding = [pattern for pattern in parsed if pattern.excludes]
    needs_types = any(
        isinstance(condition.field, TextProperty) and condition.field.uses_module_types
        for pattern in parsed
        for condition in pattern.conditions
    )
    types = module_types() if needs_types else {}
    includes = _matcher(including, counts, types, every_kind=every_kind)
    excludes = _matcher(excluding, counts, types, every_kind=True)
    return [tensor for tensor in tensors if includes(tensor) and not excludes(tensor)]


def select_in(
    checkpoint: Checkpoint,
    patterns: Sequence[str],
    counts: Counts = NOTHING,
    *,
    every_kind: bool = False,
) -> list[TensorInfo]:
    """Return the tensors of a checkpoint that patterns match; see `select`."""
    tensors = checkpoint.tensors.values()
    return select(patterns, tensors, counts, lambda: checkpoint.module_types, every_kind=every_kind)


def protected_in(checkpoint: Checkpoint, patterns: Sequence[str]) -> frozenset[str]:
    """Return the names of the tensors of a checkpoint that patterns protect, of any kind."""
    if not patterns:  # they would select everything
        return frozenset()
    return frozenset(info.name for info in select_in(checkpoint, patterns, every_kind=True))


def unmatched_remark(text: str, checkpoint: Checkpoint, counts: Counts = NOTHING) -> str:
    """Return a remark on a pattern that matches no tensor of a checkpoint; "" if there is none.

    Patterns that exclude by a condition, or by a glob that begins with ``*``, are written for many
    models. There is a remark on them only if a word in them is like one of the checkpoint.
    """
    if select_in(checkpoint, [text.removeprefix("!")], counts, every_kind=True):
        return ""
    pattern, meant = Pattern.parse(text), meant_by(text, checkpoint)
    is_general = pattern.excludes and (pattern.conditions or pattern.glob.startswith("*"))
    return "" if is_general and not meant else tr("matches no parameter") + meant


def meant_by(text: str, checkpoint: Checkpoint) -> str:
    """Return a question what a mistyped pattern means, to put after it; "" if nothing is near."""
    pattern, names = Pattern.parse(text), list(islice(checkpoint.tensors, MAX_COMPARED))
    known = [*(part for name in names for part in name.split(".")), *condition_words(checkpoint)]
    words = [*re.findall(r"[^*?.\s]+", pattern.glob)]
    words += (f"{c.field.name}:{c.value}" for c in pattern.conditions if isinstance(c.value, str))
    right = {one.lower() for one in known}
    near = (suggestion(one, known, NEAR) for one in words if one.lower() not in right)
    is_name = not pattern.conditions and _plain_name(pattern.glob) is not None
    whole = suggestion(pattern.glob, names) if is_name else ""
    return whole or next(filter(None, near), "")


def _plain_name(glob: str) -> str | None:
    if "[" not in glob:
        return None if "*" in glob or "?" in glob else glob
    characters, end = [], 0
    for match in LITERAL.finditer(glob):
        if match.start() != end:
            return None
        characters.append(match[1] or match[0])
        end = match.end()
    return "".join(characters) if end == len(glob) else None


def _matcher(
    patterns: Sequence[Pattern], counts: Counts, module_types: ModuleTypes, *, every_kind: bool
) -> Callable[[TensorInfo], bool]:
    """Return a function that returns whether a tensor matches any of the patterns; see `select`."""
    globs = []
    exact_names = set()
    for pattern in patterns:
        if not pattern.conditions:
            name = _plain_name(pattern.glob)
            if name is None:
                globs.append(translate(pattern.glob))
            else:
                exact_names.add(name)
    by_name = re.compile("|".join(globs) or r"(?!)").match
    conditional = [
        (re.compile(translate(pattern.glob or "*")).match, pattern)
        for pattern in patterns
        if pattern.conditions
    ]

    def matches(tensor: TensorInfo) -> bool:
        names = (tensor.name, *tensor.aliases)
        if not exact_names.isdisjoint(names):
            return True
        if (every_kind or tensor.kind is None) and any(map(by_name, names)):
            return True
        return any(
            any(map(matches_glob, names)) and pattern.holds(tensor, module_types, counts)
            for matches_glob, pattern in conditional
        )

    return matches
