"""What resolving a step yields: decisions, how much it pruned, notes, and why a weight was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from cachetools import LRUCache, cached

from prune_gui.checkpoint import Checkpoint
from prune_gui.file_stamps import FileStamps
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.parallel import spread
from prune_gui.pruning.decisions.target import Decision, Target
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import ElementRank, Predicate, RowCut
from prune_gui.pruning.predicates.element_cuts import ElementCut
from prune_gui.pruning.predicates.unit_cuts import BlockCut, ChannelCut, PrunedUnits
from prune_gui.pruning.selection.radix_select import Cut, RowCuts
from prune_gui.recipe.amounts import Amount
from prune_gui.recipe.vocabulary.encoding import TokenSelection

Contents = tuple[Checkpoint | TokenSelection | FileStamps, ...]
"""The open files of a step, what follows from them, or their stamps."""
_is_computed: Final = attrgetter("is_computed")
MAX_CACHED_STEPS: Final = 256  # a cached step takes a few numbers per target


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of one step.

    Attributes:
        limits: by target, a note that a limit ended the pruning of it, or which
            dimensions of it have the channels.
        late_notes: by parameter, notes on the corrections that are computed so far; it grows.
    """

    pruned: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    total: tuple[int, int] = (0, 0)
    files: Contents = ()
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    late_notes: Mapping[str, str] = field(default_factory=dict)
    _cached_warnings: list[tuple[list[Lazy[Any]], Mapping[str, str], Mapping[str, str]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def has_common_amount(self) -> bool:
        """Whether the amount of the step counts for a target: not all targets have their own."""
        return not self.amounts or not self.amounts.keys() >= self.pruned.keys()

    @property
    def notes(self) -> Mapping[str, str]:
        """The limits and the warnings."""
        warnings = self.warnings
        if not self.limits:
            return warnings
        both = {name: joined(note, warnings.get(name, "")) for name, note in self.limits.items()}
        return {**warnings, **both}

    @property
    def warnings(self) -> Mapping[str, str]:
        """The remarks, and warnings about what is computed so far; cached until there are more."""
        late_notes = dict(self.late_notes)
        cached = self._cached_warnings
        if not cached or cached[0][1] != late_notes or any(map(_is_computed, cached[0][0])):
            lazy = [predicate.lazy for predicate in self.predicates.values()]
            pending = [value for value in lazy if value is not None and not value.is_computed]
            notes = dict(self.remarks)
            for name, predicate in self.predicates.items():
                if note := predicate.note:
                    notes[name] = joined(notes.get(name, ""), note)
            for name, note in late_notes.items():
                notes[name] = joined(notes.get(name, ""), note)
            cached[:] = [(pending, late_notes, notes)]
        return cached[0][2]


def joined(one: str, other: str) -> str:
    """Return two remarks as one; either may be ""."""
    return tr("{one}; {other}", one=one, other=other) if one and other else one or other


@dataclass(frozen=True, slots=True)
class Explanation:
    """One element of a parameter, and its rank in every step that ranked it.

    Attributes:
        pruned_by: the step that pruned it, from 1; 0 if it is kept, 255 if the file has it pruned.
        element_ranks: its rank by step number, up to the step that pruned it.
    """

    name: str
    index: tuple[int, ...]
    value: float
    pruned_by: int
    element_ranks: Mapping[int, ElementRank]


Decide = Callable[[], list[Decision]]


def decision_cache() -> Callable[[Hashable, Decide], list[Decision]]:
    """Return a function that decides, or returns what it decided for an equal key. Thread-safe."""
    kept = cached(LRUCache(MAX_CACHED_STEPS), key=lambda key, _: key, lock=threading.Lock())
    return kept(lambda _, decide: decide())


def compute_cuts(
    decisions: Sequence[Decision], targets: Sequence[Target], monitor: Monitor
) -> None:
    """Compute the cuts of decisions that are not computed yet, one task per parameter."""
    found = []
    for decision, target in zip(decisions, targets, strict=True):
        cut: Predicate | None = decision.predicate
        lazy: Lazy[Any] | None = (
            cut.cuts if isinstance(cut, RowCut) else cut.lazy if cut is not None else None
        )
        if lazy is not None and not lazy.is_computed:
            found.append((cut, (lazy, target.weights.nbytes)))
    missing = [task for _, task in found]
    monitor.expect(sum(nbytes for _, nbytes in missing))
    with monitor.in_charge():
        values = spread(_compute, missing, monitor)
        for (predicate, (lazy, _)), value in zip(found, values, strict=True):
            if not _fits(predicate, value):
                raise ValueError("a cut of another parameter")
            lazy.set(value)


def _fits(predicate: Predicate | None, value: object) -> bool:
    """Return whether a value has the form of the cut: compiled loops trust the lengths."""
    match predicate, value:
        case (ElementCut(), Cut()):
            return True
        case (RowCut() as row, RowCuts(thresholds=thresholds, last_ties=last_ties)):
            rows = row.shape.rows
            is_key = thresholds.dtype == row.ranking.keys.bits(0, 0).dtype
            return is_key and len(thresholds) == len(last_ties) == rows
        case (ChannelCut() as channels, PrunedUnits(pruned=pruned)):
            return len(pruned) == channels.shape[channels.dim]
        case (BlockCut() as block, PrunedUnits(pruned=pruned)):
            return len(pruned) == block.blocks.down * block.blocks.across
    return False


def _compute(task: tuple[Lazy[Any], int], monitor: Monitor) -> object:
    lazy, nbytes = task
    value = lazy()
    monitor.advance(nbytes)
    return value
