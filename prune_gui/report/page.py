"""A report as one HTML page that needs no other file, no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prune_gui.byte_counts import short_bytes
from prune_gui.language import deferred, format_number, join_items, language, tr, trn
from prune_gui.number_formats import percent, sparsity
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.report import marks
from prune_gui.report.columns import energy_text, iou_text
from prune_gui.report.layer_tables import layers_table, share, side_by_side
from prune_gui.report.marks import NUMBER, TEXT, cell, heading, text
from prune_gui.report.model_card import model_card
from prune_gui.report.overview import MAX_TILES, overview
from prune_gui.report.records import FileRecord, Report, StepRecord
from prune_gui.resources import resource

MAX_WARNINGS: Final = 60
MAX_NOTES: Final = 8
MAX_RECIPE_LINES: Final = 400
MAX_LINE: Final = 2000
"""Limit of a line of a recipe or of a model card, in characters."""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""Keeps a browser from loading anything, whatever names of the file contain."""
NOTES: Final = (
    deferred(
        "Zeros are elements that are exactly +0 or -0, in all parameters that can be pruned "
        "(floating point)."
    ),
    deferred(
        "Kept energy is the sum of the squares of the remaining weights, relative to that of all "
        "weights before pruning. Norms are L2 norms of all finite weights."
    ),
    deferred(
        "IoU is the intersection of the zeros of two files over their union. Revived elements are "
        "zero in the first file and not in the second."
    ),
)


def html_page(report: Report) -> str:
    """Return the page in the current language; a few hundred kB whatever the number of layers."""
    several = len(report.files) > 1
    title = tr("Pruning report")
    names = join_items(
        tr("{name}, with the steps below", name=file.name) if file.is_stack else file.name
        for file in report.files
    )
    body = [f"<h1>{text(title)}</h1>", f'<p class="sub">{text(names)}</p>']
    body += _files_table(report.files) if several else _cards(report.files[0])
    if several:
        body += _pairs(report)
    for file in report.files:
        file_title = f"{file.label}: {file.name}" if several else ""
        body += _file_sections(file, file_title, MAX_TILES // len(report.files))
    body += side_by_side(report) if several else layers_table(report)
    for file in report.files:
        body += _model_card(file, f" – {file.label}" if several else "")  # noqa: RUF001
    body += _origins(report)
    content = "\n".join(body)
    css = resource("report", "report.css").read_text("utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="{language().replace("_", "-")}"><head>'
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(f'{title}: {names}')}</title>\n<style>\n{marks.style()}\n{css}</style>"
        f"</head>\n<body>\n{content}\n{_footer(report)}</body></html>\n"
    )


def _cards(file: FileRecord) -> Iterator[str]:
    nonzero = file.total - file.zeros
    zeros = tr("{zeros:,} of {total:,} are zero", zeros=file.zeros, total=file.total)
    cards = [
        (sparsity(file.zeros, file.total), tr("Sparsity"), zeros),
        (
            format_number(nonzero),
            tr("Nonzero parameters"),
            trn("{count:,} prunable tensor", "{count:,} prunable tensors", len(file.layers)),
        ),
        (
            short_bytes(file.nbytes),
            tr("Size of all tensors"),
            trn("{count:,} tensor", "{count:,} tensors", file.tensors),
        ),
    ]
    if file.kept_energy is not None:
        cards.insert(1, (energy_text(file.kept_energy), tr("Kept energy"), _compared(file)))
    shown = (
        f'<div class="card"><span>{text(label)}</span><b>{text(value)}</b>'
        f"<small>{text(detail)}</small></div>"
        for value, label, detail in cards
    )
    yield f'<div class="cards">{"".join(shown)}</div>'


def _compared(file: FileRecord) -> str:
    """Return what the kept energy refers to."""
    name = file.reference or file.name
    known = sum(layer.energy_before is not None for layer in file.layers)
    if known == len(file.layers):
        return tr("Compared with {name}", name=name)
    return tr(
        "{count:,} of {total:,} layers, compared with {name}",
        count=known,
        total=len(file.layers),
        name=name,
    )


