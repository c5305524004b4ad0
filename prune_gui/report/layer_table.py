"""The tables of the layers in a report: columns, the rows on the page, and the CSV file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from prune_gui.comparison.mask_overlap import Overlap
from prune_gui.language import deferred, format_number, tr
from prune_gui.number_formats import percent, shape_text, sparsity, sparsity_share
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.report.records import FileRecord, Layer, Report
from prune_gui.statistics.file_zeros import ZeroPatterns
from prune_gui.table import Cell, Column, record_column, table_of

UNKNOWN: Final = "–"  # noqa: RUF001
MAX_LAYERS: Final = 500
"""Limit of the rows of a table: a row takes about 1 kB, and more if there are many files."""
MAX_CELLS: Final = 2000
"""Limit of the number of layers times files in a table of several files."""
Figure = TypeVar("Figure", bound=float | None)


@dataclass(frozen=True, slots=True)
class FileLayer:
    """One layer of one of the files, and its overlap with that of the first file, if compared."""

    file: FileRecord
    layer: Layer
    overlap: Overlap | None


LayerColumn = Column[Sequence[FileLayer]]


def rows_of(report: Report) -> list[FileLayer]:
    """Return the layers of all files, file by file."""
    first = report.files[0].label
    with_first: Mapping[str, Mapping[str, Overlap]] = {
        pair.right: {overlap.name: overlap for overlap in pair.layers}
        for pair in report.pairs
        if pair.left == first
    }
    return [
        FileLayer(file, layer, with_first.get(file.label, {}).get(layer.name))
        for file in report.files
        for layer in file.layers
    ]


def known_columns(rows: Sequence[FileLayer]) -> list[LayerColumn]:
    """Return the columns of the page in which something is known of any of the rows."""
    return [column for column in COLUMNS if not {*column.values(rows)} <= {None, ""}]


def most_remarkable(layers: Sequence[Layer], limit: int) -> list[int]:
    """Return the indices of the layers to show, in order: all, or those with most to tell."""
    if len(layers) <= limit:
        return list(range(len(layers)))
    ranks = sorted(
        range(len(layers)),
        key=lambda i: (bool(layers[i].warnings), layers[i].zeros, layers[i].total),
        reverse=True,
    )
    return sorted(ranks[:limit])


def side_by_side(report: Report) -> tuple[list[Mapping[str, FileLayer]], int]:
    """Return the layers of each name by the label of the file, and how many names are left out."""
    by_name: dict[str, dict[str, FileLayer]] = {}
    for row in rows_of(report):
        by_name.setdefault(row.layer.name, {})[row.file.label] = row
    every = list(by_name.values())
    most_zeros = [
        max((row.layer for row in rows.values()), key=lambda layer: layer.zeros) for rows in every
    ]
    shown = most_remarkable(most_zeros, min(MAX_LAYERS, MAX_CELLS // len(report.files)))
    return [every[i] for i in shown], len(every) - len(shown)


def layers_head(columns: Sequence[LayerColumn]) -> list[tuple[str, str]]:
    """Return the titles of the name and of columns of one file, with the CSS class of each."""
    kinds = {TYPE: "wide", ELEMENTS: "n wide"}  # left out on narrow pages
    return [
        (tr(column.title), kinds.get(column, "n" if column.is_number else ""))
        for column in (NAME, *columns)
    ]


def side_by_side_head(files: Sequence[FileRecord]) -> list[tuple[str, str]]:
    """Return the titles of the columns of several files, with the CSS class of each."""
    head = [(tr("Name"), ""), (tr("Shape"), "n")]
    sparsity_title = tr("Sparsity")
    head += [(f"{file.label}: {sparsity_title}", "n") for file in files]
    titles = [(file.label, tr(column.title)) for file in files[1:] for column in OVERLAP_COLUMNS]
    return head + [(f"{label}: {title}", "n") for label, title in titles]


def energy_text(share: float | None) -> str:
    """Return a kept share of energy as text."""
    if share is None:
        return UNKNOWN
    return percent(1.0) if share == 1 else tr("{percent:.2f} %", percent=100 * share)


def norm_text(norm: float | None) -> str:
    """Return a norm as text."""
    return UNKNOWN if norm is None else format_number(norm, ".4g")


def error_text(error: float | None) -> str:
    """Return the error of a layer as text; "" where there was no reconstruction."""
    return "" if error is None else sparsity_share(error)


def iou_text(overlap: Overlap | None) -> str:
    """Return the IoU of the zeros of two layers as text."""
    if overlap is None or overlap.kept == overlap.total:
        return UNKNOWN
    return format_number(overlap.iou, ".3f")


def _text_column(title: str, of: Callable[[FileLayer], str]) -> LayerColumn:
    return record_column(title, of, of, is_number=False)


def _layer_column(
    title: str, of: Callable[[Layer], Figure], text: Callable[[Figure], str]
) -> LayerColumn:
    """Return a column of a number of each layer, with its text on the page."""
    return record_column(title, lambda row: text(of(row.layer)), lambda row: of(row.layer))


def _csv_column(title: str, of: Callable[[Layer], Cell]) -> LayerColumn:
    return record_column(title, lambda _: "", lambda row: of(row.layer))


def _pattern_column(title: str, of: Callable[[ZeroPatterns], Cell]) -> LayerColumn:
    return _csv_column(title, lambda layer: of(layer.patterns) if layer.patterns else None)


NAME: Final = _text_column(deferred("Name"), lambda row: row.layer.name)
TYPE: Final = _text_column(deferred("Type"), lambda row: row.layer.dtype)
ELEMENTS: Final = _layer_column(deferred("Elements"), lambda layer: layer.total, format_number)
SPARSITY: Final[LayerColumn] = record_column(
    deferred("Sparsity"),
    lambda row: sparsity(row.layer.zeros, row.layer.total),
    lambda row: row.layer.sparsity,
)
COLUMNS: Final[tuple[LayerColumn, ...]] = (
    record_column(
        deferred("Shape"),
        lambda row: shape_text(row.layer.shape),
        lambda row: " x ".join(map(str, row.layer.shape)),
    ),
    TYPE,
    ELEMENTS,
    _layer_column(deferred("Zeros"), lambda layer: layer.zeros, format_number),
    SPARSITY,
    _text_column(
        deferred("Patterns"),
        lambda row: row.layer.patterns.describe() if row.layer.patterns else "",
    ),
    _layer_column(deferred("Kept energy"), lambda layer: layer.kept_energy, energy_text),
    _layer_column(deferred("Norm before"), lambda layer: layer.norm_before, norm_text),
    _layer_column(deferred("Norm after"), lambda layer: layer.norm, norm_text),
    _layer_column(deferred("Error"), lambda layer: layer.error, error_text),
)
"""The columns of a layer after its name."""
PATTERN_COLUMNS: Final[tuple[LayerColumn, ...]] = (
    _csv_column(deferred("Dead channels"), lambda layer: layer.dead_channels),
    _pattern_column("n:m", lambda found: found.n_m),
    _pattern_column(deferred("Dead rows"), lambda found: found.rows),
    _pattern_column(deferred("Dead columns"), lambda found: found.columns),
    _pattern_column(deferred("Dead heads"), lambda found: " ".join(found.heads)),
    _pattern_column(deferred("Block side"), lambda found: found.block),
    _pattern_column(deferred("Empty blocks"), lambda found: found.blocks),
)
"""What the column of patterns says, as numbers; only in the CSV file."""
WARNINGS: Final = _text_column(deferred("Warnings"), lambda row: tr("; ").join(row.layer.warnings))
LABEL: Final = _text_column(deferred("Label"), lambda row: row.file.label)
FILE: Final = _text_column(deferred("File"), lambda row: row.file.name)
OVERLAP_COLUMNS: Final[tuple[LayerColumn, ...]] = (
    record_column(
        deferred("IoU with A"),
        lambda row: iou_text(row.overlap),
        lambda row: row.overlap.iou if row.overlap else None,
    ),
    record_column(
        deferred("Revived since A"),
        lambda row: format_number(row.overlap.left) if row.overlap else UNKNOWN,
        lambda row: row.overlap.left if row.overlap else None,
    ),
)
"""The zeros of a layer beside those of the first file."""


def csv(report: Report) -> str:
    """Return the table of all layers of all files as CSV; see `Table.to_csv`."""
    codes = sorted({code for file in report.files for code in file.by_code} - {IN_FILE})
    columns = [NAME, *COLUMNS, *PATTERN_COLUMNS, *map(_step_column, codes), WARNINGS]
    if len(report.files) > 1:
        columns = [LABEL, FILE, *columns, *OVERLAP_COLUMNS]
    return table_of("", columns, rows_of(report)).to_csv()


def _step_column(code: int) -> LayerColumn:
    title = deferred("Zeros by step {number}", number=code)
    return _csv_column(title, lambda layer: layer.by_code.get(code, 0))
