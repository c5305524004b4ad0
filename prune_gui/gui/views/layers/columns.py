"""The columns of the table of all parameters, and how to say what is in a row. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import one_line
from prune_gui.gui.formatting import TIMES, percent, sparsity
from prune_gui.gui.views.subject import by
from prune_gui.language import items, later, number, tr, trn
from prune_gui.recipe.pruned_by_codes import IN_FILE

if TYPE_CHECKING:
    from prune_gui.audit.statistics.layer_rows import Rows
    from prune_gui.audit.table import Table
    from prune_gui.checkpoint import ModuleNode, TensorInfo
    from prune_gui.recipe import Resolution

NOT_KNOWN: Final = "…"
NOTHING: Final = "–"  # noqa: RUF001
NAME, SPARSITY, ENERGY, PARAMETERS, WARNINGS = range(5)
"""The columns that there always are, before those of the steps."""


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        tip: what it tells.
        values: what its rows are sorted by.
        text: what stands in a row.
        is_number: whether that is a number.
    """

    title: str
    tip: str
    values: Sequence[Any] | NDArray[Any]
    text: Callable[[int], str]
    is_number: bool = True


def columns_of(rows: Rows, draft: int | None) -> tuple[Column, ...]:
    """Return the columns of a table of rows, where the draft has a number as a step."""
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
    """Say which share of the energy of a row is kept."""
    if np.isfinite(share):
        return percent(1.0) if share == 1 else tr("{percent:.2f} %", percent=100 * share)
    return NOT_KNOWN if np.isnan(rows.energy[row]) else NOTHING


def warnings(rows: Rows, row: int) -> list[str]:
    """Say what a person should look at in a row."""
    left = int(rows.total[row] - rows.pruned[row])
    return [text for text in (_nearly_empty(rows, row, left), *_odd(rows, row)) if text]


def describe_row(rows: Rows, row: int, title: Callable[[int], str]) -> str:
    """Say what there is to know of a row, where a code is called as `title` says."""
    pruned, total = int(rows.pruned[row]), int(rows.total[row])
    parts = [
        _told(rows.names[row], shape(rows, row), pruned, total),
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
    """Say how much of a parameter, or of the parameters of a module, is pruned."""
    counts = [resolution.counts[tensor.name] for tensor in node.tensors]
    pruned, total = (sum(numbers) for numbers in zip(*counts, strict=True))
    what = _parameters(len(counts)) if node.below else _sides(node.tensors[0])
    return _told(node.path, what, pruned, total)


def shape(rows: Rows, row: int) -> str:
    """Return the shape of the only parameter of a row, or how many parameters it has."""
    if rows.size[row] > 1:
        return _parameters(int(rows.size[row]))
    return _sides(rows.infos[row])


def table_of(rows: Rows, order: NDArray[np.intp], title: str) -> Table:
    """Return everything that is known of the rows, in an order, for other programs."""
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
            tr("kept energy"): _known(rows.kept_share[order]),
            **{name: _known(values[order]) for values, name in energies},
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
    """Return the rows sorted by a column; rows of one value stay as they are, NaN comes last."""
    values = column.values
    if isinstance(values, np.ndarray):
        return np.argsort(-values if descending else values, kind="stable")
    found = sorted(range(len(values)), key=values.__getitem__, reverse=descending)
    return np.array(found, np.intp)


def _counts(title: str, tip: str, counts: NDArray[np.int64]) -> Column:
    return Column(title, tip, counts, lambda row: number(int(counts[row])))


def _heading(code: int, draft: int | None) -> str:
    if code == IN_FILE:
        return tr("In the file")
    return tr("Draft") if code == draft else tr("Step {number}", number=code)


def _told(name: str, what: str, pruned: int, total: int) -> str:
    """Say how much is pruned of something, and in brackets what that is."""
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


def _sides(info: TensorInfo) -> str:
    return f" {TIMES} ".join(map(number, info.shape)) or tr("a single number")


def _plain_shape(rows: Rows, row: int) -> str:
    """Return the shape of the only parameter of a row, "512 x 384"; "" if there are more."""
    return " x ".join(map(str, rows.infos[row].shape)) if rows.size[row] == 1 else ""


def _known(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _severity(rows: Rows) -> NDArray[np.int64]:
    """Rank rows by what there is to warn of, worst last."""
    tied = rows.tied & (rows.size == 1)
    odd, pruned_dead = rows.nan + rows.infinite > 0, rows.dead > rows.dead_in_file
    ranked: NDArray[np.int64] = (
        16 * (rows.nearly_empty > 0) + 8 * odd + 4 * pruned_dead + 2 * (rows.dead > 0) + tied
    )
    return ranked


def _nearly_empty(rows: Rows, row: int, left: int) -> str:
    empty = int(rows.nearly_empty[row])
    if not empty:
        return ""
    if rows.size[row] > 1:
        return trn("{count:,} parameter nearly empty", "{count:,} parameters nearly empty", empty)
    if not left:
        return tr("nothing is left")
    return tr("only {left:,} of {total:,} left", left=left, total=int(rows.total[row]))


def _odd(rows: Rows, row: int) -> list[str]:
    texts = []
    if nan := int(rows.nan[row]):
        texts.append(tr("{count:,} NaN", count=nan))
    if infinite := int(rows.infinite[row]):
        texts.append(tr("{count:,} infinite", count=infinite))
    if dead := int(rows.dead[row]):
        texts.append(_dead(dead, int(rows.dead_in_file[row]), int(rows.channels[row])))
    if rows.size[row] == 1 and rows.infos[row].aliases:
        texts.append(tr("tied with {names}", names=items(rows.infos[row].aliases)))
    return texts


def _dead(dead: int, before: int, channels: int) -> str:
    """Say how many channels are dead, and how many of these were so before."""
    if not before:
        message = later("{dead:,} of {channels:,} channels dead")
    elif before == dead:
        message = later("{dead:,} of {channels:,} channels dead (all in the file)")
    else:
        message = later("{dead:,} of {channels:,} channels dead ({before:,} in the file)")
    return tr(message, dead=dead, channels=channels, before=before)
