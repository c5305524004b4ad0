"""The columns of the table of all parameters, and texts about its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import one_line
from prune_gui.language import deferred, format_number, tr, trn
from prune_gui.number_formats import shape_text, sparsity
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.session.subjects import by
from prune_gui.statistics.file_zeros import FileZeros
from prune_gui.table import Column

if TYPE_CHECKING:
    from prune_gui.checkpoint import ModuleNode, TensorInfo
    from prune_gui.recipe import Resolution
    from prune_gui.statistics.layer_rows import Rows


UNKNOWN_TEXT: Final = "…"
UNDEFINED_TEXT: Final = "–"  # noqa: RUF001


def energy(rows: Rows, row: int) -> str:
    """Return the share of the energy that a row keeps, as text."""
    share = float(rows.kept_share[row])
    if np.isfinite(share):
        return tr("{percent:.2f} %", percent=100 * share)
    return UNKNOWN_TEXT if np.isnan(rows.energy[row]) else UNDEFINED_TEXT


def describe_row(rows: Rows, row: int, title: Callable[[int], str]) -> str:
    """Describe a row in one line; `title` returns the name of a code."""
    pruned, total = int(rows.pruned[row]), int(rows.total[row])
    parts = [_pruned_of(rows.names[row], shape(rows, row), pruned, total)]
    parts += [
        by(title(code), int(counts[row]), pruned)
        for code, counts in zip(rows.codes, rows.counts, strict=True)
        if counts[row] and code != IN_FILE
    ]
    if np.isfinite(rows.kept_share[row]):
        parts.append(tr("keeps {share} of the energy", share=energy(rows, row)))
    return tr("; ").join([*parts, *rows.warnings(row)])


def describe_node(node: ModuleNode, resolution: Resolution) -> str:
    """Describe how much of a parameter, or of the parameters of a module, is pruned."""
    names = [tensor.name for tensor in node.tensors]
    counted = [name for name in names if name in resolution.counted]
    counts = [resolution.counts[name] for name in counted or names]
    pruned, total = (sum(numbers) for numbers in zip(*counts, strict=True))
    what = _parameters(len(counts)) if node.below else shape_text(node.tensors[0].shape)
    return _pruned_of(node.path, what, pruned, total)


def shape(rows: Rows, row: int) -> str:
    """Return the shape of a row's only parameter, or its number of parameters, as text."""
    size = int(rows.size[row])
    return _parameters(size) if size > 1 else shape_text(rows.infos[row].shape)


def _pruned_of(name: str, what: str, pruned: int, total: int) -> str:
    share = sparsity(pruned, total)
    return tr(
        "{name} ({what}): {pruned:,} of {total:,} pruned ({share})",
        name=one_line(name),
        what=what,
        pruned=pruned,
        total=total,
        share=share,
    )


def _parameters(count: int) -> str:
    return trn("{count:,} parameter", "{count:,} parameters", count)


def _plain_shape(rows: Rows, row: int) -> str:
    return " x ".join(map(str, rows.infos[row].shape)) if rows.size[row] == 1 else ""


def _counts(of: Callable[[Rows], NDArray[np.int64]]) -> Callable[[Rows, int], str]:
    return lambda rows, row: format_number(int(of(rows)[row]))


