"""The recipe: an ordered, immutable list of steps, and its file format."""

from __future__ import annotations

import os
from collections.abc import Callable
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.methods.fields import FileName, FilePath
from prune_gui.pruning.validation_messages import telling, validation_message
from prune_gui.recipe.step import PatternText, Step
from prune_gui.regular_files import read_regular

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_STEPS = 250
"""`Resolution.pruned_by` stores step numbers in a uint8, and reserves a few values."""
MAX_PROBLEMS = 5
"""Limit on the problems reported in one message."""


class Recipe(BaseModel):
    """An ordered list of steps. It is immutable; its methods return changed copies.

    Attributes:
        version: version of the file format.
        start: ``dense``, or ``zeros`` to count zeros already in the file as pruned.
        protect: patterns, like the targets of a step, for parameters that no step prunes.
        table: the file of a table of the architecture, which tells the coupled units; None for the
            tables of this program.
        steps: the steps, applied in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    version: Literal[1] = 1
    start: Literal["dense", "zeros"] = "dense"
    protect: tuple[PatternText, ...] = ()
    table: FileName | None = None
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = serialize(self)
        defaults = {"protect": not self.protect, "table": self.table is None}
        return {name: value for name, value in fields.items() if not defaults.get(name)}

    @property
    def table_path(self) -> Path | None:
        """The file of the table of the architecture; None for the tables of this program."""
        return None if self.table is None else Path(self.table)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a recipe file; relative paths in it are resolved against its folder.

        Raises:
            RecipeError: the file cannot be read or is not a recipe.
        """
        from prune_gui.plain_yaml import MAX_BYTES  # yaml: slow to import

        path = Path(path)
        try:
            text = read_regular(path, MAX_BYTES).decode()
        except OSError as error:
            reason = error.strerror
            raise RecipeError(
                tr("{path}: the recipe cannot be read: {reason}.", path=path, reason=reason)
            ) from error
        except UnicodeDecodeError as error:
            raise RecipeError(
                tr("{path}: the recipe cannot be read: it is not UTF-8 text.", path=path)
            ) from error
        return cls.from_yaml(text, source=str(path), folder=path.parent)

    @classmethod
    def from_yaml(cls, text: str, *, source: str | None = None, folder: Path | None = None) -> Self:
        """Parse a recipe.

        Args:
            text: YAML.
            source: the name of the recipe in messages; None: "The recipe".
            folder: the folder against which relative paths are resolved; None: the current
                folder. The returned recipe has absolute paths.

        Raises:
            RecipeError: the text is not a recipe; the message names the line or the field.
        """
        import yaml  # slow to import

        from prune_gui.plain_yaml import load_yaml, not_yaml  # yaml: slow to import

        source = source or tr("The recipe")
        try:
            fields = load_yaml(text)
        except yaml.YAMLError as error:
            raise RecipeError(not_yaml(source, error, text)) from error
        if not isinstance(fields, dict):
            raise RecipeError(
                tr(
                    "{recipe}: not a recipe, which has fields such as version and steps.",
                    recipe=source,
                )
            )
        return cls.validated(fields, source, folder)

    @classmethod
    def validated(cls, fields: dict[str, object], source: str, folder: Path | None) -> Self:
        """Return the recipe with the fields of a recipe file; see `from_yaml`.

        Raises:
            RecipeError: a field is not valid.
        """
        try:
            return cls.model_validate(fields, context=folder or Path())
        except ValidationError as error:
            told = telling(error.errors(include_url=False), depth=3)  # steps, a number, a field
            problems = tr("; ").join(dict.fromkeys(map(_explain, told[:MAX_PROBLEMS])))
            raise RecipeError(
                tr("{recipe}: {problems}.", recipe=source, problems=problems)
            ) from error

    def to_yaml(self) -> str:
        """Return the recipe as YAML, with paths as the user wrote them.

        With the same folder, `from_yaml` returns an equal recipe.

        Raises:
            RecipeError: the text is longer than `from_yaml` accepts.
        """
        from prune_gui.plain_yaml import dump_yaml  # yaml: slow to import

        return dump_yaml(self.model_dump(mode="json"))

    def renewed(self) -> Self:
        """Return the recipe validated again, with the methods that are registered now.

        Raises:
            RecipeError: a method no longer exists or no longer accepts the parameters of a step.
        """
        steps = [step.model_dump() | step.method.files for step in self.steps]
        fields = self.model_dump() | {"steps": steps, "table": self.table}
        return self.validated(fields, tr("The recipe"), None)

    def with_steps(self, steps: tuple[Step, ...]) -> Self:
        """Return a copy of the recipe with other steps.

        Raises:
            RecipeError: there are more than `MAX_STEPS` steps.
        """
        if len(steps) > MAX_STEPS:
            raise RecipeError(tr("A recipe holds at most {most} steps.", most=MAX_STEPS))
        return self.model_copy(update={"steps": steps})

    def with_table(self, table: Path | None, folder: Path | None = None) -> Self:
        """Return a copy of the recipe with another table of the architecture.

        Args:
            table: the file of the table; None for the tables of this program.
            folder: the folder of the recipe file. The path of a table below it is relative.
        """
        if table is None:
            return self.model_copy(update={"table": None})
        full = FilePath.of(str(table), Path())
        if folder is not None and Path(full).is_relative_to(folder.absolute()):
            full = FilePath.of(str(Path(full).relative_to(folder.absolute())), folder)
        return self.model_copy(update={"table": full})

    def anchored(self) -> Self:
        """Return an equal recipe whose YAML has absolute paths, independent of its folder."""
        return self._with_paths(attrgetter("in_full"))

    def lying_in(self, folder: Path) -> Self:
        """Return an equal recipe that can be written to `folder`.

        Its YAML has an absolute path wherever the relative one means another file there.

        Args:
            folder: the folder that the recipe file will be in.
        """
        return self._with_paths(methodcaller("seen_from", folder))

    def _with_paths(self, write: Callable[[FilePath], FilePath]) -> Self:
        steps = []
        for step in self.steps:
            files = {name: write(path) for name, path in step.method.files.items()}
            method = step.method.model_copy(update=files)
            steps.append(step.model_copy(update={"method": method}) if files else step)
        table = write(self.table) if isinstance(self.table, FilePath) else None
        return self.model_copy(update={"steps": tuple(steps), "table": table})


def _explain(problem: ErrorDetails) -> str:
    """Return a message that describes a validation problem and the step and field it is in."""
    reason = validation_message(problem)
    match problem["loc"]:
        case ("steps", int(index), "amounts", str(pattern), *_):
            return tr(
                "step {number}, {field}: {reason}",
                number=index + 1,
                field=f"amounts, {pattern}",
                reason=reason,
            )
        case ("steps", int(index), field, *_):
            return tr(
                "step {number}, {field}: {reason}", number=index + 1, field=field, reason=reason
            )
        case ("steps", int(index)):
            return tr("step {number}: {reason}", number=index + 1, reason=reason)
        case (field, *_):
            return tr("{field}: {reason}", field=field, reason=reason)
    return reason
