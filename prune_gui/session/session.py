"""The open document and all edits of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui import architecture
from prune_gui.checkpoint import Checkpoint
from prune_gui.file_stamps import FileStamps
from prune_gui.language import deferred, tr, trn
from prune_gui.recipe import Recipe, Step, patterns_for
from prune_gui.recipe.patterns import most_targeted
from prune_gui.recipe.recipe import Provenance
from prune_gui.recipe.resolver import Resolver
from prune_gui.recipe.selector import protected_in
from prune_gui.resources import is_shipped
from prune_gui.session.history import DraftState, History, describe_change
from prune_gui.session.module_index import ModuleIndex
from prune_gui.statistics.file_zeros import FileZeros

if TYPE_CHECKING:
    from prune_gui.statistics.score_histogram import ScoreHistogramCache
    from prune_gui.statistics.zero_scan import ZeroScan


class Session:
    """An open checkpoint and the recipe that is edited for it.

    Attributes:
        resolver: only for quick jobs of the engine, which run on one thread; others copy it.
        zero_scan: only for the engine's thread; None until it begins to count zeros.
        kept_states: the named states that are on disk, see `session/kept_recipes.py`.
        recipe_path: file from which the recipe was read, or to which it was last saved; or None.
        reference_path: the checkpoint before pruning, as the user chose it; None for no choice.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        recipe: Recipe | None = None,
        recipe_path: Path | None = None,
        named_states: Mapping[str, Recipe] | None = None,
        reference_path: Path | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.stamps = FileStamps.of((checkpoint.path, *checkpoint.files))
        self.module_index = ModuleIndex(
            checkpoint.tensors.values(),
            lambda: checkpoint.module_types,
            checkpoint.module_classes,
            lambda: architecture.weight_layouts.weight_layouts(checkpoint),
        )
        self.resolver = Resolver(checkpoint)
        self.zero_scan: ZeroScan | None = None
        self.file_zeros = FileZeros()
        self.made = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
        self.remarks = (*checkpoint.warnings, *(self.made.remarks if self.made else ()))
        self.history = History.begin(recipe or Recipe())
        self.named_states = dict(named_states or {})
        self.kept_states = dict(self.named_states)
        self._last_protected: dict[tuple[str, ...], frozenset[str]] = {}
        self.recipe_path = recipe_path
        self.reference_path = reference_path
        self._is_reparametrized = any(info.pair for info in checkpoint.tensors.values())
        self._saved_recipe = self.recipe
        self.most_targeted = most_targeted(self.recipe, checkpoint)
        self._recipe_in_file = self.recipe if recipe_path is not None else None

    @cached_property
    def score_histograms(self) -> ScoreHistogramCache:
        from prune_gui.statistics.score_histogram import ScoreHistogramCache  # torch

        return ScoreHistogramCache(self.checkpoint)

    @cached_property
    def correction(self) -> Step | None:
        """A step that uses a recording beside the checkpoint; found when the recipe is resolved."""
        from prune_gui.recipe.correction.corrected_values import correction_beside  # torch

        return correction_beside(self.checkpoint)

    @property
    def recipe(self) -> Recipe:
        return self.history.recipe

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.recipe.steps

    @property
    def unsaved(self) -> bool:
        return self.recipe != self._saved_recipe

    @property
    def recipe_file(self) -> Path | None:
        """The recipe file if it holds exactly the current recipe, else None."""
        return self.recipe_path if self.recipe == self._recipe_in_file else None

    def mark_saved(self, recipe: Recipe, path: Path | None = None) -> None:
        """Note that `recipe` was saved: to the recipe file `path`, or within a checkpoint."""
        self._saved_recipe = recipe
        if path is not None:
            self.recipe_path, self._recipe_in_file = path, recipe

    def use_recipe(self, recipe: Recipe, path: Path) -> None:
        self.history = self.history.act(tr("Open recipe"), recipe)
        self.mark_saved(recipe, path)

    @property
    def past_steps(self) -> tuple[Step, ...]:
        """The enabled steps that made the checkpoint, if this program wrote it."""
        recipe = self.made.recipe if self.made is not None else None
        return tuple(step for step in recipe.steps if step.enabled) if recipe is not None else ()

    @property
    def is_pruned(self) -> bool:
        """Whether the file lost weights that only the checkpoint before pruning has."""
        was_pruned = bool(self.past_steps) or self.file_zeros.is_noticeable
        return was_pruned and not self._is_reparametrized

    def apply_past_recipe(self) -> None:
        """Replace the recipe by the one that made the checkpoint, which prunes once more."""
        if self.made is not None and self.made.recipe is not None:
            self.history = self.history.act(tr("Apply the past steps again"), self.made.recipe)

    def start_from_zeros(self, *, on: bool) -> None:
        """Count the zeros of the file as pruned before the first step, or as weights again."""
        label = tr("Count zeros in the file as weights")
        if on:
            label = tr("Count zeros in the file as pruned")
        recipe = self.recipe.model_copy(update={"start": "zeros" if on else "dense"})
        self.history = self.history.act(label, recipe)

    def use_table(self, table: Path | None) -> None:
        """Take the coupled units from a table of the architecture; None for the built-in ones."""
        folder = (self.recipe_path or self.checkpoint.path).parent
        label = tr("Use built-in architecture table")
        if table is not None:
            label = tr("Use architecture table {name}", name=table.name)
        self.history = self.history.act(label, self.recipe.with_table(table, folder))

    def take_over(self, other: Session) -> None:
        """Take the history, named states and recipe file of another session.

        Its unsaved changes are still unsaved here. Named states of this session are kept too.
        """
        self.history = other.history
        self.named_states |= other.named_states
        self.recipe_path = other.recipe_path
        self._saved_recipe = other._saved_recipe
        self._recipe_in_file = other._recipe_in_file

    @property
    def draft(self) -> DraftState | None:
        """The draft of the next step, or of the step that is edited; None until it is noted."""
        return self.history.draft

    @property
    def has_unfinished_draft(self) -> bool:
        """Whether a draft is set up and not added, or a step is edited and differs."""
        return self.draft is not None and self.draft.is_unfinished(self.steps)

    def bring_back(self, recipe: Recipe, path: Path | None, draft: DraftState | None) -> None:
        """Restore the unsaved recipe and the draft of a crashed run; they are still unsaved."""
        self.history = self.history.act(tr("Restore unsaved steps"), recipe)
        self.recipe_path = path
        if draft is not None:
            self.note_draft(draft)

    def add(self, step: Step) -> None:
        self.append(tr("Add {method}", method=tr(step.method.title)), step)

    def append(self, label: str, *steps: Step) -> None:
        """Append steps, as one undo entry."""
        self._set_steps(label, (*self.steps, *steps))

    def take_steps(self, steps: Sequence[Step]) -> None:
        """Replace all steps by those of a recipe that was evaluated."""
        self._set_steps(tr("Take evaluated recipe"), steps)

    def replace(self, index: int, step: Step) -> None:
        self._set_steps(*self._replaced(index, step))

    def switch(self, index: int, *, enabled: bool) -> None:
        steps = list(self.steps)
        steps[index] = steps[index].model_copy(update={"enabled": enabled})
        on, off = deferred("Switch on step {number}"), deferred("Switch off step {number}")
        self._set_steps(tr(on if enabled else off, number=index + 1), steps)

    def move(self, index: int, to: int) -> None:
        steps = list(self.steps)
        steps.insert(to, steps.pop(index))
        label = tr("Move step {number} to position {place}", number=index + 1, place=to + 1)
        self._set_steps(label, steps)

    def duplicate(self, index: int) -> None:
        steps = [*self.steps[: index + 1], *self.steps[index:]]
        self._set_steps(tr("Duplicate step {number}", number=index + 1), steps)

    def remove(self, index: int) -> None:
        steps = [*self.steps[:index], *self.steps[index + 1 :]]
        self._set_steps(tr("Remove step {number}", number=index + 1), steps)

    def clear(self) -> None:
        self._set_steps(tr("Remove all steps"), ())

    def protect(self, names: Collection[str], *, on: bool) -> None:
        before = self.protected
        protected = before | set(names) if on else before - set(names)
        tensors = [info._replace(kind=None) for info in self.checkpoint.tensors.values()]
        recipe = self.recipe.model_copy(update={"protect": patterns_for(protected, tensors)})
        if on:
            label = trn("Protect {count:,} parameter", "Protect {count:,} parameters", len(names))
        else:
            label = trn(
                "Unprotect {count:,} parameter", "Unprotect {count:,} parameters", len(names)
            )
        if len(names) == 1:
            label = deferred("Protect {name}") if on else deferred("Unprotect {name}")
            label = tr(label, name=next(iter(names)))
        self.history = self.history.act(label, recipe)

    @property
    def protected(self) -> frozenset[str]:
        patterns = self.recipe.protect
        if patterns not in self._last_protected:
            self._last_protected = {patterns: protected_in(self.checkpoint, patterns)}
        return self._last_protected[patterns]

    def renew_methods(self) -> None:
        """Rebuild all steps from the currently loaded methods, after a plug-in was reloaded.

        Raises:
            RecipeError: a step no longer fits its method.
        """
        before, renewed = self.recipe, self.recipe.renewed()
        self.history = self.history.act(tr("Load methods again"), renewed)
        if before == self._saved_recipe:
            self._saved_recipe = renewed
        if before == self._recipe_in_file:
            self._recipe_in_file = renewed

    def note_draft(self, draft: DraftState, *, merge: bool = False, amend: bool = False) -> None:
        """Note a change of the draft, which can be undone; see `History.with_draft`."""
        self.history = self.history.with_draft(draft, merge=merge, amend=amend)

    def edit_step(self, index: int) -> None:
        """Put the draft aside, and draft what is to replace a step."""
        before = self.draft
        if before is not None and before.editing is not None:
            before = before.aside
        self.note_draft(DraftState.of(self.steps[index], editing=index, aside=before))

    def draft_step(self, step: Step) -> None:
        """Put the draft aside for a step that a view makes; it returns when that is added.

        A step of the same method that is edited stays so.
        """
        before, editing = self.draft, None
        if before is not None and (before.made_by_view or before.editing is not None):
            is_same = before.method == step.method.name
            editing, before = before.editing if is_same else None, before.aside
        made = DraftState.of(step, made_by_view=True, editing=editing, aside=before)
        self.note_draft(made)

    def end_draft(self) -> None:
        """Bring back the draft that was put aside, if there is one."""
        if self.draft is not None and self.draft.aside is not None:
            self.note_draft(self.draft.aside)

    def commit_draft(self) -> None:
        """Add the draft, or apply it to the edited step. The draft that was put aside returns."""
        draft = self.draft
        if draft is None or draft.step is None:
            return
        next_draft = draft.aside or draft.done()
        if draft.editing is None:
            label = tr("Add {method}", method=tr(draft.step.method.title))
            steps = (*self.steps, draft.step)
        else:
            label, steps = self._replaced(draft.editing, draft.step)
        recipe = self.recipe.with_steps(steps)
        if recipe == self.recipe:
            self.note_draft(next_draft)
        else:
            self.history = self.history.act(label, recipe, next_draft)

    def go_to_edit(self, index: int) -> None:
        self.history = self.history.at_edit(index)

    def name_state(self, name: str) -> None:
        self.named_states[name] = self.recipe

    def return_to(self, name: str) -> None:
        label = tr("Return to {state}", state=name)
        self.history = self.history.act(label, self.named_states[name])

    def forget_state(self, name: str) -> None:
        del self.named_states[name]

    def undo(self) -> None:
        self.history = self.history.undo()

    def redo(self) -> None:
        self.history = self.history.redo()

    def _replaced(self, index: int, step: Step) -> tuple[str, tuple[Step, ...]]:
        """Return the label of replacing a step, and the steps after that."""
        label = tr("Edit step {number}", number=index + 1)
        if change := describe_change(self.steps[index], step):
            label = tr("Edit step {number}: {change}", number=index + 1, change=change)
        return label, (*self.steps[:index], step, *self.steps[index + 1 :])

    def _set_steps(self, label: str, steps: Sequence[Step]) -> None:
        self.history = self.history.act(label, self.recipe.with_steps(tuple(steps)))


def start_folder(session: Session | None) -> Path:
    """Return the folder of the open checkpoint.

    It is the home folder without one, for the demo, and for a remote checkpoint.
    """
    if session is None or is_shipped(session.checkpoint.path):
        return Path.home()
    return session.checkpoint.location.own_folder
