"""The jobs of the application: what each does on the engine's thread, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import RecipeError, StepError
from prune_gui.language import later, tr
from prune_gui.pruning.methods import register
from prune_gui.pruning.plugins import use_installed
from prune_gui.recipe import Recipe
from prune_gui.session import Session, named_states
from prune_gui.worker.engine import Job

if TYPE_CHECKING:
    from prune_gui.errors import PluginError
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Form, OutputPath, Resolution, Step
    from prune_gui.recipe.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Draft:
    """A step that is looked at before it is one.

    Attributes:
        step: what it would be.
        replaces: the index of the step whose place it would take; None if it comes after them all.
    """

    step: Step
    replaces: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a recipe and the draft beside it come to.

    Attributes:
        recipe: that was resolved.
        resolution: of its steps, or of those before the first that cannot be carried out.
        error: why that step cannot be.
        before: the file as it is, before any step.
        draft: the step being drafted.
        preview: of the recipe with the draft in its place, or of the steps before the first that
            cannot be carried out then; None without a draft, or if that one cannot be.
        draft_error: why the draft, or a step that follows it, cannot be.
    """

    recipe: Recipe
    resolution: Resolution
    error: StepError | None
    before: Resolution
    draft: Draft | None
    preview: Resolution | None
    draft_error: str | None

    @property
    def draft_number(self) -> int | None:
        """The number that the draft has in `preview`; None if there is no preview."""
        if self.draft is None or self.preview is None:
            return None
        return _place(self.draft, self.recipe) + 1


def open_job(path: Path, recipe_path: Path | None = None, state: str | None = None) -> Job:
    """Open a checkpoint (or one state dict of it), and a recipe; returns a `Session`."""

    def work(monitor: Monitor) -> Session:
        monitor.advance()
        recipe = Recipe.load(recipe_path) if recipe_path else None
        checkpoint = open_checkpoint(path, state)
        return Session(checkpoint, recipe, recipe_path, named_states.load(checkpoint))

    return Job(later("Opening {name}", name=path.name), work)


def resolve_job(session: Session, draft: Draft | None) -> Job:
    """Resolve the session's recipe as it is now, and a draft after it; returns `Resolved`."""
    work = partial(_resolve, session, session.recipe, draft)
    return Job(later("Resolving"), work, lane="resolve")


def _resolve(session: Session, recipe: Recipe, draft: Draft | None, monitor: Monitor) -> Resolved:
    """Return what there is to show, all sums of it known: the window does not wait for them."""
    resolved = _resolved(session, recipe, draft, monitor)
    for shown in (resolved.before, resolved.resolution, resolved.preview):
        if shown is not None:
            _ = shown.total, [outcome.notes for outcome in shown.outcomes]
    if resolved.preview is not None and resolved.draft_number is not None:
        resolved.preview.of_targets(resolved.draft_number)
    return resolved


def _resolved(session: Session, recipe: Recipe, draft: Draft | None, monitor: Monitor) -> Resolved:
    error = None
    try:
        resolution = session.resolver.resolve(recipe, monitor)
    except StepError as problem:
        error = problem
        possible = recipe.with_steps(recipe.steps[: problem.step - 1])
        resolution = session.resolver.resolve(possible, monitor)
    before = session.resolver.after(0)
    assert before is not None  # it comes ahead of whatever was resolved
    resolved = partial(Resolved, recipe, resolution, error, before, draft)
    if draft is None:
        return resolved(None, None)
    place = _place(draft, recipe)
    preview = session.resolver.after(place)
    if preview is None:
        if error is None:
            return resolved(None, tr("The step is gone."))
        return resolved(None, tr("Step {number} has to be mended first.", number=error.step))
    try:
        preview = preview.with_step(draft.step, monitor)
    except RecipeError as problem:
        reason = problem.reason if isinstance(problem, StepError) else str(problem)
        return resolved(None, reason)
    try:
        for step in recipe.steps[place + 1 :]:
            preview = preview.with_step(step, monitor)
    except StepError as problem:
        return resolved(preview, str(problem))
    return resolved(preview, None)


def _place(draft: Draft, recipe: Recipe) -> int:
    return len(recipe.steps) if draft.replaces is None else draft.replaces


def compare_job(path: Path) -> Job:
    """Open a checkpoint to compare with; returns its `Resolution`, every zero of it pruned."""

    def work(monitor: Monitor) -> Resolution:
        from prune_gui.recipe import initial_resolution

        other = open_checkpoint(path)
        try:
            return initial_resolution(Recipe(start="zeros"), other, monitor)
        except BaseException:
            other.close()
            raise

    return Job(later("Opening {name} to compare with", name=path.name), work)


def export_job(
    session: Session, out: Path, form: Form, *, overwrite: bool, shard_size: int | None = None
) -> Job:
    """Resolve the session's recipe as it is now and write it to `out`; returns `out`."""
    recipe = session.recipe

    def work(monitor: Monitor) -> Path:
        from prune_gui.recipe.exporting import write

        resolution = session.resolver.resolve(recipe, monitor)
        write(resolution, out, form, overwrite=overwrite, monitor=monitor, shard_size=shard_size)
        return out

    return Job(later("Saving {name}", name=out.name), work, writes=True)


def sizes_job(session: Session, target: OutputPath) -> Job:
    """Resolve the session's recipe as it is now; returns the `Sizes` it would have at a target."""
    recipe = session.recipe

    def work(monitor: Monitor) -> Sizes:
        from prune_gui.recipe.sizes import measure

        return measure(session.resolver.resolve(recipe, monitor), target, monitor)

    return Job(later("Working out sizes"), work, lane="sizes", urgent=True)


def warm_up_job() -> Job:
    """Load the libraries that everything else needs, while the user looks at the window.

    Then load the methods of installed packages; returns what is wrong with those, if anything.
    """

    def work(monitor: Monitor) -> tuple[PluginError, ...]:
        from prune_gui.worker.warm_up import warm_up

        warm_up()
        return use_installed()

    return Job(later("Starting the engine"), work)


def threads_job(count: int | None) -> Job:
    """Have the engine work on so many threads; None for as many as torch takes by itself."""

    def work(_: Monitor) -> None:
        from prune_gui.pruning.parallel import use_threads

        use_threads(count)

    return Job(later("Changing the number of threads"), work, lane="threads")


def compile_jobs() -> list[Job]:
    """Return jobs that compile, or load from the cache, what the others would have to wait for.

    To be asked for after `warm_up_job`, as they need its libraries.
    """
    from prune_gui.worker.warm_up import loops

    def job(compile_some: Callable[[], object]) -> Job:
        return Job(later("Preparing"), lambda _: compile_some(), idle=True)

    return [job(compile_some) for compile_some in loops()]


def methods_job(path: Path) -> Job:
    """Run a Python file and offer its methods; returns them. The user has agreed to it."""

    def work(monitor: Monitor) -> list[type[Method]]:
        from prune_gui.pruning.plugins import load_file

        methods = load_file(path)
        monitor.advance()
        register(methods)
        return methods

    return Job(later("Loading methods from {name}", name=path.name), work)
