"""Which parameters a step is for: globs over names, and conditions on what a parameter is."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    rf"(?:^|\s+)(?P<field>{'|'.join((*TEXTS, *NUMBERS))})(?P<relation>[<>]=?|[:=])(?P<value>\S*)"
)
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
        found = re.fullmatch(r"([\d_]*\.?\d+(?:e\d+)?)([%kmb]?)", value.lower())
        if found is None:
            raise RecipeError(
                tr(
                    "{condition} is no condition: after {field} comes a number, as in dims>1, "
                    "size>=1M, sparsity>90%.",
                    condition=f"{field}{relation}{value}",
                    field=field,
                )
            )
        return cls(field, relation, float(found[1]) * MULTIPLES.get(found[2], 1))

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
            RecipeError: a condition makes no sense.
        """
        meant = text.removeprefix("!")
        conditions = tuple(Condition.parse(*found.groups()) for found in CONDITION.finditer(meant))
        glob = CONDITION.sub("", meant).strip() if conditions else meant
        return cls(text.startswith("!"), glob, conditions)

    def holds(self, tensor: TensorInfo, kinds: Kinds, counts: Counts) -> bool:
        """Tell whether all conditions hold of a parameter, whatever its name."""
        return all(one.accepts(one.looks_at(tensor, kinds, counts)) for one in self.conditions)


def patterns_in(line: str) -> tuple[str, ...]:
    """Return the patterns in a line, which commas part, and blanks before "!"; not in brackets."""
    parts = re.split(r"(?:,|\s(?=!))(?![^\[]*\])", line)
    return tuple(part.strip() for part in parts if part.strip())


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


def _matcher(
    patterns: Sequence[Pattern], counts: Counts, kinds: Kinds
) -> Callable[[TensorInfo], bool]:
    """Return what tells whether a tensor matches any of some patterns."""
    plain = [translate(pattern.glob) for pattern in patterns if not pattern.conditions]
    by_name = re.compile("|".join(plain) or r"(?!)").match
    others = [
        (re.compile(translate(pattern.glob or "*")).match, pattern)
        for pattern in patterns
        if pattern.conditions
    ]

    def matches(tensor: TensorInfo) -> bool:
        names = (tensor.name, *tensor.aliases)
        if any(map(by_name, names)):
            return True
        return any(
            any(map(fits, names)) and pattern.holds(tensor, kinds, counts)
            for fits, pattern in others
        )

    return matches
