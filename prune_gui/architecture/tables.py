"""Tables of architectures: which slices of which tensors are a unit, as data in YAML files.

The tables are in ``resources/architectures``, one file per family. A table names the repeated
blocks of a network, the spaces of units in them, the members of each space, and the fields of
config.json that count the units.
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

from prune_gui.checkpoint.surroundings import TEXT_CONFIG
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.plain_yaml import MAX_BYTES, load_yaml, not_yaml
from prune_gui.pruning.coupling import MemberRole
from prune_gui.pruning.validation_messages import validation_message
from prune_gui.regular_files import read_regular
from prune_gui.resources import resource

UNIT: Final = "{unit}"
MAX_PROBLEMS: Final = 5
"""Limit on the problems reported in one message."""

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


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MemberRule(_Model):
    """The tensors of a member, and how units divide one dimension of them.

    Attributes:
        name: the name below the path of the block, such as "mlp.up_proj.weight". "{unit}" stands
            for the index of the unit, if each unit has a tensor of its own. "*" stands for any
            characters but dots; the path up to the last component with "*" makes a group of its
            own, with all members that begin alike.
        dim: the dimension; None if a whole tensor belongs to each unit.
        parts: the dimension is a concatenation of parts with lengths proportional to these numbers,
            or to counts by name; the units divide each part. The factor is the same for all
            members of a group; () is one part of any length.
        role: see `Member`.
        optional: whether a block may lack the tensor.
        form: a name for one of several ways to store the same weights. A group has all members of
            a form, or none; if there are forms, it has at least one.
        shared_length: a count. The tensor is then common to all units and no member, and must have
            this length along `dim`; blocks where it has another length have no group.
    """

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


class ConfigRule(_Model):
    """A field of config.json that changes with the number of units.

    Attributes:
        field: the key.
        aliases: other keys that the file may have instead, with the same meaning.
        value: how the field changes:
            "units": the number of kept units, written even if the field is missing; if the file has
                more blocks than the field says, the last ones are extra and do not count;
            "proportional": the old value times kept / all;
            "list": a list with one value per unit, of which those of kept units remain;
            "indices": a list of indices of units, of which those of kept units remain, renumbered;
            "leading": the number of leading units of a kind, of which the kept ones are counted;
            "extra": the number of units after the first `count`, of which the kept ones are
                counted;
            "pattern": stays; the kinds of units repeat after this number, or all units differ if it
                is true. Kept units must have the same place in the pattern as before. A list has
                one value per unit, as for "list";
            "forbids": stays; if it is true, no unit can be removed, because other tensors have one
                slice per unit;
            "pin": the value of `count` before pruning, written even if the field is missing;
            "fixed": the number of a unit that must keep its number.
        count: for "pin" and "proportional", the name of the count with the old value.
        unless: a key. The rule is not applied if the file has it.
        divides: the name of a count that the new value must divide, after pruning.
        multiple_of: the name of a count that must divide the new value, after pruning.
        cycle: for "list", the values that repeat, one per unit, if the field is missing.
        period: a key. If the file has it, it is the length of the cycle, of which all values but
            the last are the first one.
        model_types: the types of models that the rule is for; () for all of the table. Of several
            rules for a field, the first for the type is applied.
        section: the key of the model in config.json that has the field. A file of one model has it
            at the top level.
    """

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
    """The units of one kind in each block.

    Attributes:
        title: a few words on the units for the window, in the plural.
        members: the tensors. If empty, the blocks of a stack are the units, with all their tensors.
        size: the number of units: the name of a count. If "", the length of a part of 1.
        stacks: those stacks of the table that have the space; () for all.
        across: whether the units are common to all blocks of a stack, so that these are one group.
        outside: whether the members are not looked for in the blocks, but in the whole network.
            Their names follow any prefix, and all tensors with such names are one group. There is
            none if their lengths differ.
        complete: for a space with `outside`, whether it has every tensor of the network with a
            dimension of that length. There is no group if the network has other such tensors that
            are not members of another space, either.
        spared: for a space of blocks, names in a block that do not belong to it, if only one block
            has them. For a complete space, names of tensors without its units, whatever their
            lengths.
        config: the fields of config.json to adapt. All groups must then keep equally many units.
        runs: the name of a count. The units are in so many runs of equal length, and each run must
            keep equally many.
        minimum: the name of a count: at least so many units must be kept.
        loadable: whether programs can load fewer units; False if they can only be masked.
        loadable_with: names of spaces. Programs can load fewer units only if the same share of the
            units of each of these spaces remains.
        exact: whether the network computes the same without some units as with units of zeros.
        activation: keys of config.json, of which the first that the file has names the activation
            function. The units are then f(produced), without any norm between that and the
            members that consume them; () if that is not so or not known.
        gate: the path of the module whose outputs pass the activation function and then multiply
            those of the other module; "" if the units have one module.
    """

    title: Text
    members: tuple[MemberRule, ...] = ()
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

    def count_names(self) -> Iterable[str]:
        """Return the names of the counts that the rule refers to."""
        used: list[int | str] = [self.size, self.minimum, self.runs]
        for rule in self.config:
            used += (rule.count, rule.divides, rule.multiple_of)
        used += [name for each in self.members for name in (each.shared_length, *each.parts)]
        return dict.fromkeys(name for name in used if isinstance(name, str) and name)


class ArchitectureTable(_Model):
    """A family of networks.

    Attributes:
        model_types: the values of ``model_type`` in config.json that it is for.
        stacks: the paths of the lists of repeated blocks, below any prefix, such as "layers". Of
            several such paths, those below a model of images or sounds do not count.
        signature: names of parameters that every block has; modules without them are no blocks.
        counts: numbers that the rules refer to, by name. The first that is known counts: a key of
            config.json such as "hidden_size" or "vision_config.hidden_size", a number, or an
            expression such as "hidden_size / num_attention_heads", computed from left to right.
    """

    family: Text
    model_types: tuple[Text, ...] = ()
    stacks: Annotated[tuple[Path_, ...], Field(min_length=1)]
    signature: Annotated[tuple[Text, ...], Field(min_length=1)]
    counts: dict[str, tuple[Count, ...]] = {}
    spaces: Annotated[dict[Text, SpaceRule], Field(min_length=1)]

    @validator(mode="after")
    def _check(self) -> Self:
        for name, space in self.spaces.items():
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
        text = read_regular(path, MAX_BYTES).decode()
    except OSError as error:
        raise RecipeError(
            tr("{path}: the table cannot be read: {reason}.", path=path, reason=error.strerror)
        ) from error
    except UnicodeDecodeError as error:
        raise RecipeError(
            tr("{path}: the table cannot be read: it is not UTF-8 text.", path=path)
        ) from error
    try:
        fields = load_yaml(text)
    except yaml.YAMLError as error:
        raise RecipeError(not_yaml(str(path), error, text)) from error
    if not isinstance(fields, dict):
        raise RecipeError(
            tr(
                "{path}: not a table of an architecture, which has fields such as family and "
                "spaces.",
                path=path,
            )
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
        raise RecipeError(tr("{path}: {problems}.", path=path, problems=problems)) from error


def name_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a member's name; the group "unit" is the unit's index."""
    parts = re.split(r"(\*|\{unit\})", pattern)
    wild = {"*": r"[^.]*", UNIT: r"(?P<unit>[0-9]{1,7})"}
    return re.compile("".join(wild.get(part) or re.escape(part) for part in parts), re.DOTALL)
