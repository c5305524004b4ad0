"""The open document and everything a user does to it; the one place where it changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from prune_gui.checkpoint import Checkpoint
from prune_gui.language import later, tr, trn
from prune_gui.recipe import Recipe, Step, patterns_for, select
from prune_gui.recipe.provenance import Provenance
from prune_gui.session.file_stamps import FileStamps
from prune_gui.session.history import History
from prune_gui.session.module_index import ModuleIndex
from prune_gui.session.resolver import Resolver
from prune_gui.session.score_histogram_cache import ScoreHistogramCache


class Session:
    """An open checkpoint and the recipe being made for it.

    Attributes:
        checkpoint: open for as long as the session is.
        stamps: how its files stood when it was opened.
        outline: the tree of its modules.
        resolver: for the engine's thread only.
        score_histograms: likewise.
        history: every recipe so far.
        named_states: recipes that the user gave names to.
        kept_states: those of them that are on disk, see `session/named_states.py`.
        made: how this program made the checkpoint; None if it did not.
        remarks: what a person should know about the checkpoint, one sentence each.
        recipe_path: the file the recipe was read from or last saved to, if any.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        recipe: Recipe | None = None,
        recipe_path: Path | None = None,
        named_states: Mapping[str, Recipe] | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.stamps = FileStamps.of((checkpoint.path, *checkpoint.files))
        self.outline = ModuleIndex(checkpoint.tensors.values(), lambda: checkpoint.kinds)
        self.resolver = Resolver(checkpoint)
        self.score_histograms = ScoreHistogramCache(checkpoint)
        self.made = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
        self.remarks = (*checkpoint.warnings, *(self.made.remarks if self.made else ()))
        self.history = History.begin(recipe or Recipe())
        self.named_states = dict(named_states or {})
        self.kept_states = dict(self.named_states)
        self._protected: tuple[tuple[str, ...], frozenset[str]] = ((), frozenset())  # by patterns
        self.recipe_path = recipe_path
        self._saved = self.recipe
        self._in_file = self.recipe if recipe_path is not None else None

    @property
    def recipe(self) -> Recipe:
        """The recipe as it is now."""
        return self.history.recipe

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the recipe as it is now."""
        return self.recipe.steps

    @property
    def unsaved(self) -> bool:
        """Whether the recipe differs from what was opened or last saved."""
        return self.recipe != self._saved

    @property
    def recipe_file(self) -> Path | None:
        """The recipe file, if it holds just the recipe as it is now."""
        return self.recipe_path if self.recipe == self._in_file else None

    def mark_saved(self, recipe: Recipe, path: Path | None = None) -> None:
        """Note that `recipe` has been saved, to `path` if it went to a recipe file."""
        self._saved = recipe
        if path is not None:
            self.recipe_path, self._in_file = path, recipe

    def use_recipe(self, recipe: Recipe, path: Path) -> None:
        """Take the steps of a recipe file in place of the ones there are."""
        self.history = self.history.act(tr("Open recipe"), recipe)
        self.mark_saved(recipe, path)

    def use_own_recipe(self) -> None:
        """Take the steps that the checkpoint was made with in place of the ones there are."""
        if self.made is not None and self.made.recipe is not None:
            self.history = self.history.act(tr("Take the file's recipe"), self.made.recipe)

    def take_over(self, other: Session) -> None:
        """Go on with the recipe of another session: its history, named states and file.

        What was not saved there is not saved here; named states that are here stay too.
        """
        self.history = other.history
        self.named_states |= other.named_states
        self.recipe_path = other.recipe_path
        self._saved = other._saved
        self._in_file = other._in_file

    def bring_back(self, recipe: Recipe, path: Path | None) -> None:
        """Take the steps that were not saved when the program last ended; they still are not."""
        self.history = self.history.act(tr("Bring back unsaved steps"), recipe)
        self.recipe_path = path

    def add(self, step: Step) -> None:
        """Append a step."""
        label = tr("Add {method}", method=tr(step.method.title))
        self._act(label, (*self.steps, step))

    def add_preset(self, name: str, steps: Sequence[Step]) -> None:
        """Append the steps of a preset, as one act."""
        self._act(tr("Add preset {name}", name=name), (*self.steps, *steps))

    def replace(self, index: int, step: Step) -> None:
        """Put `step` in the place of another."""
        steps = list(self.steps)
        steps[index] = step
        self._act(tr("Edit step {number}", number=index + 1), steps)

    def switch(self, index: int, *, enabled: bool) -> None:
        """Switch a step on or off; it keeps its place."""
        steps = list(self.steps)
        steps[index] = steps[index].model_copy(update={"enabled": enabled})
        label = later("Switch on step {number}") if enabled else later("Switch off step {number}")
        self._act(tr(label, number=index + 1), steps)

    def move(self, index: int, to: int) -> None:
        """Move a step so that it becomes number `to` (from 0)."""
        steps = list(self.steps)
        steps.insert(to, steps.pop(index))
        self._act(tr("Move step {number} to {place}", number=index + 1, place=to + 1), steps)

    def duplicate(self, index: int) -> None:
        """Put a copy of a step behind it."""
        steps = [*self.steps[: index + 1], *self.steps[index:]]
        self._act(tr("Duplicate step {number}", number=index + 1), steps)

    def remove(self, index: int) -> None:
        """Take a step out."""
        steps = [*self.steps[:index], *self.steps[index + 1 :]]
        self._act(tr("Remove step {number}", number=index + 1), steps)

    def clear(self) -> None:
        """Take all steps out."""
        self._act(tr("Remove all steps"), ())

    def protect(self, names: Collection[str], *, on: bool) -> None:
        """Let no step touch parameters any more, or let them again."""
        tensors, now = self.checkpoint.tensors.values(), self.protected
        wanted = now | set(names) if on else now - set(names)
        recipe = self.recipe.model_copy(update={"protect": patterns_for(wanted, tensors)})
        self.history = self.history.act(_protecting(names, on=on), recipe)

    @property
    def protected(self) -> frozenset[str]:
        """The names of the parameters that no step touches."""
        patterns, every = self.recipe.protect, self.checkpoint.tensors.values()
        if not patterns:  # which would choose everything
            return frozenset()
        if patterns != self._protected[0]:
            chosen = select(patterns, every, kinds=lambda: self.checkpoint.kinds)
            self._protected = patterns, frozenset(info.name for info in chosen)
        return self._protected[1]

    def renew_methods(self) -> None:
        """Take the methods of all steps as they are loaded now: a plug-in may have been mended.

        Raises:
            RecipeError: a step no longer fits its method.
        """
        before, renewed = self.recipe, self.recipe.renewed()
        self.history = self.history.act(tr("Load methods again"), renewed)
        if before == self._saved:
            self._saved = renewed
        if before == self._in_file:
            self._in_file = renewed

    def go_to(self, moment: int) -> None:
        """Take the recipe as it was at a moment of the history."""
        self.history = self.history.at(moment)

    def name_state(self, name: str) -> None:
        """Keep the recipe as it is now under a name; one that has it already is replaced."""
        self.named_states[name] = self.recipe

    def return_to(self, name: str) -> None:
        """Take the recipe of that name."""
        label = tr("Return to {state}", state=name)
        self.history = self.history.act(label, self.named_states[name])

    def forget_state(self, name: str) -> None:
        """Keep the recipe of that name no longer."""
        del self.named_states[name]

    def undo(self) -> None:
        """Go back one act."""
        self.history = self.history.undo()

    def redo(self) -> None:
        """Go forward one act."""
        self.history = self.history.redo()

    def _act(self, label: str, steps: Sequence[Step]) -> None:
        self.history = self.history.act(label, self.recipe.with_steps(tuple(steps)))


def _protecting(names: Collection[str], *, on: bool) -> str:
    """Return what the act is called that protects parameters, or does so no longer."""
    if len(names) == 1:
        (name,) = names
        message = later("Protect {name}") if on else later("Protect {name} no longer")
        return tr(message, name=name)
    if on:
        return trn("Protect {count:,} parameter", "Protect {count:,} parameters", len(names))
    return trn(
        "Protect {count:,} parameter no longer",
        "Protect {count:,} parameters no longer",
        len(names),
    )
