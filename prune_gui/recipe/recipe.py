"""What the user decided: an ordered, immutable list of steps, and its file."""

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
from prune_gui.pruning.methods.files import FilePath
from prune_gui.pruning.validation_messages import telling, validation_message
from prune_gui.recipe.step import PatternText, Step
from prune_gui.regular_files import read_regular

if TYPE_CHECKING:
    import yaml
    from pydantic_core import ErrorDetails

MAX_STEPS = 250
"""`Resolution.pruned_by` numbers the steps in a byte, and keeps a few values for itself."""
MAX_PROBLEMS = 5
"""Told in one message."""


class Recipe(BaseModel):
    """An ordered list of steps. Changing it makes a new one.

    Attributes:
        version: of the file form.
        start: ``dense``, or ``zeros`` to count zeros already in the file as pruned.
        protect: patterns, as the targets of a step are, for parameters that no step touches.
        steps: carried out in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    version: Literal[1] = 1
    start: Literal["dense", "zeros"] = "dense"
    protect: tuple[PatternText, ...] = ()
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()

    @model_serializer(mode="wrap")
    def _without_empty_protect(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = serialize(self)
        return fields if self.protect else {k: v for k, v in fields.items() if k != "protect"}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a recipe file; the files it names are looked for beside it.

        Raises:
            RecipeError: it cannot be read, or is not a recipe.
        """
        from prune_gui.recipe.plain_yaml import MAX_BYTES

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
            source: what to call it in messages; None: the recipe.
            folder: where files that it names by relative paths are; None: the current folder.
                The recipe has their absolute paths.

        Raises:
            RecipeError: it is not a recipe; the message says where.
        """
        import yaml

        from prune_gui.recipe.plain_yaml import load_yaml

        source = source or tr("The recipe")
        try:
            fields = load_yaml(text)
        except yaml.MarkedYAMLError as error:
            raise RecipeError(_not_yaml(source, error, text)) from error
        except yaml.YAMLError as error:
            raise RecipeError(
                tr("{recipe}: not YAML: {reason}.", recipe=source, reason=error)
            ) from error
        if not isinstance(fields, dict):
            raise RecipeError(
                tr(
                    "{recipe}: not a recipe, which has fields such as version and steps.",
                    recipe=source,
                )
            )
        return cls._validated(fields, source, folder)

    @classmethod
    def _validated(cls, fields: dict[str, object], source: str, folder: Path | None) -> Self:
        try:
            return cls.model_validate(fields, context=folder)
        except ValidationError as error:
            told = telling(error.errors(include_url=False), depth=3)  # steps, a number, a field
            problems = tr("; ").join(dict.fromkeys(map(_explain, told[:MAX_PROBLEMS])))
            raise RecipeError(
                tr("{recipe}: {problems}.", recipe=source, problems=problems)
            ) from error

    def to_yaml(self) -> str:
        """Return the recipe as YAML, its files named as the user wrote them.

        Told the same folder, `from_yaml` gives an equal recipe back.

        Raises:
            RecipeError: it would be too long to be read.
        """
        from prune_gui.recipe.plain_yaml import dump_yaml

        return dump_yaml(self.model_dump(mode="json"))

    def renewed(self) -> Self:
        """Return the recipe as its YAML would be read now, with the methods there are now.

        Raises:
            RecipeError: a step no longer fits its method, or that is gone.
        """
        steps = [step.model_dump() | step.method.files for step in self.steps]
        return self._validated(self.model_dump() | {"steps": steps}, tr("The recipe"), None)

    def with_steps(self, steps: tuple[Step, ...]) -> Self:
        """Return a recipe that differs in its steps alone.

        Raises:
            RecipeError: there are more than `MAX_STEPS`.
        """
        if len(steps) > MAX_STEPS:
            raise RecipeError(tr("A recipe holds at most {most} steps.", most=MAX_STEPS))
        return self.model_copy(update={"steps": steps})

    def anchored(self) -> Self:
        """Return an equal recipe that is written with absolute paths, wherever it will lie."""
        return self._written(attrgetter("in_full"))

    def lying_in(self, folder: Path) -> Self:
        """Return an equal recipe, written with absolute paths where others mean no such file there.

        Args:
            folder: of the file that the recipe will be written to.
        """
        return self._written(methodcaller("seen_from", folder))

    def _written(self, write: Callable[[FilePath], FilePath]) -> Self:
        steps = []
        for step in self.steps:
            files = {name: write(path) for name, path in step.method.files.items()}
            method = step.method.model_copy(update=files)
            steps.append(step.model_copy(update={"method": method}) if files else step)
        return self.model_copy(update={"steps": tuple(steps)})


def _not_yaml(source: str, error: yaml.MarkedYAMLError, text: str) -> str:
    if error.problem_mark is None:
        return tr("{recipe}: not YAML: {reason}.", recipe=source, reason=error.problem)
    return tr(
        "{recipe}: not YAML in line {line}: {reason}.",
        recipe=source,
        line=min(error.problem_mark.line, text.count("\n")) + 1,  # libyaml counts the end as one
        reason=error.problem,
    )


def _explain(problem: ErrorDetails) -> str:
    """Say what is wrong with a recipe, and where."""
    reason = validation_message(problem)
    match problem["loc"]:
        case ("steps", int(place), field, *_):
            return tr(
                "step {number}, {field}: {reason}", number=place + 1, field=field, reason=reason
            )
        case ("steps", int(place)):
            return tr("step {number}: {reason}", number=place + 1, reason=reason)
        case (field, *_):
            return tr("{field}: {reason}", field=field, reason=reason)
    return reason
