"""Undo and redo: a list of recipes, each with what made it."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.language import tr
from prune_gui.recipe import Recipe


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A recipe as it stood after one act of the user, which the label names in their language."""

    label: str
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class History:
    """Every recipe of a session. Immutable; nothing is forgotten until a new act replaces redo.

    Attributes:
        moments: in time order; never empty.
        position: which of them is now.
    """

    moments: tuple[HistoryEntry, ...]
    position: int = 0

    @classmethod
    def begin(cls, recipe: Recipe) -> History:
        """Return a history that knows one recipe."""
        return cls((HistoryEntry(tr("Open"), recipe),))

    @property
    def recipe(self) -> Recipe:
        """The recipe as it is now."""
        return self.moments[self.position].recipe

    @property
    def undo_label(self) -> str | None:
        """What undo would undo; None if there is nothing."""
        return self.moments[self.position].label if self.position else None

    @property
    def redo_label(self) -> str | None:
        """What redo would do again; None if there is nothing."""
        ahead = self.moments[self.position + 1 :]
        return ahead[0].label if ahead else None

    def act(self, label: str, recipe: Recipe) -> History:
        """Return the history after an act that made `recipe`; an act without effect is none."""
        if recipe == self.recipe:
            return self
        past = self.moments[: self.position + 1]
        return History((*past, HistoryEntry(label, recipe)), len(past))

    def at(self, position: int) -> History:
        """Return the history at another of its moments."""
        return History(self.moments, min(max(position, 0), len(self.moments) - 1))

    def undo(self) -> History:
        """Return the history one act back; itself at the beginning."""
        return self.at(self.position - 1)

    def redo(self) -> History:
        """Return the history one act forward; itself at the end."""
        return self.at(self.position + 1)