def _files_table(files: Sequence[FileRecord]) -> Iterator[str]:
    rows = (
        "<tr>"
        + cell(text(file.label), "label")
        + cell(text(file.name), "name")
        + cell(format_number(file.total), NUMBER)
        + cell(format_number(file.zeros), NUMBER)
        + cell(share(file.zeros, file.total, file.by_code), NUMBER)
        + cell(text(energy_text(file.kept_energy)), NUMBER)
        + cell(text(short_bytes(file.nbytes)), NUMBER)
        + "</tr>"
        for file in files
    )
    head = [("", TEXT), (tr("File"), TEXT)]
    numbers = (tr("Elements"), tr("Zeros"), tr("Sparsity"), tr("Kept energy"), tr("Size"))
    head += [(title, NUMBER) for title in numbers]
    yield marks.table(head, rows)


def _pairs(report: Report) -> Iterator[str]:
    yield heading(tr("Zeros side by side"))
    rows = []
    for pair in report.pairs:
        total = pair.total
        numbers = (total.both, total.left, total.right)
        iou = text(iou_text(total))
        rows.append(
            "<tr>"
            + cell(text(f"{pair.left} → {pair.right}"), "label")
            + cell(iou, NUMBER)
            + "".join(cell(format_number(number), NUMBER) for number in numbers)
            + cell(format_number(len(pair.layers)), NUMBER)
            + cell(format_number(pair.omitted), NUMBER)
            + "</tr>"
        )
    titles = (
        tr("IoU"),
        tr("Zero in both"),
        tr("Revived"),
        tr("Newly zero"),
        tr("Layers compared"),
        tr("Not compared"),
    )
    yield marks.table([("", TEXT), *((title, NUMBER) for title in titles)], rows)


def _file_sections(file: FileRecord, title: str, max_tiles: int) -> Iterator[str]:
    if title:
        yield heading(title)
    tag = "h3" if title else "h2"
    yield from _warnings(file, tag)
    if file.recorded:
        yield heading(tr("Steps recorded in the file"), tag)
        yield _steps_table(file.recorded)
    if file.steps:
        title = tr("Steps recorded in the file") if file.retraced else tr("Steps")
        yield heading(title, tag)
        if file.retraced:
            retraced = tr(RETRACED, name=file.reference)
            yield f"<p>{text(retraced)}</p>"
        yield _steps_table(file.steps)
    if file.recipe:
        lines = file.recipe.splitlines()
        shown = "\n".join(text(line, MAX_LINE) for line in lines[:MAX_RECIPE_LINES])
        summary = text(tr("Recipe"))
        yield f"<details><summary>{summary}</summary><pre>{shown}</pre></details>"
    picture = overview(file.layers, max_tiles)
    if picture:
        yield heading(tr("Sparsity of each matrix"), tag)
        yield _legend(file)
        yield picture


RETRACED: Final = deferred(
    "The recorded steps were repeated on {name}: every element that they prune is zero in this "
    "file."
)


def _legend(file: FileRecord) -> str:
    keys = [
        (marks.code_class(step.number), f"{step.number} {step.method}")
        for step in file.steps
        if file.by_code.get(step.number)
    ]
    if file.by_code.get(IN_FILE):
        keys.append((marks.code_class(IN_FILE), tr("zero in the file")))
    shades = "".join(
        f'<span><i class="key d{shade}"></i>{text(label)}</span>'
        for shade, label in ((marks.shade_of(each), percent(each)) for each in (0.0, 0.5, 1.0))
    )
    shown = "".join(f'<span><i class="key {kind}"></i>{text(label)}</span>' for kind, label in keys)
    return f'<p class="legend">{shades}{shown}</p>'


