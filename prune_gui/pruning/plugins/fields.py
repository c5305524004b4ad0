"""The parameters of a plug-in's constructor as the fields of a method."""

from __future__ import annotations

import inspect
import re
import types
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import Field

from prune_gui.language import later, tr
from prune_gui.pruning.base import BasePruningMethod
from prune_gui.pruning.methods.base import Amount, Dim, Seed
from prune_gui.pruning.plugins.calling import Fault

KNOWN: Final[dict[str, tuple[Any, object]]] = {
    "amount": (Amount, 0.5),
    "dim": (Dim, 0),
    "seed": (Seed, 0),
}
"""Parameters that mean here what they mean in every method, and what they are unless given."""

PLAIN: Final = (int, float, bool, str)


def fields_of(plugin: type[BasePruningMethod]) -> dict[str, Any]:
    """Return (type, field) by the name of each parameter, as `pydantic.create_model` takes them.

    Raises:
        Fault: a parameter is of a type that a recipe cannot hold.
    """
    return {
        parameter.name: _field(plugin, parameter)
        for parameter in inspect.signature(plugin, eval_str=True).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def _field(plugin: type[BasePruningMethod], parameter: inspect.Parameter) -> tuple[Any, object]:
    name, default = parameter.name, parameter.default
    if name in KNOWN:
        kind, usual = KNOWN[name]
        default = usual if default is parameter.empty else default
    else:
        kind = parameter.annotation
        if kind is parameter.empty:
            kind = type(default)
        if not _is_plain(kind, default):
            raise Fault(
                later(
                    "{it} has a parameter {name!r} that a recipe cannot hold: annotate it as int, "
                    "float, bool, str or Literal[...]"
                ),
                name=name,
            )
    if default is parameter.empty:
        default = ...
    description = _description(plugin, name)
    if description is None and name in KNOWN:  # its type has one
        return kind, Field(default=default, validate_default=True)
    description = description or tr("As {plugin} takes it.", plugin=plugin.__name__)
    return kind, Field(default=default, description=description, validate_default=True)


def _is_plain(kind: Any, default: object) -> bool:  # noqa: ANN401 - whatever was annotated
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        # A recipe leaves out what is None.
        parts = [p for p in get_args(kind) if not (p is types.NoneType and default is None)]
        return all(_is_plain(part, default) for part in parts)
    if origin is Annotated:
        return _is_plain(get_args(kind)[0], default)
    return origin is Literal or kind in PLAIN


def _description(plugin: type[BasePruningMethod], name: str) -> str | None:
    """Return the line about a parameter under "Args:" in the plug-in's docstrings."""
    for documented in (plugin, plugin.__init__):
        about = re.search(
            rf"^\s*{re.escape(name)}\b[^:\n]*:[ \t]*(\S.*)$", documented.__doc__ or "", re.MULTILINE
        )
        if about:
            return about[1]
    return None
