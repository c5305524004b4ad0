"""The jobs of the application: their work on the engine's threads, and their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.write.documents import write_documents
from prune_gui.engine import Job
from prune_gui.errors import PruneGuiError, RecipeError, StepError
from prune_gui.executor import Executor, current_executor, use_executor
from prune_gui.language import deferred, tr
from prune_gui.pruning.kernels.numba_control import NotCompiledError, only_from_cache
from prune_gui.pruning.methods import register
from prune_gui.pruning.plugins import use_installed
from prune_gui.recipe import Recipe
from prune_gui.recipe.recipe import Provenance
from prune_gui.recipe.selector import select_in
from prune_gui.session import Session, kept_recipes
from prune_gui.worker.warm_up import import_for_first_picture, import_rest, loops

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.errors import PluginError
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import OutputOptions, OutputPath, Resolution, Step
    from prune_gui.recipe.amounts import Amount
    from prune_gui.recipe.sizes import Sizes
    from prune_gui.session.sweep import Sweep
    from prune_gui.statistics.file_zeros import FileZeros

MAX_PAINT_S: Final = 0.3
"""Limit of the wait until the window has painted the file that it opened."""
ZEROS_SLICE_S: Final = 0.05
"""Time for which zeros are counted before other jobs can run."""
MAX_ELEMENTS_AT_ONCE: Final = 1 << 26
"""Zeros of larger files are counted when the engine is idle; those of others take about 0.3 s."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A step that is previewed before it is added."""

    step: Step
    replaces: int | None = None

    def index_in(self, recipe: Recipe) -> int:
        """Return the index of the step in a recipe with the draft."""
        return len(recipe.steps) if self.replaces is None else self.replaces


@dataclass(frozen=True, slots=True)
class Resolved:
    """The resolutions of a recipe without and with a draft step.

    Attributes:
        masks: resolution whose parameters are the masks in the file, see `recipe.mask_tensors`.
        preview: resolution of the recipe with the draft, up to the first later step that fails;
            None without a draft, or if the draft or a step before it fails.
        draft_error: error of the draft or of a later step; None if there is none.
    """

    recipe: Recipe
    resolution: Resolution
    error: StepError | None
    before: Resolution
    masks: Resolution
    draft: Draft | None
    preview: Resolution | None
    draft_error: str | None

    @property
    def draft_number(self) -> int | None:
        """Number of the draft step in `preview`, from 1; None if there is no preview."""
        known = self.draft is not None and self.preview is not None
        return self.draft.index_in(self.recipe) + 1 if self.draft and known else None

    def without_draft(self) -> Resolved:
        """Return what is resolved of the recipe alone."""
        return replace(self, draft=None, preview=None, draft_error=None)

    def preview_of(self, draft: Draft) -> tuple[Resolution | None, int | None]:
        """Return the preview and the number of a draft; None if another one was resolved."""
        return (self.preview, self.draft_number) if self.draft == draft else (None, None)


def open_job(path: Path, recipe_path: Path | None = None, state: str | None = None) -> Job:
    """Open a checkpoint (or one state dict of it) and a recipe; the result is a `Session`."""

    def work(monitor: Monitor) -> Session:
        monitor.advance()
        recipe = Recipe.load(recipe_path) if recipe_path else None
        with ExitStack() as on_error:
            checkpoint = on_error.enter_context(open_checkpoint(path, state))
            kept = kept_recipes.load_kept(checkpoint)
            session = Session(checkpoint, recipe, recipe_path, *kept)
            on_error.pop_all()
        return session

    title = deferred("Opening {name}", name=path.name)
    return Job(title, work, discard=lambda session: session.checkpoint.close())


def resolve_job(session: Session, draft: Draft | None) -> Job:
    """Resolve the session's current recipe and a draft; the result is a `Resolved`."""
    recipe = session.recipe

    def work(monitor: Monitor) -> Resolved:
        resolved = _resolve(session, recipe, draft, monitor)
        # Compute what the window shows with it, so that the window need not wait.
        _ = session.correction
        for resolution in (resolved.before, resolved.resolution, resolved.preview):
            if resolution is not None:
                _ = resolution.total, [outcome.warnings for outcome in resolution.outcomes]
        if resolved.preview is not None and resolved.draft_number is not None:
            resolved.preview.of_targets(resolved.draft_number)
        return resolved

    return Job(deferred("Resolving"), work, lane="resolve", spreads=True)


