"""What MkDocs runs while it builds the site: pages that are generated.

The reference of the methods comes from their schemas, that of the command line from its help texts.
Neither is in the repository, so that neither can be out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import click
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

    from prune_gui.pruning.methods import Method

ROOT: Final = Path(__file__).parents[2]
METHODS_INTRO: Final = """\
# Recipes and methods

A recipe is a YAML file with these keys. [Recipe, resolution, predicates](../concepts/recipes.md)
explains targets, amounts, scopes and dimensions.
"""
STEP_INTRO: Final = """
A step is a mapping with these keys and the fields of its method:
"""
OVERVIEW_INTRO: Final = """
`prune-gui methods` lists the methods in the terminal, with your own methods too: see
[Write a method](../how-to/write-a-method.md). Formulas and sources are in
[Scores](../concepts/scores.md). Infinity ranks above every finite score, and NaN above infinity:
they are pruned last.

| method | what it does |
| --- | --- |
"""
COMMANDS_INTRO: Final = """\
# Command line

`prune-gui` has these commands; `prune-gui COMMAND --help` prints the same. See
[Use the command line and Python](../how-to/command-line-and-python.md) for examples.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | a problem with the input or the system; one line on standard error describes it |
| 2 | wrong usage |
| 130 | Ctrl-C; also 143 after `kill`, and 129 if the terminal was closed |

With `--json`, standard output has one JSON object and nothing else. Progress goes to standard
error.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for path, text in (
        ("reference/methods.md", methods_page()),
        ("reference/command-line.md", command_line_page()),
    ):
        files.append(File.generated(config, path, content=text))
    return files


def methods_page() -> str:
    """Return the reference of the keys of recipes and of the built-in methods."""
    from prune_gui.pruning.methods import METHODS, Method
    from prune_gui.pruning.methods.base import summary_of
    from prune_gui.pruning.methods.fields import GROUPS
    from prune_gui.recipe import Recipe, Step

    built_in = [method for method in METHODS.values() if method.source == Method.source]
    overview = [
        f"| [`{method.name}`](#{method.name}) | {_cell(_plain(summary_of(method)))} |"
        for method in built_in
    ]
    parts = [METHODS_INTRO, *_key_rows(Recipe), STEP_INTRO, *_key_rows(Step)]
    parts += [OVERVIEW_INTRO + "\n".join(overview), ""]
    for group, title in GROUPS.items():
        methods = [method for method in built_in if method.method_group == group]
        if methods:
            parts.append(f"## {title}\n")
            parts.extend(_method_section(method) for method in methods)
    return "\n".join(parts)


def _key_rows(of: type) -> list[str]:
    """Return a table of the fields that the docstring of a class describes."""
    text = inspect.cleandoc(of.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): ((?:.+\n?)(?:        .+\n?)*)", text, re.MULTILINE)
    rows = [f"| `{name}` | {_cell(_plain(_in_file(meaning)))} |" for name, meaning in found]
    return ["| key | meaning |", "| --- | --- |", *rows]


def _in_file(text: str) -> str:
    """Return a text on a field in one line, with the values that recipe files have."""
    return " ".join(text.split()).replace("None for", "by default")


def _method_section(method: type[Method]) -> str:
    from prune_gui.pruning.methods.base import summary_of

    doc = inspect.getdoc(method) or ""
    summary = summary_of(method)
    details = doc.partition("\n\n")[2]
    schema = method.model_json_schema()
    lines = [
        f"### {method.title} {{ #{method.name} }}",
        "",
        f"`method: {method.name}`",
        "",
        _plain(summary),
        "",
        *([_plain(details), ""] if details else []),
    ]
    properties = schema.get("properties", {})
    if not properties:
        return "\n".join([*lines, "It has no fields.", ""])
    lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    required = schema.get("required", ())
    for name, field in properties.items():
        default = "required" if name in required else f"`{_value(field.get('default'))}`"
        cells = (f"`{name}`", _type_text(field, schema), default, field.get("description", ""))
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join([*lines, ""])


def _type_text(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return the type of a field of a JSON schema in words."""
    if field.get("format") == "path":
        return "path of a file"
    if "$ref" in field:
        return _type_text(schema["$defs"][field["$ref"].rpartition("/")[2]], schema)
    if "enum" in field:
        return ", ".join(f"`{_value(value)}`" for value in field["enum"])
    if "const" in field:
        return f"`{_value(field['const'])}`"
    for key in ("anyOf", "oneOf"):
        if key in field:
            texts = [_type_text(each, schema) for each in field[key] if each != {"type": "null"}]
            return " or ".join(dict.fromkeys(texts))
    kind = field.get("type")
    if kind == "array":
        items = field.get("items")
        return f"list of {_type_text(items, schema)}" if isinstance(items, Mapping) else "list"
    if kind == "object":
        return "mapping"
    names = {"integer": "integer", "number": "number", "boolean": "`true` or `false`"}
    limits = [
        f"{sign} {field[key]:g}"
        for key, sign in (
            *(("minimum", "at least"), ("exclusiveMinimum", "more than")),
            *(("maximum", "at most"), ("exclusiveMaximum", "less than")),
        )
        if key in field
    ]
    return ", ".join([names.get(str(kind), "text"), *limits])


def _value(value: object) -> str:
    """Return a value as recipe files have it."""
    return {"None": "null", "True": "true", "False": "false"}.get(f"{value}", f"{value}")


def _plain(text: str) -> str:
    """Return text of a docstring as Markdown, in which only backticks have a meaning."""
    parts = re.split(r"(`[^`]+`)", text.replace("``", "`"))
    return "".join(
        part if part.startswith("`") else re.sub(r"[*_<>|]", _entity, part) for part in parts
    )


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def command_line_page() -> str:
    """Return the reference of the command line, from the help texts of click."""
    import click

    from prune_gui.cli.program import cli

    context = click.Context(cli, info_name="prune-gui")
    parts = [COMMANDS_INTRO, "## prune-gui\n", _help_text(cli, context)]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command and not command.hidden:
            parts.append(f"## {name}\n")
            parts.append(_help_text(command, click.Context(command, context, info_name=name)))
    return "\n".join(parts)


def _help_text(command: click.Command, context: click.Context) -> str:
    """Return the section of a command: its usage, its text, and a table of its options."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines = ["```text", usage, "```", "", _plain(text), ""]
    rows = list(_option_rows(command.get_params(context), context))
    if rows:
        lines += ["| option | meaning |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def _option_rows(params: Sequence[click.Parameter], context: click.Context) -> Iterator[str]:
    for param in params:
        record = param.get_help_record(context)
        if record is not None and record[1]:  # the usage shows arguments without a text
            names, meaning = record
            # Not backticks: within them, a table cannot have the | of "[a|b]".
            yield f"| <code>{_plain(names)}</code> | {_cell(_plain(meaning))} |"
