"""The names in the source text of a torch.fx.GraphModule, which torch.load would execute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from prune_gui.checkpoint.torch.pickle_machine import FalseClaimError
from prune_gui.language import deferred

GRAPH_MAKERS: Final = frozenset(
    f"torch.fx.graph_module.reduce_{kind}graph_module" for kind in ("", "package_", "deploy_")
)
"""Functions that execute the source in their arguments and build a GraphModule."""
GRAPH_MODULE: Final = "torch.fx.graph_module.GraphModule"
CODE_KEYS: Final = ("_code", "code")
UNSAFE_WORDS: Final = frozenset(
    [
        *("breakpoint", "builtins", "compile", "ctypes", "delattr", "eval", "exec", "getattr"),
        *("globals", "importlib", "locals", "open", "setattr", "subprocess", "vars"),
    ]
)
"""Words that torch does not write in such a source."""
OWN_IMPORT: Final = "builtins", "getattr as getattr"
"""An import that torch writes for graphs that get attributes, and does not use."""
MODULE_BY_NUMBER: Final = re.compile(r'\bgetattr\([\w.]+, "\d\w*"\)')
"""What torch writes for a module that is not named by an identifier, such as "0"."""
MAX_MODULE_DEPTH: Final = 64
MAX_SOURCE_CHARS: Final = 1 << 23
IMPORT: Final = re.compile(r"(?:\bfrom\s+([\w.]+)\s+)?\bimport\b([^\n;]*)")
TORCH_NAME: Final = re.compile(r"\btorch(?:\.\w+)+")
ATTRIBUTE: Final = re.compile(r"\.\s*([^\W\d]\w*)")
WORD: Final = re.compile(r"[^\W\d]\w*")


def sources(arguments: tuple[object, ...]) -> Iterator[str]:
    """Yield the source texts in the arguments of a function in `GRAPH_MAKERS`.

    Args:
        arguments: a dictionary with the source of a function, and the text of import statements.

    Raises:
        FalseClaimError: a text is longer than `MAX_SOURCE_CHARS`.
    """
    texts: list[object] = list(arguments[:3])
    for argument in arguments[:3]:
        if isinstance(argument, dict):
            texts += [argument.get(key) for key in CODE_KEYS]
    for text in texts:
        if isinstance(text, str):
            if len(text) > MAX_SOURCE_CHARS:
                raise FalseClaimError(deferred("its pickle is too large"))
            yield text


def names_in_source(source: str) -> Iterator[str]:
    """Yield the dotted names of modules and functions that the source of a GraphModule uses.

    Words that may reach any code, such as "eval" and special names, are yielded as attributes of
    "builtins".
    """
    text = source.replace("\\\n", " ")
    for module, names in IMPORT.findall(text):
        for name in names.strip("() ").split(","):
            path = name.strip().partition(" ")[0]
            if (module, name.strip()) != OWN_IMPORT:
                yield f"{module}.{path}" if module else f"{path}.Module"
    code = IMPORT.sub("", text)
    for _ in range(MAX_MODULE_DEPTH):
        code, count = MODULE_BY_NUMBER.subn("self", code)
        if not count:
            break
    yield from TORCH_NAME.findall(code)
    yield from (f"object.{name}" for name in dict.fromkeys(ATTRIBUTE.findall(code)))
    for word in dict.fromkeys(WORD.findall(code)):
        if word in UNSAFE_WORDS or word.startswith("__"):
            yield f"builtins.{word}"