def _resolve(session: Session, recipe: Recipe, draft: Draft | None, monitor: Monitor) -> Resolved:
    error = None
    try:
        resolution = session.resolver.resolve(recipe, monitor)
    except StepError as problem:
        error = problem
        resolvable = recipe.with_steps(recipe.steps[: problem.step - 1])
        resolution = session.resolver.resolve(resolvable, monitor)
    before = session.resolver.after(0)
    assert before is not None  # the resolution before the first step always exists
    masks = session.resolver.masks(monitor)
    resolved = partial(Resolved, recipe, resolution, error, before, masks, draft)
    if draft is None:
        return resolved(None, None)
    preview = session.resolver.after(draft.index_in(recipe))
    if preview is None and error is not None:
        return resolved(None, tr("Correct step {number} first.", number=error.step))
    if preview is None:
        return resolved(None, tr("The step no longer exists."))
    try:
        with use_executor(_executor_of(draft.step, preview)):
            preview = preview.with_step(draft.step, monitor)
    except RecipeError as problem:
        return resolved(None, problem.reason if isinstance(problem, StepError) else str(problem))
    try:
        for step in recipe.steps[draft.index_in(recipe) + 1 :]:
            preview = preview.with_step(step, monitor)
    except StepError as problem:
        return resolved(preview, str(problem))
    return resolved(preview, None)


def _executor_of(step: Step, before: Resolution) -> Executor | None:
    """Return the current executor, but None for a step with one target: it takes longer there."""
    executor = current_executor()
    if executor is None:
        return None
    every_kind = step.method.takes_every_kind
    found = select_in(before.checkpoint, step.targets, before.counts, every_kind=every_kind)
    return executor if len(found) > 1 else None


def zeros_job(session: Session) -> Job:
    """Continue to count the zeros of the file for a short time.

    The result is a `FileZeros`; None for a remote checkpoint that is not fetched.
    """

    def work(monitor: Monitor) -> FileZeros | None:
        from prune_gui.statistics.zero_scan import ZeroScan  # torch: slow to import

        if not session.checkpoint.is_fetched:
            return None
        session.zero_scan = session.zero_scan or ZeroScan(session.checkpoint)
        return session.zero_scan.advance(ZEROS_SLICE_S, monitor)

    is_large = int(session.module_index.elements.sum()) > MAX_ELEMENTS_AT_ONCE
    return Job(deferred("Counting zeros"), work, lane="zeros", idle=is_large, spreads=is_large)


def missing_job(session: Session) -> Job:
    """Find out how much of a remote checkpoint is not fetched; the result is in bytes."""
    checkpoint = session.checkpoint
    title = deferred("Fetching {name}", name=checkpoint.path.name)
    return Job(title, lambda _: checkpoint.missing_nbytes(checkpoint.tensors), lane="fetch")


def fetch_job(session: Session) -> Job:
    """Fetch all of a remote checkpoint; the result is None."""
    title = deferred("Fetching {name}", name=session.checkpoint.path.name)
    return Job(title, session.checkpoint.fetch, lane="fetch", long=True)


def compare_job(path: Path) -> Job:
    """Open a checkpoint to compare with; the result is a `Resolution` with its zeros pruned."""

    def work(monitor: Monitor) -> Resolution:
        from prune_gui.recipe import initial_resolution  # torch: slow to import

        with ExitStack() as on_error:
            other = on_error.enter_context(open_checkpoint(path))
            resolution = initial_resolution(Recipe(start="zeros"), other, monitor)
            on_error.pop_all()
        return resolution

    def discard(resolution: Resolution) -> None:
        resolution.checkpoint.close()

    title = deferred("Opening {name} to compare with", name=path.name)
    return Job(title, work, long=True, spreads=True, discard=discard)


def original_job(session: Session, recent: Sequence[Path]) -> Job:
    """Look for the checkpoint from which the session's was made; the result is a path or None."""

    def work(monitor: Monitor) -> Path | None:
        from prune_gui.session.originals import find_original  # only for pruned files

        return find_original(session.checkpoint, recent, monitor)

    title = deferred("Looking for the original of {name}", name=session.checkpoint.path.name)
    return Job(title, work, lane="original", idle=True, rests=True)


