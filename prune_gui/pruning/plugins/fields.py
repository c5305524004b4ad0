"""The parameters of a plug-in's constructor: described by its process, read by the program.

A type is described as JSON schema does.
"""

from __future__ import annotations

import inspect
import re
import types
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter

from prune_gui.language import tr
from prune_gui.pruning.methods.base import Amount, Dim, Seed
from prune_gui.pruning.plugins.faults import Fault

KNOWN: Final[dict[str, tuple[Any, object]]] = {
    "amount": (Amount, 0.5),
    "dim": (Dim, 0),
    "seed": (Seed, 0),
}
"""Parameters that mean here what they mean in every method, and what they are unless given."""

PLAIN: Final = {"integer": int, "number": float, "boolean": bool, "string": str}
"""Types by their names in a schema."""

BOUNDS: Final = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
}
"""What a schema calls the arguments of `pydantic.Field`."""

Scalar = int | float | str | None  # a bool is an int


def describe(plugin: type) -> list[dict[str, Any]]:
    """Describe the parameters of a class's constructor for `field_of`.

    Raises:
        Fault: one is of a type that a recipe cannot hold.
    """
    return [
        _described(plugin, parameter)
        for parameter in inspect.signature(plugin, eval_str=True).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def validators(plugin: type) -> dict[str, TypeAdapter[Any]]:
    """Return what checks the values of those parameters whose annotation may hold more than JSON.

    The annotation may have functions of the plug-in, which the program never sees.
    """
    return {
        name: TypeAdapter(parameter.annotation, config=ConfigDict(strict=True))
        for name, parameter in inspect.signature(plugin, eval_str=True).parameters.items()
        if name not in KNOWN and get_origin(parameter.annotation) is Annotated
    }


def _described(plugin: type, parameter: inspect.Parameter) -> dict[str, Any]:
    name, default = parameter.name, parameter.default
    described: dict[str, Any] = {"name": name, "description": _description(plugin, name)}
    if default is not parameter.empty:
        described["default"] = default
    if name not in KNOWN:
        kind = parameter.annotation
        if kind is parameter.empty:
            kind = type(default)
        if not _is_plain(kind, default):
            raise Fault("parameter_type", name=name)
        described["schema"] = TypeAdapter(kind).json_schema()
    if not isinstance(default, Scalar) and default is not parameter.empty:
        raise Fault("parameter_type", name=name)
    return described


def _is_plain(kind: Any, default: object) -> bool:  # noqa: ANN401 - whatever was annotated
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        # A recipe leaves out what is None.
        parts = [p for p in get_args(kind) if not (p is types.NoneType and default is None)]
        return all(_is_plain(part, default) for part in parts)
    if origin is Annotated:
        return _is_plain(get_args(kind)[0], default)
    if origin is Literal:
        return all(type(value) in (*PLAIN.values(), types.NoneType) for value in get_args(kind))
    return kind in PLAIN.values()


def _description(plugin: type, name: str) -> str | None:
    """Return the line about a parameter under "Args:" in the plug-in's docstrings."""
    for documented in (plugin, plugin.__init__):  # type: ignore[misc]
        about = re.search(
            rf"^\s*{re.escape(name)}\b[^:\n]*:[ \t]*(\S.*)$", documented.__doc__ or "", re.MULTILINE
        )
        if about:
            return about[1]
    return None


def field_of(plugin: str, described: dict[str, Any]) -> tuple[Any, Any]:
    """Return (type, field) of a parameter, as `pydantic.create_model` takes them.

    Args:
        plugin: the name of the class.
        described: by `describe`, if its process is to be believed.

    Raises:
        KeyError, TypeError, ValueError: by another.
    """
    name, description = described["name"], described["description"]
    if name in KNOWN:
        kind, usual = KNOWN[name]
        default = described.get("default", usual)
    else:
        kind, default = _type_of(described["schema"]), described.get("default", ...)
    if default is not ... and not isinstance(default, Scalar):
        raise TypeError(f"a default that is a {type(default).__name__}")
    if description is None and name in KNOWN:  # its type has one
        return kind, Field(default=default, validate_default=True)
    description = str(description or tr("As {plugin} takes it.", plugin=plugin))
    return kind, Field(default=default, description=description, validate_default=True)


def _type_of(schema: dict[str, Any]) -> Any:  # noqa: ANN401 - a type, or what stands for one
    if "anyOf" in schema:
        return Union[tuple(_type_of(part) for part in schema["anyOf"])]  # noqa: UP007
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if not all(isinstance(value, Scalar) for value in values):
            raise TypeError("a choice of more than numbers and texts")
        return Literal[tuple(values)]
    if schema["type"] == "null":
        return None
    kind = PLAIN[schema["type"]]
    bounds = {ours: schema[theirs] for theirs, ours in BOUNDS.items() if theirs in schema}
    return Annotated[kind, Field(**bounds)] if bounds else kind
