"""What the user decided: an ordered, immutable list of steps, and its file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.problems import in_words, telling
from prune_gui.recipe.step import PatternText, Step

if TYPE_CHECKING:
    import yaml
    from pydantic_core import ErrorDetails

MAX_STEPS = 250
"""`Resolution.pruned_by` numbers the steps in a byte, and keeps a few values for itself."""


class Recipe(BaseModel):
    """An ordered list of steps. Changing it makes a new one.

    Attributes:
        version: of the file form.
        start: ``dense``, or ``zeros`` to count zeros already in the file as pruned.
        protect: patterns, as the targets of a step are, for parameters that no step touches.
        steps: carried out in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    start: Literal["dense", "zeros"] = "dense"
    protect: tuple[PatternText, ...] = ()
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()

    _folder: Path | None = PrivateAttr(default=None)

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
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
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

        Raises:
            RecipeError: it is not a recipe; the message says where.
        """
        import yaml

        source = source or tr("The recipe")
        try:
            fields = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            raise RecipeError(_not_yaml(source, error)) from error
        except (yaml.YAMLError, RecursionError) as error:
            raise RecipeError(tr("{recipe}: not a YAML text.", recipe=source)) from error
        if not isinstance(fields, dict):
            raise RecipeError(
                tr(
                    "{recipe}: not a recipe, which has fields such as version and steps.",
                    recipe=source,
                )
            )
        try:
            recipe = cls.model_validate(fields)
        except ValidationError as error:
            told = telling(error.errors(include_url=False), depth=3)  # steps, a number, a field
            problems = tr("; ").join(dict.fromkeys(map(_explain, told)))
            raise RecipeError(
                tr("{recipe}: {problems}.", recipe=source, problems=problems)
            ) from error
        recipe._folder = folder
        return recipe

    def to_yaml(self) -> str:
        """Return the recipe as YAML; `from_yaml`, told the same folder, gives an equal one back."""
        import yaml

        return yaml.safe_dump(
            self.model_dump(mode="json"),
            sort_keys=False,
            # PyYAML writes this one line break as it is, and reads it back as a space.
            allow_unicode="\x85" not in self.model_dump_json(),
            width=100,
        )

    def renewed(self) -> Self:
        """Return the recipe as its YAML would be read now, with the methods there are now.

        Raises:
            RecipeError: a step no longer fits its method, or that is gone.
        """
        return self.from_yaml(self.to_yaml(), folder=self._folder)

    def with_steps(self, steps: tuple[Step, ...]) -> Self:
        """Return a recipe that differs in its steps alone.

        Raises:
            RecipeError: there are more than `MAX_STEPS`.
        """
        if len(steps) > MAX_STEPS:
            raise RecipeError(tr("A recipe holds at most {most} steps.", most=MAX_STEPS))
        return self.model_copy(update={"steps": steps})

    def locate(self, path: str) -> Path:
        """Return where a file that the recipe names is."""
        return (self._folder or Path()) / path

    def anchored(self) -> Self:
        """Return a recipe that names the same files by absolute paths, wherever it will lie."""
        return self.model_copy(update={"steps": tuple(map(self._anchor, self.steps))})

    def lying_in(self, folder: Path) -> Self:
        """Return a recipe that names the same files from a file in `folder`."""
        there = folder.absolute() == self.locate("").absolute()
        return self if there else self.anchored()

    def _anchor(self, step: Step) -> Step:
        paths = {
            name: str(self.locate(path).absolute())
            for name, field in type(step.method).model_fields.items()
            if isinstance(field.json_schema_extra, dict)
            and field.json_schema_extra.get("format") == "path"
            and (path := getattr(step.method, name)) is not None
        }
        if not paths:
            return step
        return step.model_copy(update={"method": step.method.model_copy(update=paths)})


def _not_yaml(source: str, error: yaml.MarkedYAMLError) -> str:
    if error.problem_mark is None:
        return tr("{recipe}: not YAML: {reason}.", recipe=source, reason=error.problem)
    return tr(
        "{recipe}: not YAML in line {line}: {reason}.",
        recipe=source,
        line=error.problem_mark.line + 1,
        reason=error.problem,
    )


def _explain(problem: ErrorDetails) -> str:
    """Say what is wrong with a recipe, and where."""
    reason = in_words(problem)
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
