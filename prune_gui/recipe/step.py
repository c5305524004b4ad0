"""One step of a recipe: a method and the parameters that it targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    StringConstraints,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.methods import METHODS, AllocatedMethod, Method
from prune_gui.pruning.plugins import use_installed
from prune_gui.recipe.selector import Pattern


def _is_pattern(text: str) -> str:
    try:
        Pattern.parse(text)
    except RecipeError as error:
        raise ValueError(str(error)) from error
    return text


PatternText = Annotated[str, StringConstraints(min_length=1), AfterValidator(_is_pattern)]


class Step(BaseModel):
    """A method with its parameters, and its targets. In a recipe file they are one flat mapping.

    Attributes:
        method: the method; in the flat mapping, ``method`` is its name and its parameters are
            further keys.
        targets: shell globs over parameter names, and conditions; ``!`` excludes.
        enabled: a disabled step keeps its position in the recipe and prunes nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    method: SerializeAsAny[Method]
    targets: Annotated[tuple[PatternText, ...], Field(min_length=1)]
    enabled: bool = True

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping) or isinstance(value.get("method"), Method):
            return value
        own = {key: value[key] for key in value if key in ("targets", "enabled")}
        parameters = {key: value[key] for key in value if key not in ("method", *own)}
        name = value.get("method")
        if isinstance(name, str) and name not in METHODS:
            use_installed()
        if not isinstance(name, str) or name not in METHODS:
            raise ValueError(
                tr(
                    "method: {name!r} is unknown; prune-gui methods lists all of them. If it is "
                    "your own method, load its file first: --methods FILE on the command line, "
                    "Prune > Load methods from a file in the window",
                    name=name,
                )
            )
        folder = info.context or Path()
        return {"method": METHODS[name].model_validate(parameters, context=folder), **own}

    @model_validator(mode="after")
    def _check_amounts(self) -> Self:
        for pattern in (isinstance(self.method, AllocatedMethod) and self.method.amounts) or ():
            try:
                Pattern.parse(pattern)
            except RecipeError as error:
                raise ValueError(tr("amounts: {reason}", reason=error)) from error
        return self

    @model_serializer(mode="plain")
    def _to_flat(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"method": self.method.name, "targets": list(self.targets)}
        flat |= self.method.model_dump(mode="json")
        if not self.enabled:
            flat["enabled"] = False
        unused = self.method.unused_fields(dict(self.method))
        return {k: value for k, value in flat.items() if value is not None and k not in unused}
