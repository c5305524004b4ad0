"""The card above the overview: the file in numbers, and findings; the badges of cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from prune_gui.architecture.blocks import ATTENTION_PROJECTIONS
from prune_gui.architecture.projections import projection
from prune_gui.gui.views.layers.columns import UNDEFINED_TEXT
from prune_gui.language import deferred, format_number, join_items, tr
from prune_gui.number_formats import short_bytes, short_count, sparsity
from prune_gui.pruning.methods.coupled import DeadUnits
from prune_gui.pruning.methods.n_m import NM
from prune_gui.recipe.recipe import IN_FILE

if TYPE_CHECKING:
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Resolution
    from prune_gui.recipe.stack import AppliedStep
    from prune_gui.session.subjects import Subject
    from prune_gui.statistics.file_zeros import FileZeros
    from prune_gui.statistics.layer_rows import Rows
    from prune_gui.statistics.layer_statistics import LayerStatistics


ATTENTION: Final = deferred("{count:,} of {total:,} attention matrices")
MATRICES: Final = deferred("{count:,} of {total:,} matrices")
PARAMETERS: Final = deferred("{count:,} of {total:,} parameters")
MAX_LISTED: Final = 8
MAX_GROUPED: Final = 2000
"""Limit of the parameters whose findings are read, so that this takes no time."""


class CardRow(NamedTuple):
    """A row of the card, which may lead to parameters."""

    label: str
    text: str
    parameters: tuple[str, ...] = ()


class Findings(NamedTuple):
    """The first `MAX_LISTED` findings, each of all parameters that have it, and their number."""

    rows: tuple[CardRow, ...]
    total: int


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
    patterns, resolution = {}, statistics.resolution
    faulty = np.flatnonzero(rows.nearly_empty + rows.nan + rows.infinite)
    warned = {rows.names[row]: rows.faults(row) for row in faulty[:MAX_GROUPED].tolist()}
    if dead := _left_dead(resolution, rows):
        text = rows.dead_channels(dead)
        for row in dead:
            warned.setdefault(rows.names[row], []).append(text)
    for name in {**file_zeros.patterns, **resolution.layers}:
        found, n_m = file_zeros.patterns.get(name), _n_m(resolution, name)
        items = found.items() if found is not None else []
        if items := [n_m] * (n_m not in ("", *items)) + items:
            patterns[name] = items
    infos = statistics.infos if patterns or warned else ()
    kinds = {info.name: _kind(info.name, len(info.shape)) for info in infos}
    return FileCard(
        tuple(_facts(statistics, rows, blocks, file_zeros)),
        _findings(patterns, kinds),
        _findings(warned, kinds),
        bool(dead),
    )


@lru_cache(maxsize=1 << 15)
def _kind(name: str, dims: int) -> str:
    if dims < 2:
        return PARAMETERS
    return ATTENTION if projection(name) in ATTENTION_PROJECTIONS else MATRICES


def _findings(items: Mapping[str, Sequence[str]], kinds: Mapping[str, str]) -> Findings:
    """Return findings, given those of each parameter; equal ones together."""
    by_text = defaultdict[str, list[str]](list)
    for name, texts in items.items():
        for text in texts:
            by_text[text].append(name)
    totals = Counter(kinds.values())
    totals[MATRICES] += totals[ATTENTION]
    totals[PARAMETERS] += totals[MATRICES]
    rows = []
    for text, names in by_text.items():
        found = {kinds[name] for name in names}
        kind = PARAMETERS if PARAMETERS in found else MATRICES
        kind = ATTENTION if found == {ATTENTION} else kind
        label = tr(kind, count=len(names), total=totals[kind]) if len(names) > 1 else names[0]
        rows.append(CardRow(label, text, tuple(names)))
    return Findings(tuple(rows[:MAX_LISTED]), len(rows))


def badge(subject: Subject) -> str:
    """Return a short text for the pattern of what is pruned of a parameter, or is zero; or ""."""
    resolution, found = subject.resolution, subject.file_zeros.patterns.get(subject.name)
    if n_m := _n_m(resolution, subject.name):
        return n_m
    for applied in resolution.layers.get(subject.name, ()):
        method = _method(resolution, applied)
        dim = getattr(applied.predicate, "dim", None)
        if method is not None and method.unit == "block":
            return tr("blocks")
        if method is not None and method.unit != "entry" and dim is not None:
            return tr("columns") if dim else tr("rows")
    return found.badge if found is not None else ""


def _n_m(resolution: Resolution, name: str) -> str:
    """Return the pattern that a step gives a parameter, such as "2:4"; or ""."""
    methods = (_method(resolution, applied) for applied in resolution.layers.get(name, ()))
    return next((f"{one.n}:{one.m}" for one in methods if isinstance(one, NM)), "")


def _method(resolution: Resolution, applied: AppliedStep) -> Method | None:
    number = applied.step
    return None if number == IN_FILE else resolution.recipe.steps[number - 1].method


def _left_dead(resolution: Resolution, rows: Rows) -> list[int]:
    """Return the first rows with dead channels of which other tensors may still have elements.

    Coupled steps prune units in all of them. Those that are dead in the file are its patterns.
    """
    enabled = [step for step in resolution.recipe.steps if step.enabled]
    if not enabled or isinstance(enabled[-1].method, DeadUnits):
        return []
    steps = enumerate(resolution.recipe.steps, start=1)
    coupled = {number for number, step in steps if step.method.is_coupled}
    dead = np.flatnonzero(rows.dead > rows.dead_in_file)[:MAX_GROUPED].tolist()
    return [
        row
        for row in dead
        if {applied.step for applied in resolution.layers.get(rows.names[row], ())}
        - {IN_FILE, *coupled}
    ]


def _facts(
    statistics: LayerStatistics, rows: Rows, blocks: int, file_zeros: FileZeros
) -> Iterator[CardRow]:
    pruned, total = statistics.resolution.total
    elements = Counter[str]()
    counted = [info for info in statistics.infos if info.name in statistics.resolution.counted]
    for info in counted:
        elements[info.dtype] += info.numel
    yield CardRow(tr("Parameters"), format_number(len(counted)))
    yield CardRow(tr("Weights"), short_count(total))
    yield CardRow(tr("Size"), short_bytes(sum(info.nbytes for info in counted)))
    yield CardRow(tr("Data type"), join_items(dtype for dtype, _ in elements.most_common()))
    if blocks:
        yield CardRow(tr("Blocks"), format_number(blocks))
    if file_zeros.zeros and file_zeros.is_complete:
        share = sparsity(file_zeros.zeros, file_zeros.elements)
        yield CardRow(tr("Zero in the file"), share)
    share = sparsity(pruned, total)
    yield CardRow(tr("Pruned"), tr("{count} ({share})", count=short_count(pruned), share=share))
    yield CardRow(tr("Kept energy"), _kept_energy(statistics))
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
    if not 0 < energy < np.inf or not statistics.covers_reference:
        return UNDEFINED_TEXT
    if statistics.reference is not statistics.checkpoint:
        return tr("{percent:.2f} % of the reference", percent=100 * kept / energy)
    return tr("{percent:.2f} %", percent=100 * kept / energy)
