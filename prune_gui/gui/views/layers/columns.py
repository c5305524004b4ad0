"""The columns of the table of all parameters, and texts about its rows. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import one_line
from prune_gui.gui.formatting import SHAPE_SEPARATOR, sparsity
from prune_gui.gui.views.subject import by
from prune_gui.language import deferred, format_number, join_items, percent, tr, trn
from prune_gui.recipe.pruned_by_codes import IN_FILE

if TYPE_CHECKING:
    from prune_gui.audit.statistics.layer_rows import Rows
    from prune_gui.audit.table import Table
    from prune_gui.checkpoint import ModuleNode, TensorInfo
    from prune_gui.recipe import Resolution

UNKNOWN_TEXT: Final = "…"
UNDEFINED_TEXT: Final = "–"  # noqa: RUF001
NAME, SPARSITY, ENERGY, PARAMETERS, WARNINGS = range(5)
"""Indices of the columns that always exist; those of the steps follow later."""


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """One column.

    Attributes:
        title: heading.
        tip: tool tip of the heading.
        values: sort key of each row.
        text: returns the text of a row.
        is_number: whether the texts are numbers.
    """

    title: str
    tip: str
    values: Sequence[Any] | NDArray[Any]
    text: Callable[[int], str]
    is_number: bool = True


def columns_of(rows: Rows, draft: int | None) -> tuple[Column, ...]:
    """Return the columns of a table of rows; `draft` is the draft's step number, or None."""
    pruned, share, kept = rows.pruned, rows.share, rows.kept_share
    return (
        Column(
            tr("Name"),
            tr("The parameter, or module"),
            rows.names,
            rows.names.__getitem__,
            is_number=False,
        ),
        Column(
            tr("Sparsity"),
            tr("Share of the entries that is pruned"),
            share,
            lambda row: sparsity(int(pruned[row]), int(rows.total[row])),
        ),
        Column(
            tr("Kept energy"),
            tr("Sum of the squares of the weights that are kept, of that of all"),
            kept,
            lambda row: energy(rows, row, float(kept[row])),
        ),
        _counts(tr("Parameters"), tr("Entries"), rows.total),
        Column(
            tr("Warnings"),
            tr(
                "What a person should look at: nearly empty layers, dead channels, NaN, "
                "tied weights"
            ),
            _severity(rows),
            lambda row: tr("; ").join(warnings(rows, row)),
            is_number=False,
        ),
        Column(
            tr("Shape"),
            tr("Of a parameter; of a module, how many parameters it has"),
            rows.shapes,
            lambda row: shape(rows, row),
            is_number=False,
        ),
        _counts(tr("Pruned"), tr("Pruned entries"), pruned),
        *(
            _counts(_heading(code, draft), tr("Entries that it pruned"), counts)
            for code, counts in zip(rows.codes, rows.counts, strict=True)
        ),
    )


def energy(rows: Rows, row: int, share: float) -> str:
    """Return the share of the energy that a row keeps, as text."""
    if np.isfinite(share):
        return percent(1.0) if share == 1 else tr("{percent:.2f} %", percent=100 * share)
    return UNKNOWN_TEXT if np.isnan(rows.energy[row]) else UNDEFINED_TEXT


def warnings(rows: Rows, row: int) -> list[str]:
    """Return the warnings of a row."""
    kept = int(rows.total[row] - rows.pruned[row])
    return [
        text for text in (_nearly_empty(rows, row, kept), *_content_warnings(rows, row)) if text
    ]


def describe_row(rows: Rows, row: int, title: Callable[[int], str]) -> str:
    """Describe a row in one line; `title` returns the name of a code."""
    pruned, total = int(rows.pruned[row]), int(rows.total[row])
    parts = [
        _pruned_of(rows.names[row], shape(rows, row), pruned, total),
        *(
            by(title(code), int(counts[row]), pruned)
            for code, counts in zip(rows.codes, rows.counts, strict=True)
            if counts[row] and code != IN_FILE
        ),
    ]
    if np.isfinite(share := float(rows.kept_share[row])):
        parts.append(tr("keeps {share} of the energy", share=energy(rows, row, share)))
    return tr("; ").join([*parts, *warnings(rows, row)])


def describe_node(node: ModuleNode, resolution: Resolution) -> str:
    """Describe how much of a parameter, or of the parameters of a module, is pruned."""
    counts = [resolution.counts[tensor.name] for tensor in node.tensors]
    pruned, total = (sum(numbers) for numbers in zip(*counts, strict=True))
    what = _parameters(len(counts)) if node.below else _shape_text(node.tensors[0])
    return _pruned_of(node.path, what, pruned, total)


def shape(rows: Rows, row: int) -> str:
    """Return the shape of a row's only parameter, or its number of parameters, as text."""
    if rows.size[row] > 1:
        return _parameters(int(rows.size[row]))
    return _shape_text(rows.infos[row])


