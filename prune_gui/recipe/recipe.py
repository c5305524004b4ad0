"""What the user decided: an ordered, immutable list of steps, and its file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
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
from prune_gui.recipe.step import PatternText, Step

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
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise RecipeError(f"{path}: the recipe cannot be read: {reason}.") from error
        return cls.from_yaml(text, source=str(path), folder=path.parent)

    @classmethod
    def from_yaml(
        cls, text: str, *, source: str = "The recipe", folder: Path | None = None
    ) -> Self:
        """Parse a recipe.

        Args:
            text: YAML.
            source: what to call it in messages.
            folder: where files that it names by relative paths are; None: the current folder.

        Raises:
            RecipeError: it is not a recipe; the message says where.
        """
        try:
            recipe = cls.model_validate(yaml.safe_load(text))
        except yaml.MarkedYAMLError as error:
            line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
            raise RecipeError(f"{source}: not YAML{line}: {error.problem}.") from error
        except (yaml.YAMLError, RecursionError) as error:
            raise RecipeError(f"{source}: not a YAML text.") from error
        except ValidationError as error:
            raise RecipeError(f"{source}: {_explain(error)}") from error
        recipe._folder = folder
        return recipe

    def to_yaml(self) -> str:
        """Return the recipe as YAML; `from_yaml`, told the same folder, gives an equal one back."""
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
            raise RecipeError(f"A recipe holds at most {MAX_STEPS} steps.")
        return self.model_copy(update={"steps": steps})

    def locate(self, path: str) -> Path:
        """Return where a file that the recipe names is."""
        return (self._folder or Path()) / path


def _explain(error: ValidationError) -> str:
    """Say in one line what is wrong with a recipe, and where."""
    parts = []
    for problem in error.errors(include_url=False, include_context=False):
        place = [part for part in problem["loc"] if part != "steps"]
        where = ", ".join(f"step {p + 1}" if isinstance(p, int) else str(p) for p in place[:2])
        message = problem["msg"].removeprefix("Value error, ")
        parts.append(f"{where}: {message}" if where else message)
    return "; ".join(dict.fromkeys(parts)) + "."
