"""Undo and redo of the recipe, and of the draft of its next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from prune_gui.language import listed, tr
from prune_gui.pruning.methods.fields import text_of
from prune_gui.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Step


@dataclass(frozen=True, slots=True)
class DraftState:
    """What the form of the draft holds, whether it can become a step or not.

    Attributes:
        step: the step that it makes; None if it is incomplete.
        values: of the fields of the method, not validated.
        follows: whether the targets follow the selection.
        editing: index of the step that the draft is to replace.
        aside: the draft that returns when editing ends, or when the step of a view is added.
    """

    step: Step | None
    method: str
    values: Mapping[str, object]
    targets: tuple[str, ...]
    follows: bool = False
    previewed: bool = True
    made_by_view: bool = False
    editing: int | None = None
    aside: DraftState | None = None

    @classmethod
    def of(cls, step: Step) -> DraftState:
        return cls(step, step.method.name, dict(step.method), step.targets)

    def changed(self, before: DraftState) -> frozenset[str]:
        """Return the names of what the user changed; not what follows the selection."""
        names = {"method"}
        if self.method == before.method:
            names = {
                name for name, value in self.values.items() if before.values.get(name) != value
            }
        if self.editing != before.editing:
            names.add("editing")
        by_hand = not self.follows and self.targets != before.targets
        if by_hand or self.follows != before.follows:
            names.add("targets")
        return frozenset(names)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """The recipe and the draft after one change of either, with a label of it."""

    label: str
    recipe: Recipe
    draft: DraftState | None = None
    is_edit: bool = True  # of the recipe


@dataclass(frozen=True, slots=True)
class History:
    """All recipes of a session. Immutable; a new edit discards the entries that redo would use.

    Undo reverts the changes of the draft since the last edit of the recipe, then that edit. A
    change of the draft discards only undone changes of the draft, so that it loses no steps.
    """

    entries: tuple[HistoryEntry, ...]
    position: int = 0

    @classmethod
    def begin(cls, recipe: Recipe) -> History:
        return cls((HistoryEntry(tr("Open"), recipe),))

    @property
    def recipe(self) -> Recipe:
        return self.entries[self.position].recipe

    @property
    def draft(self) -> DraftState | None:
        """The current draft; None until it is noted."""
        return self.entries[self.position].draft

    @property
    def edits(self) -> list[HistoryEntry]:
        """The edits of the recipe; the first is that of opening it."""
        return [entry for entry in self.entries if entry.is_edit]

    @property
    def current_edit(self) -> int:
        """The index of the last edit that is not undone."""
        return sum(entry.is_edit for entry in self.entries[: self.position + 1]) - 1

    @property
    def undo_label(self) -> str | None:
        """Label of the change that undo reverts; None if there is none."""
        return self.entries[self.position].label if self.position else None

    @property
    def redo_label(self) -> str | None:
        """Label of the change that redo repeats; None if there is none."""
        undone = self.entries[self.position + 1 :]
        return undone[0].label if undone else None

    def act(self, label: str, recipe: Recipe) -> History:
        """Return the history after an edit that made `recipe`; self if the recipe is unchanged."""
        if recipe == self.recipe:
            return self
        past = self.entries[: self.position + 1]
        return History((*past, HistoryEntry(label, recipe, self.draft)), len(past))

    def with_draft(self, draft: DraftState, *, merge: bool = False, amend: bool = False) -> History:
        """Return the history after a change of the draft, which becomes an undo entry.

        Args:
            merge: whether it continues the last change, as while a slider moves.
            amend: whether it is no change of the user.
        """
        *past, entry = self.entries[: self.position + 1]
        later = self.entries[self.position + 1 :]
        if amend:
            return History((*past, replace(entry, draft=draft), *later), self.position)
        if not entry.is_edit and draft == past[-1].draft:  # back to what it was before
            return self.undo()
        if entry.is_edit or not merge:
            past.append(entry)
        label = describe_draft(past[-1].draft, draft)
        made = HistoryEntry(label, self.recipe, draft, is_edit=False)
        undone_edits = dropwhile(lambda one: not one.is_edit, later)
        return History((*past, made, *undone_edits), len(past))

    def at(self, position: int) -> History:
        """Return the history at another position, clamped to the valid range."""
        return History(self.entries, min(max(position, 0), len(self.entries) - 1))

    def at_edit(self, index: int) -> History:
        """Return the history after an edit and the changes of the draft that followed it."""
        positions = [position for position, entry in enumerate(self.entries) if entry.is_edit]
        return self.at([*positions[1:], len(self.entries)][index] - 1)

    def undo(self) -> History:
        """Return the history one change back; at the first one unchanged."""
        return self.at(self.position - 1)

    def redo(self) -> History:
        """Return the history one change forward; at the last one unchanged."""
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


def describe_draft(before: DraftState | None, after: DraftState) -> str:
    """Return a label for a change of the draft."""
    change = ""
    if before is not None and before.editing != after.editing:
        number = after.editing
        return tr("Edit step {number}", number=number + 1) if number is not None else tr("Cancel")
    if before is not None and before.step and after.step:
        change = describe_change(before.step, after.step)
    return tr("Draft: {change}", change=change) if change else tr("Change the draft")


def _arrow(before: str, after: str) -> str:
    return tr("{before} → {after}", before=before, after=after)


def _value_text(method: Method, name: str) -> str:
    value, text = getattr(method, name), text_of(type(method).model_fields[name])
    if value is None:
        return tr("none")
    if str(value) in text.choices and str(value) not in text.values:
        return tr(text.choices[str(value)])
    return text.in_title(method, name, value)
