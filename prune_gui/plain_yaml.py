"""Reading and writing YAML of plain values only, safely for untrusted text.

A recipe needs mappings, lists, strings, numbers, true, false and null. Everything else in YAML
(anchors and aliases, merges, tags, directives, dates, several documents) is rejected during
parsing, and so is a text that is too long or nested too deep. Nothing is built from rejected parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.reader import ReaderError
from yaml.resolver import Resolver

from prune_gui.errors import RecipeError
from prune_gui.language import tr

if TYPE_CHECKING:
    from yaml.error import Mark

MAX_BYTES: Final = 8 << 20
"""A recipe of a hundred thousand full names takes half of it."""
MAX_NODES: Final = 300_000
"""Limit on the values and keys in one text; parsing that many takes about a second."""
MAX_DEPTH: Final = 20
"""Limit on nested lists and mappings. A recipe has four levels."""
MAX_NUMBER_LENGTH: Final = 100
"""Limit on the characters of a number; a longer plain scalar is a string."""

DIRECTIVE: Final = re.compile("(?:^|[\n\r\x85\u2028\u2029\ufeff])%")
"""A line that YAML parses as a directive. libyaml needs quadratic time for many of them."""

# The C parser is about twenty times as fast; PyYAML has it wherever libyaml is installed.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_resolver: Final[Any] = Resolver()
_constructor = SafeConstructor()
_CONSTRUCTORS: Final = {
    f"tag:yaml.org,2002:{name}": getattr(SafeConstructor, f"construct_yaml_{name}")
    for name in ("null", "bool", "int", "float")
}


def load_yaml(text: str) -> object:
    """Return the value of a YAML text; None if the text is empty.

    Plain scalars have the types that `yaml.safe_load` gives them, except that dates and merge keys
    are strings.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise yaml.YAMLError(tr("it is larger than {limit:,} bytes", limit=MAX_BYTES))
    if DIRECTIVE.search(text):
        raise yaml.YAMLError(tr("it has directives, which begin with %"))
    document: list[Any] = []
    stack: list[list[Any] | dict[str, Any]] = [document]
    keys: list[str | None] = [None]  # parallel to `stack`: the key whose value comes next
    nodes = 0
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.NodeEvent):
                nodes += 1
                _check(event, nodes, len(stack), len(document))
                value = _value(event)
                parent, key = stack[-1], keys[-1]
                if isinstance(parent, list):
                    parent.append(value)
                elif key is None:
                    keys[-1] = _key(value, parent, event)
                else:
                    parent[key] = value
                    keys[-1] = None
                if isinstance(value, list | dict):
                    stack.append(value)
                    keys.append(None)
            elif isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                keys.pop()
    except UnicodeError as error:
        raise yaml.YAMLError(tr("it holds half of a surrogate pair")) from error
    except ReaderError as error:  # its message has several lines and depends on the parser
        code = f"U+{error.character:04X}"
        raise yaml.YAMLError(tr("it holds {code}, a character not allowed", code=code)) from error
    return document[0] if document else None


def dump_yaml(value: object, *, compact: bool = False) -> str:
    """Return plain values as YAML that `load_yaml` reads; a line for each record if `compact`."""
    options: dict[str, Any] = {"Dumper": DUMPER, "sort_keys": False, "width": 100}
    if compact:
        options["default_flow_style"] = None
    try:
        text: str = yaml.dump(value, allow_unicode=True, **options)
        if "\x85" in text:  # PyYAML writes this line break unescaped, and reads it as a space
            text = yaml.dump(value, allow_unicode=False, **options)
    except UnicodeError as error:
        raise RecipeError(
            "The recipe cannot be written: a name in it is not Unicode text. Rename the file."
        ) from error
    # A line has at most two nodes: a key and a value.
    if len(text.encode()) > MAX_BYTES or 2 * text.count("\n") > MAX_NODES:
        raise RecipeError(
            "The recipe is too long to be written. Use globs as targets, and fewer steps."
        )
    return text


def not_yaml(source: str, error: yaml.YAMLError, text: str) -> str:
    """Return a message for a text that `load_yaml` rejects."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        reason = getattr(error, "problem", error)
        return tr("{recipe}: not YAML: {reason}.", recipe=source, reason=reason)
    return tr(
        "{recipe}: not YAML in line {line}: {reason}.",
        recipe=source,
        line=min(mark.line, text.count("\n")) + 1,  # libyaml counts the end of the text as a line
        reason=error.problem,
    )


def _check(event: yaml.NodeEvent, nodes: int, depth: int, documents: int) -> None:
    """Raise an error for an event that is not allowed, before a value is built from it."""
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise _refused(tr("anchors and aliases (& and *) are not allowed"), event)
    if getattr(event, "tag", None) is not None:
        raise _refused(tr("tags (!) are not allowed"), event)
    if depth == 1 and documents:
        raise _refused(tr("a second document begins here"), event)
    if depth > MAX_DEPTH:
        raise _refused(tr("lists and mappings are nested too deeply"), event)
    if nodes > MAX_NODES:
        raise _refused(tr("there are more than {limit:,} values", limit=MAX_NODES), event)


def _value(event: yaml.NodeEvent) -> Any:  # noqa: ANN401 - any plain value
    """Return an empty list or mapping, or the value of a scalar."""
    if isinstance(event, yaml.SequenceStartEvent):
        return []
    if isinstance(event, yaml.MappingStartEvent):
        return {}
    assert isinstance(event, yaml.ScalarEvent)
    text: str = event.value
    if not event.implicit[0] or len(text) > MAX_NUMBER_LENGTH:
        return text
    tag = _resolver.resolve(yaml.ScalarNode, text, (True, False))
    if tag not in _CONSTRUCTORS:
        return text
    try:
        return _CONSTRUCTORS[tag](_constructor, yaml.ScalarNode(tag, text))
    except ValueError as error:
        raise _refused(tr("{text!r} is not a number", text=text), event) from error


def _key(value: object, mapping: dict[str, Any], event: yaml.NodeEvent) -> str:
    if not isinstance(value, str):
        raise _refused(tr("the name of a field is not text"), event)
    if value in mapping:
        raise _refused(tr("{field!r} appears twice", field=value), event)
    return value


def _refused(problem: str, event: yaml.NodeEvent) -> ConstructorError:
    return ConstructorError(None, None, problem, cast("Mark", event.start_mark))
