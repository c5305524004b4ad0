"""What resolving a step yields: how much it pruned, and notes on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.language import tr
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import Predicate
from prune_gui.recipe.target_amounts import Amount
from prune_gui.recipe.vocabulary.selection import TokenSelection
from prune_gui.recipe.vocabulary.vocabulary import Stamp

Contents = tuple[Checkpoint | TokenSelection | Stamp | None, ...]
"""The open files of a step, what follows from them, or their stamps; None for a missing file."""
_is_computed: Final = attrgetter("is_computed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of one step.

    Attributes:
        pruned: by target, the number of remaining elements that the step pruned.
        remarks: by target or pattern, or by "" on the whole step, a warning for the user.
        limits: by target, a note that a limit of the step ended the pruning of it, or which
            dimensions of it have the channels.
        predicates: by target, the predicate of the step.
        total: (pruned elements, all elements) over all targets.
        files: the contents of the auxiliary files of the method.
        amounts: by target, its own amount; for those that have one.
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
        """The remarks, and warnings about the scores and corrections that are computed so far.

        Cached: the same object until another value that they depend on is computed.
        """
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
