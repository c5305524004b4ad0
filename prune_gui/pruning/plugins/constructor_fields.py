"""Constructor parameters of a plug-in, described in its process as JSON schema, and read here."""

from __future__ import annotations

import inspect
import re
import types
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter

from prune_gui.language import tr
from prune_gui.pruning.methods.fields import Amount, Dim, Seed
from prune_gui.pruning.plugins.faults import Fault

SHARED_PARAMETERS: Final[dict[str, tuple[Any, object]]] = {
    "amount": (Amount, 0.5),
    "dim": (Dim, 0),
    "seed": (Seed, 0),
}
"""(type, default) of the parameters that have the same meaning in every method."""

SCALAR_TYPES: Final = {"integer": int, "number": float, "boolean": bool, "string": str}
"""Python types by their names in JSON schema."""

FIELD_ARGUMENTS: Final = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
}
"""Arguments of `pydantic.Field` by their names in JSON schema."""

Scalar = int | float | str | None  # a bool is an int


def describe(plugin: type) -> list[dict[str, Any]]:
    """Return descriptions of the constructor parameters of a class, for `field_of`."""
    return [
        _describe_parameter(plugin, parameter)
        for parameter in inspect.signature(plugin, eval_str=True).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def validators(plugin: type) -> dict[str, TypeAdapter[Any]]:
    """Return validators of parameters whose annotation may contain functions of the plug-in."""
    return {
        name: TypeAdapter(parameter.annotation, config=ConfigDict(strict=True))
        for name, parameter in inspect.signature(plugin, eval_str=True).parameters.items()
        if name not in SHARED_PARAMETERS and get_origin(parameter.annotation) is Annotated
    }


def _describe_parameter(plugin: type, parameter: inspect.Parameter) -> dict[str, Any]:
    name, default = parameter.name, parameter.default
    described: dict[str, Any] = {"name": name, "description": _description(plugin, name)}
    if default is not parameter.empty:
        described["default"] = default
    if name not in SHARED_PARAMETERS:
        annotation = parameter.annotation
        if annotation is parameter.empty:
            annotation = type(default)
        if not _is_representable(annotation, default):
            raise Fault("parameter_type", name=name)
        described["schema"] = TypeAdapter(annotation).json_schema()
    if not isinstance(default, Scalar) and default is not parameter.empty:
        raise Fault("parameter_type", name=name)
    return described


def _is_representable(annotation: Any, default: object) -> bool:  # noqa: ANN401 - any annotation
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        # A recipe omits fields that are None.
        parts = [p for p in get_args(annotation) if not (p is types.NoneType and default is None)]
        return all(_is_representable(part, default) for part in parts)
    if origin is Annotated:
        return _is_representable(get_args(annotation)[0], default)
    if origin is Literal:
        return all(
            type(value) in (*SCALAR_TYPES.values(), types.NoneType)
            for value in get_args(annotation)
        )
    return annotation in SCALAR_TYPES.values()


def _description(plugin: type, name: str) -> str | None:
    """Return the text of a parameter under "Args:" in the docstrings of the plug-in."""
    for documented in (plugin, plugin.__init__):  # type: ignore[misc]
        match = re.search(
            rf"^\s*{re.escape(name)}\b[^:\n]*:[ \t]*(\S.*)$", documented.__doc__ or "", re.MULTILINE
        )
        if match:
            return match[1]
    return None


def field_of(plugin: str, described: dict[str, Any]) -> tuple[Any, Any]:
    """Return (type, field) of a parameter for `pydantic.create_model`."""
    name, description = described["name"], described["description"]
    if name in SHARED_PARAMETERS:
        annotation, shared_default = SHARED_PARAMETERS[name]
        default = described.get("default", shared_default)
    else:
        annotation, default = _type_of(described["schema"]), described.get("default", ...)
    if default is not ... and not isinstance(default, Scalar):
        raise TypeError(f"a default that is a {type(default).__name__}")
    if description is None and name in SHARED_PARAMETERS:  # the type has a description
        return annotation, Field(default=default, validate_default=True)
    description = str(description or tr("Defined by {plugin}.", plugin=plugin))
    return annotation, Field(default=default, description=description, validate_default=True)


def _type_of(schema: dict[str, Any]) -> Any:  # noqa: ANN401 - a type or a typing construct
    if "anyOf" in schema:
        return Union[tuple(_type_of(part) for part in schema["anyOf"])]  # noqa: UP007
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if not all(isinstance(value, Scalar) for value in values):
            raise TypeError("a choice of more than numbers and texts")
        return Literal[tuple(values)]
    if schema["type"] == "null":
        return None
    annotation = SCALAR_TYPES[schema["type"]]
    bounds = {
        argument: schema[keyword]
        for keyword, argument in FIELD_ARGUMENTS.items()
        if keyword in schema
    }
    return Annotated[annotation, Field(**bounds)] if bounds else annotation
