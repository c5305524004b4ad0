"""The tables of the layers on the page of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prune_gui.language import format_number, tr, trn
from prune_gui.number_formats import SHAPE_SEPARATOR, sparsity
from prune_gui.report import marks
from prune_gui.report.columns import (
    COLUMNS,
    ELEMENTS,
    NAME,
    OVERLAP_COLUMNS,
    SPARSITY,
    TYPE,
    Row,
    rows_of,
)
from prune_gui.report.marks import NUMBER, TEXT, WIDE, cell, heading, text
from prune_gui.report.records import FileRecord, Layer, Report

MAX_LAYERS: Final = 500
"""Limit of the rows of a table: a row takes about 1 kB, and more if there are many files."""
MAX_CELLS: Final = 2000
"""Limit of the number of layers times files in a table of several files."""


def _most_remarkable(layers: Sequence[Layer], limit: int) -> list[int]:
    """Return the indices of the layers to show, in order: all, or those with most to tell."""
    if len(layers) <= limit:
        return list(range(len(layers)))
    ranks = sorted(
        range(len(layers)),
        key=lambda i: (bool(layers[i].warnings), layers[i].zeros, layers[i].total),
        reverse=True,
    )
    return sorted(ranks[:limit])


def _omitted_row(omitted: int, columns: int) -> list[str]:
    if omitted <= 0:
        return []
    note = trn(
        "{count:,} more layer is left out: the shown ones have warnings or the most zeros. The "
        "CSV file has all.",
        "{count:,} more layers are left out: the shown ones have warnings or the most zeros. The "
        "CSV file has all.",
        omitted,
    )
    return [f'<tr class="more"><td colspan="{columns}">{text(note)}</td></tr>']


def layers_table(report: Report) -> Iterator[str]:
    """Yield the table of the layers of the only file of a report."""
    file, rows = report.files[0], rows_of(report)
    yield heading(tr("Layers"))
    columns = [column for column in COLUMNS if any(map(_is_known, column.values(rows)))]
    kinds = [
        (NUMBER if column.is_number else TEXT) + (WIDE if column in (TYPE, ELEMENTS) else "")
        for column in columns
    ]
    shown = _most_remarkable(file.layers, MAX_LAYERS)
    lines = []
    for i in shown:
        layer = file.layers[i]
        cells = [cell(marks.breakable(layer.name), "name")]
        for column, kind in zip(columns, kinds, strict=True):
            mark = marks.bar(layer.by_code, layer.total) if column is SPARSITY else ""
            cells.append(cell(f"{text(column.text(rows, i))}{mark}", kind))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines += _omitted_row(len(file.layers) - len(shown), len(columns) + 1)
    titles = [tr(column.title) for column in (NAME, *columns)]
    yield marks.table(zip(titles, (TEXT, *kinds), strict=True), lines)


def _is_known(value: object) -> bool:
    return value is not None and value != ""


def side_by_side(report: Report) -> Iterator[str]:
    """Yield the layers of all files, one row per name."""
    yield heading(tr("Layers"))
    by_name: dict[str, dict[str, Row]] = {}
    for row in rows_of(report):
        by_name.setdefault(row.layer.name, {})[row.file.label] = row
    names = list(by_name)
    most_zeros = [
        max((row.layer for row in by_name[name].values()), key=lambda layer: layer.zeros)
        for name in names
    ]
    shown = _most_remarkable(most_zeros, min(MAX_LAYERS, MAX_CELLS // len(report.files)))
    others = [file.label for file in report.files[1:]]
    lines = [_names_row(names[i], by_name[names[i]], report.files) for i in shown]
    head = [(tr("Name"), TEXT), (tr("Shape"), NUMBER)]
    title = tr("Sparsity")
    head += [(f"{file.label}: {title}", NUMBER) for file in report.files]
    overlap_titles = [tr(column.title) for column in OVERLAP_COLUMNS]
    head += [(f"{label}: {title}", NUMBER) for label in others for title in overlap_titles]
    lines += _omitted_row(len(names) - len(shown), len(head))
    yield marks.table(head, lines)


def _names_row(name: str, rows: Mapping[str, Row], files: Sequence[FileRecord]) -> str:
    shapes = dict.fromkeys(row.layer.shape for row in rows.values())
    shape = "; ".join(f" {SHAPE_SEPARATOR} ".join(map(format_number, each)) for each in shapes)
    cells = [cell(marks.breakable(name), "name"), cell(text(shape), NUMBER)]
    for file in files:
        row = rows.get(file.label)
        cells.append(
            cell(share(row.layer.zeros, row.layer.total, row.layer.by_code) if row else "", NUMBER)
        )
    for file in files[1:]:
        row = rows.get(file.label)
        texts = [column.text([row], 0) if row else "" for column in OVERLAP_COLUMNS]
        cells += [cell(text(each), NUMBER) for each in texts]
    return f"<tr>{''.join(cells)}</tr>"


def share(zeros: int, total: int, by_code: Mapping[int, int]) -> str:
    """Return a sparsity as text and as a bar."""
    return f"{text(sparsity(zeros, total))}{marks.bar(by_code, total)}"
