"""Tables of architectures: which slices of which tensors are a unit, as data in YAML files.

The tables are in ``resources/architectures``, one file per family. docs/reference/tables.md
documents every key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as validator

from prune_gui.checkpoint.folder import TEXT_CONFIG
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.plain_yaml import MAX_BYTES, load_yaml, not_yaml
from prune_gui.pruning.layouts import MemberRole
from prune_gui.pruning.validation_messages import validation_message
from prune_gui.regular_files import read_regular
from prune_gui.resources import resource

UNIT: Final = "{unit}"
MAX_PROBLEMS: Final = 5  # limit on the problems reported in one message

Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Path_ = Annotated[str, StringConstraints(pattern=r"^[\w-]+(\.[\w-]+)*$", max_length=200)]
_COMPONENT: Final = r"([\w-]+\*?[\w-]*|\*[\w-]*|\{unit\})"
Pattern = Annotated[
    str, StringConstraints(pattern=rf"^{_COMPONENT}(\.{_COMPONENT})*$", max_length=200)
]
Count = Annotated[
    str, StringConstraints(pattern=r"^\w+(\.\w+)?( [-+*/] \w+(\.\w+)?)*$", max_length=200)
]
Positive = Annotated[int, Field(ge=1, le=1 << 20)]
Dimension = Annotated[int, Field(ge=0, le=7)]
Index = Annotated[int, Field(ge=0, le=1 << 40)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MemberRule(_Model):
    """The tensors of a member, and how units divide one dimension of them."""

    name: Pattern
    dim: Dimension | None = 0
    parts: Annotated[tuple[Positive | str, ...], Field(max_length=16)] = (1,)
    role: MemberRole = "produces"
    optional: bool = False
    form: str = ""
    shared_length: str = ""

    @validator(mode="after")
    def _check(self) -> Self:
        if self.name.count(UNIT) != (self.dim is None):
            raise ValueError(
                tr("{name!r} needs either a dim or one {unit}", name=self.name, unit=UNIT)
            )
        return self


class SliceRule(_Model):
    """The slices of one tensor that belong to the units of a group; see `Member`."""

    name: Text
    dim: Dimension = 0
    role: MemberRole = "produces"
    offset: Index = 0
    width: Positive = 1
    starts: tuple[Index, ...] = ()


class GroupRule(_Model):
    """A group that is written out, with the whole names of its tensors."""

    label: Text
    size: Positive
    members: Annotated[tuple[SliceRule, ...], Field(min_length=1)]
    attributes: tuple[Path_, ...] = ()

    @validator(mode="after")
    def _check(self) -> Self:
        for member in self.members:
            if member.starts and len(member.starts) != self.size:
                raise ValueError(
                    tr(
                        "{name}: starts has {count:,} numbers for {size:,} units",
                        name=member.name,
                        count=len(member.starts),
                        size=self.size,
                    )
                )
        return self


class ConfigRule(_Model):
    """A field of config.json that changes with the number of units."""

    field: Text
    aliases: tuple[Text, ...] = ()
    value: Literal[
        "units",
        "proportional",
        "list",
        "indices",
        "leading",
        "extra",
        "pattern",
        "forbids",
        "pin",
        "fixed",
    ] = "units"
    count: str = ""
    unless: str = ""
    divides: str = ""
    multiple_of: str = ""
    cycle: tuple[Text | int, ...] = ()
    period: str = ""
    model_types: tuple[Text, ...] = ()
    section: Text = TEXT_CONFIG

    @validator(mode="after")
    def _check(self) -> Self:
        if (self.value in ("pin", "proportional", "extra")) != bool(self.count):
            raise ValueError(
                tr("{field}: pin, proportional and extra need a count", field=self.field)
            )
        return self


class SpaceRule(_Model):
    """The units of one kind in each block, or in `groups` that are written out.

    Without members and groups, the blocks are the units.
    """

    title: Text
    members: tuple[MemberRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()
    size: str = ""
    stacks: tuple[Path_, ...] = ()
    across: bool = False
    outside: bool = False
    complete: bool = False
    spared: tuple[Text, ...] = ()
    config: tuple[ConfigRule, ...] = ()
    runs: str = ""
    minimum: str = ""
    loadable: bool = True
    loadable_with: tuple[Text, ...] = ()
    exact: bool = True
    activation: tuple[Text, ...] = ()
    gate: Path_ | Literal[""] = ""

    @property
    def of_blocks(self) -> bool:
        """Whether the blocks are the units."""
        return not self.members and not self.groups

    def count_names(self) -> Iterable[str]:
        """Return the names of the counts that the rule refers to."""
        used: list[int | str] = [self.size, self.minimum, self.runs]
        for rule in self.config:
            used += (rule.count, rule.divides, rule.multiple_of)
        used += [name for each in self.members for name in (each.shared_length, *each.parts)]
        return dict.fromkeys(name for name in used if isinstance(name, str) and name)


class ArchitectureTable(_Model):
    """A family of networks."""

    family: Text
    model_types: tuple[Text, ...] = ()
    stacks: tuple[Path_, ...] = ()
    signature: tuple[Text, ...] = ()
    counts: dict[str, tuple[Count, ...]] = {}
    spaces: Annotated[dict[Text, SpaceRule], Field(min_length=1)]
    unknown: tuple[str, ...] = ()

    @validator(mode="after")
    def _check(self) -> Self:
        for name, space in self.spaces.items():
            if not space.groups and not (self.stacks and self.signature):
                raise ValueError(
                    tr(
                        "{space}: without groups, the table needs stacks and a signature",
                        space=name,
                    )
                )
            if space.groups and space.members:
                raise ValueError(tr("{space}: members and groups exclude each other", space=name))
            for count in space.count_names():
                if count not in self.counts:
                    raise ValueError(
                        tr("{space}: there is no count {count!r}", space=name, count=count)
                    )
            for other in space.loadable_with:
                if other not in self.spaces:
                    raise ValueError(
                        tr("{space}: there is no space {other!r}", space=name, other=other)
                    )
            for stack in space.stacks:
                if stack not in self.stacks:
                    raise ValueError(
                        tr("{space}: there is no stack {stack!r}", space=name, stack=stack)
                    )
        return self


@lru_cache(maxsize=1)
def own_tables() -> tuple[ArchitectureTable, ...]:
    """Return the tables that are shipped with the program, in the order of their files."""
    return tuple(load_table(path) for path in sorted(resource("architectures").glob("*.yaml")))


def load_table(path: Path) -> ArchitectureTable:
    """Read a table."""
    try:
        with RecipeError.on_os_error("{path}: the table cannot be read: {reason}.", path=path):
            text = read_regular(path, MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise RecipeError(
            "{path}: the table cannot be read: it is not UTF-8 text.", path=path
        ) from error
    try:
        fields = load_yaml(text)
    except yaml.YAMLError as error:
        raise RecipeError(not_yaml(str(path), error, text)) from error
    if not isinstance(fields, dict):
        raise RecipeError(
            "{path}: not a table of an architecture, which has fields such as family and spaces.",
            path=path,
        )
    try:
        return ArchitectureTable.model_validate(fields)
    except ValidationError as error:
        problems = tr("; ").join(
            tr(
                "{field}: {reason}",
                field=".".join(map(str, problem["loc"])),
                reason=validation_message(problem),
            )
            if problem["loc"]
            else validation_message(problem)
            for problem in error.errors(include_url=False)[:MAX_PROBLEMS]
        )
        raise RecipeError("{path}: {problems}.", path=path, problems=problems) from error


def name_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a member's name; the group "unit" is the unit's index."""
    parts = re.split(r"(\*|\{unit\})", pattern)
    wild = {"*": r"[^.]*", UNIT: r"(?P<unit>[0-9]{1,7})"}
    return re.compile("".join(wild.get(part) or re.escape(part) for part in parts), re.DOTALL)
