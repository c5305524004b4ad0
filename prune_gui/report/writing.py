"""The documents of a report from templates: an HTML page with a section for a model card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint.write.documents import (
    PAGE_SUFFIXES,
    TABLE_SUFFIXES,
    check_documents,
    document_path,
    write_documents,
)
from prune_gui.errors import MAX_MESSAGE_CHARS, one_line
from prune_gui.language import format_number, join_items, language, tr, trn
from prune_gui.number_formats import percent, shape_text, short_bytes, sparsity
from prune_gui.raster import colours
from prune_gui.report import layer_table, pictures
from prune_gui.report.records import FileRecord, Report
from prune_gui.resources import resource

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_TEXT: Final = 300
"""Limit of a text on the page, in characters."""


def html_page(report: Report) -> str:
    """Return the page in the current language; a few hundred kB whatever the number of layers."""
    names = join_items(
        tr("{name}, with the steps below", name=file.name) if file.is_stack else file.name
        for file in report.files
    )
    page = _templates(of_page=True).get_template("page.html")
    return page.render(report=report, names=names, language=language().replace("_", "-"))


def model_card(file: FileRecord) -> str:
    """Return a section "Pruning" of a model card, in Markdown."""
    found = [layer.patterns.n_m for layer in file.layers if layer.patterns]
    card = _templates(of_page=False).get_template("model_card.md")
    text = card.render(
        file=file,
        steps=file.steps or file.recorded,
        patterns=Counter(filter(None, found)),
        dead=sum(layer.dead_channels > 0 for layer in file.layers),
    )
    return text.rstrip()


def check_targets(page: Path, table: Path | None, *, overwrite: bool) -> tuple[Path, Path | None]:
    """Return the paths of a report with their suffixes, which can be written; see `write`."""
    page = document_path(page, PAGE_SUFFIXES)
    table = table and document_path(table, TABLE_SUFFIXES)
    check_documents([page] if table is None else [table, page], overwrite=overwrite)
    return page, table


def write(report: Report, page: Path, table: Path | None, *, overwrite: bool) -> None:
    """Write a report atomically: an error leaves both files as they were."""
    contents = {page: html_page(report).encode()}
    if table is not None:
        contents = {table: layer_table.csv(report).encode(), **contents}
    write_documents(contents, overwrite=overwrite)


@cache
def _templates(*, of_page: bool) -> Environment:
    """Return the templates of the page, or of plain text; every text that they fill in is one line.

    Texts on the page are also escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # not needed by the window
    from markupsafe import Markup, escape

    limit = MAX_TEXT if of_page else MAX_MESSAGE_CHARS

    def in_one_line(value: object) -> object:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return one_line(str(value), limit) if is_text else value

    templates = Environment(
        loader=FileSystemLoader(resource("report")),
        autoescape=of_page,
        finalize=in_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )

    def line(text: str, limit: int = MAX_TEXT) -> Markup:
        """Return a text for HTML: in one line, and escaped."""
        return escape(one_line(text, limit))

    templates.filters |= {
        "breakable": lambda name: Markup(".<wbr>").join(line(name).split(".")),
        "code": lambda text: one_line(text, MAX_TEXT).replace("`", "'"),
        "count": "{:,}".format,
        "line": line,
        "number": format_number,
        "shape": shape_text,
    }
    templates.globals |= {"tr": tr, "trn": trn, "percent": percent, "sparsity": sparsity}
    templates.globals |= {"colours": colours, "layer_table": layer_table, "pictures": pictures}
    templates.globals |= {"model_card": model_card, "warnings_of": _warnings_of}
    templates.globals["short_bytes"] = short_bytes
    return templates


def _warnings_of(file: FileRecord) -> list[tuple[Sequence[str], str]]:
    """Return the warnings about the file and its layers, those of equal text with all names."""
    by_text: dict[str, list[str]] = {}
    for layer in file.layers:
        for warning in layer.warnings:
            by_text.setdefault(warning, []).append(layer.name)
    return [((), text) for text in file.warnings] + [
        (names, text) for text, names in by_text.items()
    ]