def table_of(rows: Rows, order: NDArray[np.intp], title: str) -> Table:
    """Return all data of the rows in a given order, for export."""
    from prune_gui.audit.table import Table

    energies = [(rows.energy, tr("energy in the file")), (rows.kept, tr("energy kept"))]
    return Table(
        title,
        {
            tr("name"): [rows.names[row] for row in order],
            tr("parameters"): rows.size[order],
            tr("shape"): [_plain_shape(rows, int(row)) for row in order],
            tr("entries"): rows.total[order],
            tr("pruned"): rows.pruned[order],
            tr("sparsity"): rows.share[order],
            tr("kept energy"): _none_for_nan(rows.kept_share[order]),
            **{name: _none_for_nan(values[order]) for values, name in energies},
            **{
                tr("pruned in the file")
                if code == IN_FILE
                else tr("pruned by step {number}", number=code): counts[order]
                for code, counts in zip(rows.codes, rows.counts, strict=True)
            },
            tr("NaN"): rows.nan[order],
            tr("infinite"): rows.infinite[order],
            tr("channels"): rows.channels[order],
            tr("dead channels"): rows.dead[order],
            tr("dead channels in the file"): rows.dead_in_file[order],
            tr("warnings"): [tr("; ").join(warnings(rows, int(row))) for row in order],
        },
    )


def in_order(column: Column, *, descending: bool) -> NDArray[np.intp]:
    """Return the rows sorted by a column. The sort is stable; NaN comes last."""
    values = column.values
    if isinstance(values, np.ndarray):
        return np.argsort(-values if descending else values, kind="stable")
    order = sorted(range(len(values)), key=values.__getitem__, reverse=descending)
    return np.array(order, np.intp)


def _counts(title: str, tip: str, counts: NDArray[np.int64]) -> Column:
    return Column(title, tip, counts, lambda row: format_number(int(counts[row])))


def _heading(code: int, draft: int | None) -> str:
    if code == IN_FILE:
        return tr("In the file")
    return tr("Draft") if code == draft else tr("Step {number}", number=code)


def _pruned_of(name: str, what: str, pruned: int, total: int) -> str:
    """Describe how much of a parameter or module is pruned; `what` is shown in brackets."""
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


def _shape_text(info: TensorInfo) -> str:
    return f" {SHAPE_SEPARATOR} ".join(map(format_number, info.shape)) or tr("a single number")


def _plain_shape(rows: Rows, row: int) -> str:
    """Return the shape of a row's only parameter, "512 x 384"; "" if the row has several."""
    return " x ".join(map(str, rows.infos[row].shape)) if rows.size[row] == 1 else ""


def _none_for_nan(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _severity(rows: Rows) -> NDArray[np.int64]:
    """Return the severity of each row's warnings; larger is worse."""
    tied = rows.tied & (rows.size == 1)
    non_finite, pruned_dead = rows.nan + rows.infinite > 0, rows.dead > rows.dead_in_file
    severity: NDArray[np.int64] = (
        16 * (rows.nearly_empty > 0) + 8 * non_finite + 4 * pruned_dead + 2 * (rows.dead > 0) + tied
    )
    return severity


def _nearly_empty(rows: Rows, row: int, kept: int) -> str:
    empty = int(rows.nearly_empty[row])
    if not empty:
        return ""
    if rows.size[row] > 1:
        return trn("{count:,} parameter nearly empty", "{count:,} parameters nearly empty", empty)
    if not kept:
        return tr("nothing is left")
    return tr("only {left:,} of {total:,} left", left=kept, total=int(rows.total[row]))


def _content_warnings(rows: Rows, row: int) -> list[str]:
    texts = []
    if nan := int(rows.nan[row]):
        texts.append(tr("{count:,} NaN", count=nan))
    if infinite := int(rows.infinite[row]):
        texts.append(tr("{count:,} infinite", count=infinite))
    if dead := int(rows.dead[row]):
        texts.append(_dead(dead, int(rows.dead_in_file[row]), int(rows.channels[row])))
    if rows.size[row] == 1 and rows.infos[row].aliases:
        texts.append(tr("tied with {names}", names=join_items(rows.infos[row].aliases)))
    return texts


def _dead(dead: int, before: int, channels: int) -> str:
    """Describe how many channels are dead, and how many of them are dead in the file."""
    if not before:
        message = deferred("{dead:,} of {channels:,} channels dead")
    elif before == dead:
        message = deferred("{dead:,} of {channels:,} channels dead (all in the file)")
    else:
        message = deferred("{dead:,} of {channels:,} channels dead ({before:,} in the file)")
    return tr(message, dead=dead, channels=channels, before=before)
