"""Which parameters a step is for: globs over names, and conditions on what a parameter is."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from types import MappingProxyType
from typing import Final, Self

from prune_gui.checkpoint import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.language import tr

Kinds = Mapping[str, frozenset[str]]
"""The kinds of the modules around each parameter, by its name; see `kinds_around`."""
Counts = Mapping[str, tuple[int, int]]
"""(pruned entries, all entries) by the name of the parameter."""
Looked = frozenset[str] | float

TEXTS: Final = ("type", "dtype", "shape")
NUMBERS: Final = ("dims", "size", "sparsity")
"""What conditions are on. `type`: a kind of module around the parameter, as inferred."""
RELATIONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ":": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MULTIPLES: Final = {"%": 0.01, "k": 1e3, "m": 1e6, "b": 1e9}
CONDITION: Final = re.compile(
    rf"(?<!\S)(?P<field>{'|'.join((*TEXTS, *NUMBERS))})(?P<relation>[<>]=?|[:=])(?P<value>\S*)"
)
NUMBER: Final = re.compile(r"([\d_.e]+)([%kmb]?)")
SEPARATOR: Final = re.compile(r"[,\[\]]|\s(?=!)")
"""What parts patterns in a line, and the brackets in which it does not."""
LITERAL: Final = re.compile(r"[^*?\[]|\[([^\]!])\]")
"""A letter of a name in a glob, or one in brackets that means itself."""
LONGEST: Final = 1000
"""Characters of a pattern that is no plain name: the time to match grows with it."""
NOTHING: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds of a parameter, or does not.

    Attributes:
        field: one of `TEXTS` or `NUMBERS`.
        relation: one of `RELATIONS`; of texts ":" or "=".
        value: a glob without upper case, or a number.
    """

    field: str
    relation: str
    value: str | float

    @classmethod
    def parse(cls, field: str, relation: str, value: str) -> Self:
        """Read the parts of a condition, such as "size", ">" and "1M".

        Raises:
            RecipeError: it makes no sense.
        """
        if field in TEXTS:
            if relation not in (":", "=") or not value:
                raise RecipeError(
                    tr(
                        "{condition} is no condition: write {field}:glob.",
                        condition=f"{field}{relation}{value}",
                        field=field,
                    )
                )
            return cls(field, relation, value.lower())
        number = math.inf
        if found := NUMBER.fullmatch(value.lower()):
            with suppress(ValueError):  # such as "_1" or "1e"
                number = float(found[1]) * MULTIPLES.get(found[2], 1)
        if number == math.inf:
            raise RecipeError(
                tr(
                    "{condition} is no condition: after {field} comes a number, as in dims>1, "
                    "size>=1M, sparsity>90%.",
                    condition=f"{field}{relation}{value}",
                    field=field,
                )
            )
        return cls(field, relation, number)

    def looks_at(self, tensor: TensorInfo, kinds: Kinds, counts: Counts) -> Looked:
        """Return what of a parameter it is about, to be told by `accepts`."""
        match self.field:
            case "type":
                return kinds.get(tensor.name, frozenset())
            case "dtype":
                return frozenset((tensor.dtype,))
            case "shape":
                return frozenset(("x".join(map(str, tensor.shape)),))
            case "dims":
                return len(tensor.shape)
            case "size":
                return tensor.numel
        pruned, total = counts.get(tensor.name, (0, 0))
        return pruned / total if total else 0.0

    def accepts(self, looked: Looked) -> bool:
        """Tell whether it holds of what it looked at."""
        if isinstance(looked, frozenset):
            return any(fnmatchcase(text.lower(), str(self.value)) for text in looked)
        return RELATIONS[self.relation](looked, float(self.value))


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a string of a step's targets says.

    Attributes:
        excludes: whether it takes parameters out.
        glob: over names; what stands before the conditions, "" if nothing does.
        conditions: all of them hold.
    """

    excludes: bool
    glob: str
    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern, such as "!encoder.* type:Linear size>1M".

        Raises:
            RecipeError: a condition makes no sense, or it is too long.
        """
        meant = text.removeprefix("!")
        if len(text) > LONGEST and _plain_name(meant) is None:
            raise RecipeError(
                tr(
                    "a pattern has {length:,} characters, more than {limit:,}. Write several "
                    "shorter ones.",
                    length=len(text),
                    limit=LONGEST,
                )
            )
        found = list(CONDITION.finditer(meant))
        if not found:
            return cls(text.startswith("!"), meant, ())
        starts = [0, *(one.end() for one in found)]
        ends = [*(one.start() for one in found), len(meant)]
        between = [meant[start:end] for start, end in zip(starts, ends, strict=True)]
        glob = "".join([*(words.rstrip() for words in between[:-1]), between[-1]]).strip()
        conditions = tuple(Condition.parse(*one.groups()) for one in found)
        return cls(text.startswith("!"), glob, conditions)

    def holds(self, tensor: TensorInfo, kinds: Kinds, counts: Counts) -> bool:
        """Tell whether all conditions hold of a parameter, whatever its name."""
        return all(one.accepts(one.looks_at(tensor, kinds, counts)) for one in self.conditions)


