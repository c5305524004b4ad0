"""Undo and redo: a list of recipes, each with the label of the edit that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prune_gui.language import listed, tr
from prune_gui.pruning.methods.fields import text_of
from prune_gui.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Step


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """The recipe after one edit, with a label of that edit in the language of the user."""

    label: str
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class History:
    """All recipes of a session. Immutable; a new edit discards the entries that redo would use."""

    entries: tuple[HistoryEntry, ...]
    position: int = 0

    @classmethod
    def begin(cls, recipe: Recipe) -> History:
        """Return a history of one recipe."""
        return cls((HistoryEntry(tr("Open"), recipe),))

    @property
    def recipe(self) -> Recipe:
        """The current recipe."""
        return self.entries[self.position].recipe

    @property
    def undo_label(self) -> str | None:
        """Label of the edit that undo reverts; None if there is none."""
        return self.entries[self.position].label if self.position else None

    @property
    def redo_label(self) -> str | None:
        """Label of the edit that redo repeats; None if there is none."""
        undone = self.entries[self.position + 1 :]
        return undone[0].label if undone else None

    def act(self, label: str, recipe: Recipe) -> History:
        """Return the history after an edit that made `recipe`; self if the recipe is unchanged."""
        if recipe == self.recipe:
            return self
        past = self.entries[: self.position + 1]
        return History((*past, HistoryEntry(label, recipe)), len(past))

    def at(self, position: int) -> History:
        """Return the history at another position, clamped to the valid range."""
        return History(self.entries, min(max(position, 0), len(self.entries) - 1))

    def undo(self) -> History:
        """Return the history one entry back; at the first entry unchanged."""
        return self.at(self.position - 1)

    def redo(self) -> History:
        """Return the history one entry forward; at the last entry unchanged."""
        return self.at(self.position + 1)


MAX_CHANGES: Final = 2
"""Changes that are named; the others are counted."""


def describe_change(before: Step, after: Step) -> str:
    """Return what differs between two versions of a step: "60 % → 70 %"; "" if nothing does."""
    changes = []
    old, new = before.method, after.method
    if type(old) is not type(new):
        changes.append(_arrow(tr(old.title), tr(new.title)))
    else:
        names = type(new).model_fields
        texts = [(_value_text(old, name), _value_text(new, name)) for name in names]
        changes += [_arrow(*pair) for pair in texts if pair[0] != pair[1]]
    if before.targets != after.targets:
        changes.append(tr("other targets"))
    return listed(changes, limit=MAX_CHANGES)


def _arrow(before: str, after: str) -> str:
    return tr("{before} → {after}", before=before, after=after)


def _value_text(method: Method, name: str) -> str:
    value, text = getattr(method, name), text_of(type(method).model_fields[name])
    if value is None:
        return tr("none")
    if str(value) in text.choices and str(value) not in text.values:
        return tr(text.choices[str(value)])
    return text.in_title(method, name, value)
