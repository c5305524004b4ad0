"""Undo and redo of the recipe, and of the draft of its next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import AfterValidator

from prune_gui.language import listed, tr
from prune_gui.pruning.methods.fields import text_of
from prune_gui.recipe import Recipe, Step

if TYPE_CHECKING:
    from prune_gui.pruning.methods import Method


def _with_tuples(values: Mapping[str, object]) -> dict[str, object]:
    """Return values of fields as they were before they were written as JSON."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }


@dataclass(frozen=True, slots=True)
class DraftState:
    """What the form of the draft holds, whether it can become a step or not.

    Attributes:
        step: the step that it makes; None if it is incomplete.
        values: of the fields of the method, not validated.
        follows: whether the targets follow the selection.
        is_set_up: whether the user set it up and has not added it: closing asks about it.
        editing: index of the step that the draft is to replace.
        aside: the draft that returns when editing ends, or when the step of a view is added.
    """

    step: Step | None
    method: str
    values: Annotated[Mapping[str, object], AfterValidator(_with_tuples)]
    targets: tuple[str, ...]
    follows: bool = False
    previewed: bool = True
    is_set_up: bool = True
    made_by_view: bool = False
    editing: int | None = None
    aside: DraftState | None = None

    @classmethod
    def of(
        cls,
        step: Step,
        *,
        made_by_view: bool = False,
        editing: int | None = None,
        aside: DraftState | None = None,
    ) -> DraftState:
        values = step.method.name, dict(step.method), step.targets
        return cls(step, *values, made_by_view=made_by_view, editing=editing, aside=aside)

    def is_unfinished(self, steps: Sequence[Step]) -> bool:
        """Return whether closing a session with these steps loses what the user set up."""
        if self.editing is None:
            return self.is_set_up
        is_changed = self.step != steps[self.editing]
        return is_changed or (self.aside is not None and self.aside.is_unfinished(steps))

    def done(self) -> Self:
        """Return what the form keeps for the next step, after this one was added or applied."""
        return replace(self, editing=None, previewed=False, is_set_up=False)

    def anchored(self) -> Self:
        """Return an equal draft whose paths are absolute; see `Recipe.anchored`."""
        step = Recipe(steps=(self.step,)).anchored().steps[0] if self.step is not None else None
        return replace(self, step=step, aside=self.aside and self.aside.anchored())

    def following(self, before: Sequence[Step], after: Sequence[Step]) -> DraftState:
        """Return the draft after the steps changed: editing ends if its step is gone or differs."""
        if self.editing is None:
            return self
        edited = before[self.editing]
        same = [index for index, step in enumerate(after) if _prunes_same(step, edited)]
        if not same:
            return self.aside or self.done()
        index = self.editing if self.editing in same else same[0]
        if self.step is None:
            return replace(self, editing=index)
        step = self.step.model_copy(update={"enabled": after[index].enabled})
        return replace(self, step=step, editing=index)

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


def _prunes_same(one: Step, other: Step) -> bool:
    return one.method is other.method and one.targets == other.targets


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

    def act(self, label: str, recipe: Recipe, draft: DraftState | None = None) -> History:
        """Return the history after an edit that made `recipe`; self if the recipe is unchanged.

        Args:
            draft: the draft after it; None for the current one.
        """
        if recipe == self.recipe:
            return self
        if draft is None and self.draft is not None:
            draft = self.draft.following(self.recipe.steps, recipe.steps)
        past = self.entries[: self.position + 1]
        return History((*past, HistoryEntry(label, recipe, draft)), len(past))

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
        if draft == entry.draft:
            return self
        ends_editing = entry.draft is not None and draft.editing != entry.draft.editing
        if ends_editing and not entry.is_edit and draft == past[-1].draft:  # cancelled at once
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