def mask_step_job(session: Session, path: Path) -> Job:
    """Find the masks in a file; the result is a `Step` that applies them, or None."""

    def work(monitor: Monitor) -> Step | None:
        from prune_gui.recipe.auxiliary_files import mask_step  # torch: slow to import

        return mask_step(path, session.checkpoint, monitor)

    return Job(deferred("Looking for masks in {name}", name=path.name), work)


def table_job(session: Session, path: Path) -> Job:
    """Check that a table of an architecture describes the units of the session's checkpoint."""

    def work(monitor: Monitor) -> None:
        from prune_gui.architecture.groups import check_table  # yaml: slow to import

        monitor.advance()
        check_table(session.checkpoint, path)

    return Job(deferred("Reading the table {name}", name=path.name), work)


def trace_job(session: Session, builder: str, out: Path) -> Job:
    """Trace the network that code builds, and write its table; the result is what is not known."""

    def work(monitor: Monitor) -> tuple[str, ...]:
        from prune_gui.tracing.naming import as_yaml  # yaml: slow to import
        from prune_gui.tracing.process import trace_file

        table = trace_file(builder, session.checkpoint, monitor)
        write_documents({out: as_yaml(table).encode()})
        return table.unknown

    return Job(deferred("Tracing {name}", name=Path(builder).name), work, long=True)


def export_job(session: Session, out: Path, options: OutputOptions) -> Job:
    """Resolve the session's current recipe and export it to `out`; the result is `out`."""
    recipe = session.recipe

    def work(monitor: Monitor) -> Path:
        from prune_gui.recipe.exporting import write  # torch: slow to import

        session.checkpoint.check_fetch(session.checkpoint.tensors)  # before its parts are fetched
        resolution = session.resolver.copy().resolve(recipe, monitor)
        write(resolution, out, options, monitor)
        _remember_original(session.checkpoint, out)
        return out

    title = deferred("Saving {name}", name=out.name)
    return Job(title, work, long=True, writes=True, spreads=True)


def _remember_original(original: Checkpoint, out: Path) -> None:
    """Note the fingerprint of a checkpoint as a file that was made from it has it."""
    from prune_gui.session.originals import remember_original  # only for pruned files

    with suppress(PruneGuiError), open_checkpoint(out) as pruned:
        if (made := Provenance.of(pruned.metadata)) is not None and made.input:
            remember_original(original, made.input)


def reconstruct_job(
    folder: Path,
    recipe: Recipe,
    calibration: Path,
    out: Path,
    *,
    samples: int,
    length: int,
    choose: bool,
    tuning_steps: int,
    spread: float,
) -> Job:
    """Reconstruct the model of a folder, and report each `LayerError` and `BlockError`.

    The result is `out`. What is finished is kept if the job is cancelled.
    """

    def work(monitor: Monitor) -> Path:
        # torch: slow to import
        from prune_gui.pruning.devices import chosen_device
        from prune_gui.recipe.output import OutputOptions
        from prune_gui.reconstruction.folder import CalibrationFile, FolderRun
        from prune_gui.reconstruction.running import Options

        with FolderRun.opened(
            folder,
            recipe,
            CalibrationFile(calibration, samples, length),
            out,
            options=Options(choose=choose, tuning_steps=tuning_steps, spread=spread),
            output=OutputOptions(),
            device=chosen_device(),
        ) as run:
            run.run(monitor, monitor.report)
        with open_checkpoint(folder) as original:
            _remember_original(original, out)
        return out

    return Job(deferred("Reconstructing {name}", name=folder.name), work, long=True, writes=True)


def sizes_job(session: Session, target: OutputPath) -> Job:
    """Resolve the session's current recipe; the result is the `Sizes` of an export to `target`."""
    recipe = session.recipe

    def work(monitor: Monitor) -> Sizes:
        from prune_gui.recipe.sizes import measure  # torch: slow to import

        return measure(session.resolver.resolve(recipe, monitor), target, monitor)

    return Job(deferred("Computing file sizes"), work, lane="sizes", urgent=True, spreads=True)


def warm_up_job(painted: threading.Event) -> Job:
    """Import the libraries of the first picture, then load methods of installed packages.

    The result is a tuple of the errors of packages whose methods cannot be used.
    """

    def work(_: Monitor) -> tuple[PluginError, ...]:
        painted.wait(MAX_PAINT_S)
        import_for_first_picture()
        return use_installed()

    return Job(deferred("Starting the engine"), work)


