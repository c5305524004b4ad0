"""What pydantic inspects: it asks functions for their parameters, but not all C code answers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType

import pytest
from pydantic import BaseModel

import prune_gui

SOURCES = Path(prune_gui.__file__).parent
MODULES = sorted(
    ".".join(["prune_gui", *path.relative_to(SOURCES).with_suffix("").parts])
    for path in SOURCES.rglob("*.py")
    if "from pydantic import" in (text := path.read_text()) and "PySide6" not in text
)


def functions_in(schema: object, name: str = "") -> Iterator[object]:
    """Yield the functions that the schema of a model calls, and its default factories."""
    if name == "metadata":
        return
    if isinstance(schema, dict):
        for key, inner in schema.items():
            yield from functions_in(inner, key)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from functions_in(inner)
    elif name in ("function", "default_factory", "discriminator") and callable(schema):
        yield schema


@pytest.mark.parametrize("module", MODULES)
def test_what_a_model_calls_is_written_in_python(module):
    for value in vars(importlib.import_module(module)).values():
        if isinstance(value, type) and issubclass(value, BaseModel):
            for function in functions_in(value.__pydantic_core_schema__):
                inner = function.func if isinstance(function, partial) else function
                assert isinstance(inner, FunctionType | MethodType), (value, function)