def patterns_in(line: str) -> tuple[str, ...]:
    """Return the patterns in a line, which commas part, and blanks before "!"; not in brackets."""
    ends, bracket = [len(line)], "["  # the nearest to the right
    for found in reversed(list(SEPARATOR.finditer(line))):
        if found[0] in "[]":
            bracket = found[0]
        elif bracket != "]":
            ends.append(found.start())
    starts = [0, *(end + 1 for end in reversed(ends[1:]))]
    parts = (line[start:end].strip() for start, end in zip(starts, reversed(ends), strict=True))
    return tuple(filter(None, parts))


def select(
    patterns: Sequence[str],
    tensors: Iterable[TensorInfo],
    counts: Counts = NOTHING,
    kinds: Callable[[], Kinds] = dict,
) -> list[TensorInfo]:
    """Return the tensors that match any pattern and no excluding one, in the given order.

    A pattern is a shell glob over the whole name or an alias of it; ``*`` spans dots. Conditions
    may follow it, or stand alone: ``type:Linear``, ``dtype:bfloat16``, ``shape:768x*``,
    ``dims>1``, ``size>=1M``, ``sparsity>90%``. One that begins with ``!`` excludes. With excluding
    patterns alone, everything else is meant.

    Args:
        patterns: as above.
        tensors: to choose from.
        counts: for conditions on sparsity; a tensor that is missing has none.
        kinds: returns what conditions on the type need; only called if there are some.

    Raises:
        RecipeError: a condition makes no sense.
    """
    parsed = [Pattern.parse(text) for text in patterns]
    wanted = [pattern for pattern in parsed if not pattern.excludes] or [Pattern.parse("*")]
    typed = any(some.field == "type" for pattern in parsed for some in pattern.conditions)
    known = kinds() if typed else {}
    includes = _matcher(wanted, counts, known)
    excludes = _matcher([pattern for pattern in parsed if pattern.excludes], counts, known)
    return [tensor for tensor in tensors if includes(tensor) and not excludes(tensor)]


def _plain_name(glob: str) -> str | None:
    """Return the one name that a glob matches; None if it may match others."""
    if "[" not in glob:
        return None if "*" in glob or "?" in glob else glob
    letters, end = [], 0
    for found in LITERAL.finditer(glob):
        if found.start() != end:
            return None
        letters.append(found[1] or found[0])
        end = found.end()
    return "".join(letters) if end == len(glob) else None


def _matcher(
    patterns: Sequence[Pattern], counts: Counts, kinds: Kinds
) -> Callable[[TensorInfo], bool]:
    """Return what tells whether a tensor matches any of some patterns."""
    by_glob = []
    exactly = set()
    for pattern in patterns:
        if not pattern.conditions:
            name = _plain_name(pattern.glob)
            if name is None:
                by_glob.append(translate(pattern.glob))
            else:
                exactly.add(name)
    by_name = re.compile("|".join(by_glob) or r"(?!)").match
    others = [
        (re.compile(translate(pattern.glob or "*")).match, pattern)
        for pattern in patterns
        if pattern.conditions
    ]

    def matches(tensor: TensorInfo) -> bool:
        names = (tensor.name, *tensor.aliases)
        if not exactly.isdisjoint(names) or any(map(by_name, names)):
            return True
        return any(
            any(map(fits, names)) and pattern.holds(tensor, kinds, counts)
            for fits, pattern in others
        )

    return matches