def import_job() -> Job:
    """Import the remaining modules of the engine, which would otherwise be imported when used."""
    return Job(deferred("Starting the engine"), lambda _: import_rest(), idle=True)


def device_job(name: str) -> Job:
    """Return a job that sets where corrections are computed, for the whole process."""

    def work(_: Monitor) -> None:
        from prune_gui.pruning.devices import use_device  # torch: slow to import

        use_device(name)

    return Job(deferred("Changing the device"), work, lane="device")


def threads_jobs(count: int | None) -> list[Job]:
    """Return jobs that set the number of worker threads; None for torch's default.

    torch keeps the number per thread, so that each thread of the engine runs one of these jobs.
    """

    def work(_: Monitor) -> None:
        from prune_gui.parallel import use_threads  # torch: slow to import

        use_threads(count)

    quick = Job(deferred("Changing the number of threads"), work, lane="threads.quick")
    return [
        quick,
        replace(quick, lane="threads.long", long=True),
        replace(quick, lane="threads.idle", idle=True),
        replace(quick, lane="threads.evaluation", evaluates=True),
    ]


def compile_jobs() -> list[Job]:
    """Return jobs that load the compiled loops before they are needed.

    The result of each is whether code is missing in the cache; see `warm_up.main`. Call this
    after `import_job` has run, since it imports torch.
    """

    def is_missing(use_some: Callable[[], object], _: Monitor) -> bool:
        try:
            with only_from_cache():
                use_some()
        except NotCompiledError:
            return True
        return False

    return [Job(deferred("Preparing"), partial(is_missing, one), idle=True) for one in loops()]


def methods_job(path: Path) -> Job:
    """Run a Python file that the user has confirmed and register its methods, the result."""

    def work(monitor: Monitor) -> list[type[Method]]:
        from prune_gui.pruning.plugins import load_file  # torch: slow to import

        methods = load_file(path)
        monitor.advance()
        register(methods)
        return methods

    return Job(deferred("Loading methods from {name}", name=path.name), work)


def sweep_jobs(session: Session, number: int, amounts: Sequence[Amount]) -> list[Job]:
    """Return a job per amount of step `number` of the current recipe, each with a `SweepRow`."""
    recipe = session.recipe

    @cache
    def sweep() -> Sweep:
        from prune_gui.session.sweep import Sweep  # torch: slow to import

        return Sweep(session.resolver.copy(), recipe, number)

    def job(position: int, amount: Amount) -> Job:
        title = deferred("Trying amount {place} of {total}", place=position, total=len(amounts))
        return Job(title, lambda monitor: sweep().row(amount, monitor), long=True, spreads=True)

    return [job(position, amount) for position, amount in enumerate(amounts, start=1)]


def batch_jobs(
    recipe: Recipe, paths: Sequence[Path], folder: Path | None, options: OutputOptions
) -> list[Job]:
    """Return jobs that apply a recipe to one checkpoint each; each returns a `BatchRow`."""
    from prune_gui.recipe.several_files import outputs, prune_file  # only for batches

    targets = outputs(paths, folder) if folder is not None else [None] * len(paths)
    jobs = []
    for place, (path, out) in enumerate(zip(paths, targets, strict=True), start=1):
        title = deferred(
            "Pruning {name} ({place} of {total})", name=path.name, place=place, total=len(paths)
        )
        work = partial(prune_file, recipe, path, out, options)
        jobs.append(Job(title, work, long=True, writes=out is not None, spreads=True))
    return jobs


def report_job(
    session: Session,
    reference: Checkpoint | None,
    page: Path,
    table: Path | None,
    *,
    with_folders: bool,
    overwrite: bool,
) -> Job:
    """Resolve the session's current recipe and write a report on it; the result is `page`."""
    recipe = session.recipe

    def work(monitor: Monitor) -> Path:
        from prune_gui.report.collecting import report_on_stack  # torch: slow to import
        from prune_gui.report.writing import check_targets, write

        paths = check_targets(page, table, overwrite=overwrite)
        resolution = session.resolver.copy().resolve(recipe, monitor)
        report = report_on_stack(resolution, reference, monitor, with_folders=with_folders)
        monitor.advance()
        write(report, *paths, overwrite=overwrite)
        return paths[0]

    title = deferred("Writing the report {name}", name=page.name)
    return Job(title, work, long=True, writes=True, spreads=True)