def _steps_table(steps: Sequence[StepRecord]) -> str:
    known = any(step.pruned is not None for step in steps)
    rows = []
    for step in steps:
        key = f'<i class="key {marks.code_class(step.number)}"></i>' if known else ""
        remarks = list(step.notes[:MAX_NOTES])
        if len(step.notes) > MAX_NOTES:
            remarks.append(tr("and {more:,} more", more=len(step.notes) - MAX_NOTES))
        notes = "".join(f'<div class="faint">{text(note)}</div>' for note in remarks)
        state = "" if step.enabled else text(tr("switched off"))
        cells = [
            cell(f"{key}{step.number}", "label"),
            cell(f'{text(step.method)} <span class="faint">{state}</span>'),
            cell(text(step.settings)),
            cell(f"<code>{text(step.targets)}</code>{notes}"),
        ]
        if known and step.pruned is not None and step.total is not None:
            cells.append(cell(format_number(step.pruned), NUMBER))
            cells.append(cell(text(sparsity(step.pruned, step.total)), NUMBER))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = [("", TEXT), (tr("Method"), TEXT), (tr("Settings"), TEXT), (tr("Targets"), TEXT)]
    if known:
        head += [(tr("Pruned"), NUMBER), (tr("Share"), NUMBER)]
    return marks.table(head, rows)


def _warnings(file: FileRecord, tag: str) -> Iterator[str]:
    """Yield the warnings about the file and its layers; those of equal text in one line."""
    by_text: dict[str, list[str]] = {}
    for layer in file.layers:
        for warning in layer.warnings:
            by_text.setdefault(warning, []).append(layer.name)
    lines = [text(warning) for warning in file.warnings]
    for warning, names in by_text.items():
        name = text(names[0])
        more = len(names) - 1
        others = text(trn(" and {count:,} more", " and {count:,} more", more)) if more else ""
        layers = f"<code>{name}</code>{others}"
        lines.append(tr("{name}: {note}", name=layers, note=text(warning)))
    if not lines:
        return
    yield heading(tr("Warnings"), tag)
    omitted = len(lines) - MAX_WARNINGS
    if omitted > 0:
        lines = [*lines[:MAX_WARNINGS], text(tr("and {more:,} more", more=omitted))]
    yield f'<ul class="warnings">{"".join(f"<li>{line}</li>" for line in lines)}</ul>'


def _model_card(file: FileRecord, suffix: str) -> Iterator[str]:
    yield heading(tr("Section for a model card") + suffix)
    lines = "\n".join(text(line, MAX_LINE) for line in model_card(file).split("\n"))
    yield f"<pre>{lines}</pre>"


def _origins(report: Report) -> Iterator[str]:
    yield heading(tr("Files and versions"))
    for file in report.files:
        if len(report.files) > 1:
            yield heading(f"{file.label}: {file.name}", "h3")
        yield _facts(_about(file))
    yield _facts((name, version) for name, version in report.versions.items())


def _about(file: FileRecord) -> Iterator[tuple[str, str]]:
    yield tr("File"), file.name
    yield tr("Folder"), file.folder
    yield tr("Model"), file.description
    shards = trn("{count:,} file", "{count:,} files", file.files)
    yield tr("Format"), f"{file.format}, {shards}"
    yield "SHA-256", file.fingerprint.removeprefix("sha256:")
    if file.made_by:
        yield tr("Written by"), f"Prune GUI {file.made_by} ({file.form})"
        yield tr("SHA-256 of its input"), file.input.removeprefix("sha256:")
    yield tr("Compared with"), file.reference


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = (
        f"<tr>{cell(text(label))}{cell(f'<code>{text(value)}</code>')}</tr>"
        for label, value in facts
        if value
    )
    return f'<table class="facts"><tbody>{"".join(rows)}</tbody></table>'


def _footer(report: Report) -> str:
    notes = map(tr, NOTES if len(report.files) > 1 else NOTES[:-1])
    lines = "".join(f"<p>{text(note)}</p>" for note in notes)
    created = tr("Written by Prune GUI on {date} UTC.", date=report.created)
    return f"<footer>{lines}<p>{text(created)}</p></footer>"