def _where_known(values: NDArray[np.float64]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _severity(rows: Rows) -> NDArray[np.int64]:
    tied = np.array([bool(info.aliases) for info in rows.infos], np.bool_) & (rows.size == 1)
    non_finite, pruned_dead = rows.nan + rows.infinite > 0, rows.dead > rows.dead_in_file
    severity: NDArray[np.int64] = (
        16 * (rows.nearly_empty > 0) + 8 * non_finite + 4 * pruned_dead + 2 * (rows.dead > 0) + tied
    )
    return severity


def _warning_text(rows: Rows, row: int) -> str:
    return tr("; ").join(rows.warnings(row))


LAYER_COLUMNS: Final[tuple[Column[Rows], ...]] = (
    Column(
        title=deferred("Name"),
        tip=deferred("The parameter, or module"),
        values=lambda rows: rows.names,
        text=lambda rows, row: rows.names[row],
        is_number=False,
        width_px=280,
        file_title=deferred("name"),
        file_rank=0,
    ),
    Column(
        title=deferred("Sparsity"),
        tip=deferred("Share of weights that are pruned"),
        values=lambda rows: rows.share,
        text=lambda rows, row: sparsity(int(rows.pruned[row]), int(rows.total[row])),
        file_title=deferred("sparsity"),
        file_rank=5,
    ),
    Column(
        title=deferred("Kept energy"),
        tip=deferred("Sum of squares of the kept weights, relative to that of the reference"),
        values=lambda rows: rows.kept_share,
        text=energy,
        file_title=deferred("kept energy"),
        file_rank=6,
        file_values=lambda rows: _where_known(rows.kept_share),
    ),
    Column(
        title=deferred("Warnings"),
        tip=deferred(
            "Problems: nearly empty layers, dead channels (all their weights are zero), NaN, "
            "tied weights"
        ),
        values=_severity,
        text=_warning_text,
        is_number=False,
        width_px=220,
        file_title=deferred("warnings"),
        file_rank=15,
        file_values=lambda rows: [_warning_text(rows, row) for row in range(len(rows))],
    ),
    Column(
        title=deferred("Parameters"),
        tip=deferred("Number of weights"),
        values=lambda rows: rows.total,
        text=_counts(lambda rows: rows.total),
        file_title=deferred("weights"),
        file_rank=3,
    ),
    Column(
        title=deferred("Shape"),
        tip=deferred("Shape of a parameter, or number of parameters in a module"),
        values=lambda rows: rows.shapes,
        text=shape,
        is_number=False,
        file_title=deferred("shape"),
        file_rank=2,
        file_values=lambda rows: [_plain_shape(rows, row) for row in range(len(rows))],
    ),
    Column(
        title=deferred("Pruned"),
        tip=deferred("Pruned weights"),
        values=lambda rows: rows.pruned,
        text=_counts(lambda rows: rows.pruned),
        file_title=deferred("pruned"),
        file_rank=4,
    ),
    Column(values=lambda rows: rows.size, file_title=deferred("parameters"), file_rank=1),
    Column(
        values=lambda rows: _where_known(rows.energy),
        file_title=deferred("energy in the file"),
        file_rank=7,
    ),
    Column(
        values=lambda rows: _where_known(rows.kept),
        file_title=deferred("energy kept"),
        file_rank=8,
    ),
    Column(values=lambda rows: rows.nan, file_title=deferred("NaN"), file_rank=10),
    Column(values=lambda rows: rows.infinite, file_title=deferred("infinite"), file_rank=11),
    Column(values=lambda rows: rows.channels, file_title=deferred("channels"), file_rank=12),
    Column(values=lambda rows: rows.dead, file_title=deferred("dead channels"), file_rank=13),
    Column(
        values=lambda rows: rows.dead_in_file,
        file_title=deferred("dead channels in the file"),
        file_rank=14,
    ),
)
"""The columns from the left, then those that are only in files. A new one is one record here.

`columns_of` adds those of the steps, which have the rank 9 in files.
"""
STEP_FILE_RANK: Final = 9
WARNINGS: Final = 3
"""The column of the warnings. It is the last one that a table without scrolling shows."""


def columns_of(
    rows: Rows, draft: int | None, zeros: Sequence[Column[Rows]] = ()
) -> tuple[Column[Rows], ...]:
    """Return the columns for rows, with those of the zeros in the file after the warnings."""
    steps = (_step_column(i, code, is_draft=code == draft) for i, code in enumerate(rows.codes))
    return (*LAYER_COLUMNS[: WARNINGS + 1], *zeros, *LAYER_COLUMNS[WARNINGS + 1 :], *steps)


def _step_column(i: int, code: int, *, is_draft: bool) -> Column[Rows]:
    if code == IN_FILE:
        title, file_title = deferred("In the file"), deferred("pruned in the file")
    else:
        title = deferred("Draft") if is_draft else deferred("Step {number}", number=code)
        file_title = deferred("pruned by step {number}", number=code)
    return Column(
        title=title,
        tip=deferred("Weights pruned by it"),
        values=lambda rows: rows.counts[i],
        text=_counts(lambda rows: rows.counts[i]),
        file_title=file_title,
        file_rank=STEP_FILE_RANK,
    )


def zero_columns(
    file_zeros: FileZeros, rows: Rows, infos: Sequence[TensorInfo]
) -> tuple[Column[Rows], ...]:
    """Return the columns of the zeros in the file; none if there are no noticeable zeros."""
    if not file_zeros.noticeable():
        return ()
    from prune_gui.statistics.layer_rows import summed_by_row  # torch: slow to import

    counts = np.array([file_zeros.counts.get(info.name, 0) for info in infos], np.int64)
    zeros = summed_by_row(counts * rows.in_total, rows.grouping.places, len(rows))
    patterns = [
        file_zeros.describe(info.name) if size == 1 else ""
        for info, size in zip(rows.infos, rows.size.tolist(), strict=True)
    ]
    return (
        Column(
            title=deferred("Zero in the file"),
            tip=deferred("Share of weights that are zero in the file"),
            values=lambda rows: zeros / rows.total,
            text=lambda rows, row: sparsity(int(zeros[row]), int(rows.total[row])),
            width_px=104,
            file_title=deferred("zero in the file"),
            file_rank=5,
            file_values=lambda _: zeros,
        ),
        Column(
            title=deferred("Patterns"),
            tip=deferred("Patterns in the zeros of the file: n:m, dead channels, heads, blocks"),
            values=lambda _: patterns,
            text=lambda _, row: patterns[row],
            is_number=False,
            width_px=150,
            file_title=deferred("patterns"),
            file_rank=5,
        ),
    )
