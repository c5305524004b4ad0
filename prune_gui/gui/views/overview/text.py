"""The card beside the overview: the file in numbers, and findings; the badges of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prune_gui.architecture.blocks import ATTENTION_PROJECTIONS
from prune_gui.architecture.projections import projection
from prune_gui.errors import one_line
from prune_gui.gui.views.layers.columns import UNDEFINED_TEXT
from prune_gui.language import deferred, format_number, join_items, merged, tr
from prune_gui.number_formats import short_bytes, short_count, sparsity
from prune_gui.pruning.methods.coupled import DeadUnits
from prune_gui.pruning.methods.n_m import NM
from prune_gui.recipe.recipe import IN_FILE

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo
    from prune_gui.recipe import Resolution
    from prune_gui.session.subjects import Subject
    from prune_gui.statistics.file_zeros import FileZeros
    from prune_gui.statistics.layer_rows import Rows
    from prune_gui.statistics.layer_statistics import LayerStatistics


ATTENTION: Final = deferred("{count:,} of {total:,} attention matrices")
FEED_FORWARD: Final = deferred("{count:,} of {total:,} feed-forward matrices")
MATRICES: Final = deferred("{count:,} of {total:,} matrices")
VECTORS: Final = deferred("{count:,} of {total:,} parameters")
MAX_LISTED: Final = 20
MAX_GROUPED: Final = 2000
"""Limit of the parameters whose findings are read, so that this takes no time."""


class CardRow(NamedTuple):
    """A row of the card, which may lead to parameters."""

    label: str
    text: str
    parameters: tuple[str, ...] = ()


class Findings(NamedTuple):
    """The first `MAX_LISTED` findings, each of all parameters that it is about, and their number.

    `parameters` is the number of parameters that have one.
    """

    rows: tuple[CardRow, ...]
    total: int
    parameters: int


class FileCard(NamedTuple):
    """The file in numbers, and what is found of its parameters: patterns, and warnings.

    It has dead ones if a step leaves channels dead of which other tensors may have elements.
    """

    facts: tuple[CardRow, ...]
    patterns: Findings
    warnings: Findings
    has_dead: bool = False


def card(statistics: LayerStatistics, rows: Rows, blocks: int, file_zeros: FileZeros) -> FileCard:
    """Return the card of a file."""
    problems = np.flatnonzero(rows.nearly_empty + rows.nan + rows.infinite + rows.dead).tolist()
    warned = {rows.names[row]: tr("; ").join(rows.warnings(row)) for row in problems[:MAX_GROUPED]}
    patterns = {name: text for name in file_zeros.patterns if (text := file_zeros.describe(name))}
    kinds = {info.name: _kind(info) for info in statistics.infos}
    return FileCard(
        tuple(_facts(statistics, rows, blocks, file_zeros)),
        _findings(patterns, kinds, len(patterns)),
        _findings(warned, kinds, len(problems)),
        _leaves_dead(statistics.resolution, rows),
    )


def _kind(info: TensorInfo) -> str:
    if len(info.shape) < 2:
        return VECTORS
    kind = projection(info.name)
    if kind in ATTENTION_PROJECTIONS:
        return ATTENTION
    return MATRICES if kind is None else FEED_FORWARD


def _findings(texts: Mapping[str, str], kinds: Mapping[str, str], parameters: int) -> Findings:
    """Return findings, given a text by parameter; equal ones together."""
    totals = Counter(kinds.values())
    totals[MATRICES] = len(kinds) - totals[VECTORS]
    rows = []
    for names, text in merged(texts):
        found = {kinds[name] for name in names}
        kind = next(iter(found)) if len(found) == 1 else MATRICES
        kind = VECTORS if VECTORS in found else kind
        total = len(kinds) if len(found) > 1 and VECTORS in found else totals[kind]
        label = names[0] if len(names) == 1 else tr(kind, count=len(names), total=total)
        rows.append(CardRow(label, text, tuple(names)))
    return Findings(tuple(rows[:MAX_LISTED]), len(rows), parameters)


def badge(subject: Subject) -> str:
    """Return a short text for the pattern of what is pruned of a parameter, or is zero; or ""."""
    resolution, found = subject.resolution, subject.file_zeros.patterns.get(subject.name)
    for applied in reversed(resolution.layers.get(subject.name, ())):
        if applied.step == IN_FILE:
            continue
        method = resolution.recipe.steps[applied.step - 1].method
        if isinstance(method, NM):
            return f"{method.n}:{method.m}"
        if method.unit == "block":
            return tr("blocks")
        dim = getattr(applied.predicate, "dim", None)
        if method.unit != "entry" and dim is not None:
            return tr("columns") if dim else tr("rows")
    return found.badge if found is not None else ""


def _leaves_dead(resolution: Resolution, rows: Rows) -> bool:
    """Return whether a step leaves channels dead of which other tensors may still have elements.

    Coupled steps prune units in all of them.
    """
    enabled = [step for step in resolution.recipe.steps if step.enabled]
    if not enabled or isinstance(enabled[-1].method, DeadUnits):
        return False
    steps = enumerate(resolution.recipe.steps, start=1)
    coupled = {number for number, step in steps if step.method.is_coupled}
    dead = np.flatnonzero(rows.dead > rows.dead_in_file).tolist()
    return any(
        applied.step not in coupled and applied.step != IN_FILE
        for row in dead
        for applied in resolution.layers.get(rows.names[row], ())
    )


def _facts(
    statistics: LayerStatistics, rows: Rows, blocks: int, file_zeros: FileZeros
) -> Iterator[CardRow]:
    pruned, total = statistics.resolution.total
    elements = Counter[str]()
    for info in statistics.infos:
        elements[info.dtype] += info.numel
    yield CardRow(tr("Parameters"), format_number(len(rows)))
    yield CardRow(tr("Weights"), short_count(total))
    yield CardRow(tr("Size"), short_bytes(int(statistics.sizes.sum())))
    yield CardRow(tr("Data type"), join_items(dtype for dtype, _ in elements.most_common()))
    if blocks:
        yield CardRow(tr("Blocks"), format_number(blocks))
    if file_zeros.zeros:
        share = sparsity(file_zeros.zeros, file_zeros.elements)
        yield CardRow(tr("Zero in the file"), share)
    share = sparsity(pruned, total)
    yield CardRow(tr("Pruned"), tr("{count} ({share})", count=short_count(pruned), share=share))
    yield CardRow(tr("Kept energy"), _kept_energy(statistics))
    if statistics.reference not in (None, statistics.checkpoint):
        yield CardRow(tr("Original"), one_line(statistics.reference.path.name))
    if pruned:
        row = int(np.argmax(rows.share))
        share = sparsity(int(rows.pruned[row]), int(rows.total[row]))
        yield CardRow(tr("Highest sparsity"), share, (rows.names[row],))


def _kept_energy(statistics: LayerStatistics) -> str:
    measures = statistics.measures
    if not (statistics.is_complete or statistics.is_pending):
        return tr("not fetched")
    if not statistics.is_complete:
        return tr("{percent:.0f} % read", percent=100 * statistics.progress)
    energy, kept = float(measures["energy"].sum()), float(measures["kept"].sum())
    if not np.isfinite(energy) or energy <= 0:
        return UNDEFINED_TEXT
    return tr("{percent:.2f} %", percent=100 * kept / energy)
