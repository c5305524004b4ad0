"""The state of a window and the operations on it; the only link between the panels."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal

from prune_gui.errors import RecipeError
from prune_gui.gui.bridge import Bridge
from prune_gui.language import deferred, tr
from prune_gui.session.manual_channels import drafted_channels
from prune_gui.session.subjects import model_subject_of, subject_of
from prune_gui.worker import Dropped, Event, Job
from prune_gui.worker.jobs import (
    Draft,
    Resolved,
    compare_job,
    compile_jobs,
    export_job,
    methods_job,
    open_job,
    resolve_job,
    sizes_job,
    threads_job,
    warm_up_job,
)

if TYPE_CHECKING:
    from prune_gui.audit.view_data.model_subject import ModelSubject
    from prune_gui.audit.view_data.subject import Subject
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.errors import PluginError
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Form, OutputPath, Recipe, Resolution, Step
    from prune_gui.recipe.sizes import Sizes
    from prune_gui.session import Session

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class Workbench(QObject):
    """The open session, its resolution, the draft step, and the chosen parameter.

    Panels read the attributes, connect to the signals, and call the methods for what the user
    does. Every change of the recipe goes through `edit`.

    Attributes:
        session: None until a checkpoint is open.
        resolved: the resolution of recipe and draft; out of date while the engine works.
        draft: the step in the form, which every view shows as if it were added; None without one.
        before: whether the views show the file unchanged, without the stack and the draft.
        chosen: the name of the parameter that the views show.
        other: the resolution of another checkpoint to compare with, its zeros counted as pruned;
            None until the user chooses one.

    Signals:
        ready: the engine's libraries and the methods of installed packages are loaded.
        methods_loaded: (methods) the pruning methods of a file were loaded.
        methods_renewed: the available methods changed.
        opened: `session` changed.
        edited: the recipe, its history or its file changed.
        resolved_changed: `resolved` or `before` changed.
        resolving_stopped: the user cancelled resolving; `resolved` stays out of date.
        chosen_changed: `chosen` changed.
        other_changed: `other` changed.
        saved: (path) a file was written.
        copied: (note) something was copied to the clipboard; the note describes it to the user.
        failed: (what was tried, error) an operation failed.
    """

    ready = Signal()
    methods_loaded = Signal(object)
    methods_renewed = Signal()
    opened = Signal()
    edited = Signal()
    resolved_changed = Signal()
    resolving_stopped = Signal()
    chosen_changed = Signal()
    other_changed = Signal()
    saved = Signal(object)
    copied = Signal(str)
    failed = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.bridge = Bridge(self)
        self.session: Session | None = None
        self.resolved: Resolved | None = None
        self.draft: Draft | None = None
        self.before = False
        self.chosen: str | None = None
        self.other: Resolution | None = None
        self._closing: list[Checkpoint] = []  # to be closed after the last job that reads them
        self._resolve_ticket: int | None = None
        self.bridge.happened.connect(self._on_resolve_dropped)

    @property
    def shown(self) -> Resolution | None:
        """The resolution that the views show: with the draft, if it can be resolved."""
        if self.resolved is None:
            return None
        if self.before:
            return self.resolved.before
        return self.resolved.preview or self.resolved.resolution

    @property
    def draft_number(self) -> int | None:
        """The number of the draft as a step, from 1; None if `shown` does not include it."""
        return self.resolved.draft_number if self.resolved and not self.before else None

    @property
    def subject(self) -> Subject | str:
        """The parameter that the views show, or a message that says why there is none."""
        return subject_of(self.session, self.shown, self.chosen, self.draft_number)

    @property
    def model_subject(self) -> ModelSubject | str:
        """All parameters, or a message that says why there are none."""
        return model_subject_of(self.session, self.shown, self.draft_number)

    def module_type_of(self, parameter: str) -> str:
        """Return the inferred type of the module that holds a parameter; "" if it is unknown."""
        return self.session.module_index.module_type_of(parameter) if self.session else ""

    def drafted_channels(self, dim: int) -> frozenset[int] | None:
        """Return the channels of the chosen parameter that the draft prunes along `dim`.

        None if the draft does not prune channels along `dim`, has other targets, or is not
        resolved.
        """
        draft, resolved, name, session = self.draft, self.resolved, self.chosen, self.session
        if draft is None or resolved is None or name is None or session is None:
            return None
        outcome = None
        if resolved.draft == draft and resolved.preview and resolved.draft_number:
            outcome = resolved.preview.outcomes[resolved.draft_number - 1]
        return drafted_channels(draft.step, outcome, dim, name, session.checkpoint)

    def warm_up(self) -> None:
        """Load the engine's libraries in the background."""
        self._run(warm_up_job(), self._warmed_up)

    def load(self, work: Callable[[], None], then: Callable[[], None]) -> int:
        """Run imports for the GUI on the engine's thread, which does not block the window."""
        return self._run(Job(deferred("Starting the engine"), lambda _: work()), lambda _: then())

    def use_threads(self, count: int | None) -> None:
        """Set the number of worker threads; None for the default of torch."""
        self._run(threads_job(count), lambda _: None)

    def show_before(self, *, on: bool) -> None:
        """Show the file unchanged, or the recipe and the draft again."""
        if on != self.before:
            self.before = on
            self.resolved_changed.emit()

    def fail(self, tried: str, error: Exception) -> None:
        """Log an error and emit `failed`. Failed jobs are logged by the engine."""
        log.warning("%s: %s", tried, error)
        self.failed.emit(tr(tried), error)

    def load_methods(self, path: Path) -> None:
        """Run a Python file and register its methods; the caller has asked the user."""
        self._run(methods_job(path), self._methods_loaded)

    def renew_methods(self) -> None:
        """Update the steps to the methods registered now, after another window loaded a file."""
        self.edit(lambda session: session.renew_methods())
        self.methods_renewed.emit()

    def open(self, path: Path, recipe_path: Path | None = None, state: str | None = None) -> int:
        """Open a checkpoint. The current one stays open until that succeeds."""
        return self._run(open_job(path, recipe_path, state), self._opened)

    def reload(self) -> None:
        """Open the checkpoint file again, and keep the recipe and its history."""
        before = self.session
        if before is None:
            return

        def reloaded(session: Session) -> None:
            if self.session is before:
                self.switch_to(session)
            else:  # another checkpoint was opened meanwhile
                session.checkpoint.close()

        checkpoint = before.checkpoint
        self._run(open_job(checkpoint.path, state=checkpoint.state_dict or None), reloaded)

    def prepare(self, path: Path, then: Callable[[Session], None]) -> None:
        """Open another checkpoint, and call `then`, which passes it to `switch_to` or closes it."""
        self._run(open_job(path), then)

    def switch_to(self, session: Session) -> None:
        """Switch to another session; keep the recipe, its history and the chosen parameter."""
        chosen = self.chosen
        if self.session is not None:
            session.take_over(self.session)
        self._opened(session)
        if chosen in session.checkpoint.tensors:
            self.choose(chosen)

    def use_recipe(self, recipe: Recipe, path: Path) -> None:
        """Replace the steps by those of a recipe file."""
        self.edit(lambda session: session.use_recipe(recipe, path))

    def edit(self, act: Callable[[Session], None]) -> None:
        """Change the recipe: `act` calls a method of the session. Errors go to `failed`."""
        if self.session is None:
            return
        try:
            act(self.session)
        except RecipeError as error:
            self.fail(deferred("Changing the recipe"), error)
            return
        self.edited.emit()
        self.resolve()

    def set_draft(self, step: Step | None, replaces: int | None = None) -> None:
        """Show `step` as if it were added, or as if it replaced the step at index `replaces`."""
        draft = Draft(step, replaces) if step else None
        if draft != self.draft:
            self.draft = draft
            self.resolve()

    def commit_draft(self) -> None:
        """Make the draft a step of the recipe."""
        draft, self.draft = self.draft, None
        if draft is None:
            return
        if draft.replaces is None:
            self.edit(lambda session: session.add(draft.step))
        else:
            index = draft.replaces
            self.edit(lambda session: session.replace(index, draft.step))

    def resolve(self) -> None:
        """Resolve the recipe and the draft on the engine's thread."""
        if self.session is not None:
            job = resolve_job(self.session, self.draft)
            self._resolve_ticket = self._run(job, self._set_resolved)

    def choose(self, name: str | None) -> None:
        """Show another parameter. A name that the open checkpoint does not have is ignored.

        A picture of the previous checkpoint may still send such names.
        """
        known = self.session.checkpoint.tensors if self.session else ()
        if name != self.chosen and (name is None or name in known):
            self.chosen = name
            self.chosen_changed.emit()

    def choose_beside(self, by: int) -> None:
        """Show the next prunable parameter of the file (`by` = 1) or the previous one (-1)."""
        if self.session is None or self.chosen is None:
            return
        tensors = self.session.checkpoint.tensors
        names = list(tensors)
        index = names.index(self.chosen) + by
        while 0 <= index < len(names):
            if tensors[names[index]].not_prunable is None:
                self.choose(names[index])
                return
            index += by

    def compare_with(self, path: Path) -> None:
        """Open a checkpoint to compare with, in place of `other`."""
        self._run(compare_job(path), self._set_other)

    def save(
        self, out: Path, form: Form, *, overwrite: bool, shard_size: int | None = None
    ) -> int | None:
        """Write the pruned checkpoint; return the ticket of the job, None without a session."""
        session = self.session
        if session is None:
            return None
        recipe = session.recipe

        def saved(path: Path) -> None:
            session.mark_saved(recipe)
            self.saved.emit(path)
            self.edited.emit()

        job = export_job(session, out, form, overwrite=overwrite, shard_size=shard_size)
        return self._run(job, saved)

    def compute_sizes(
        self,
        target: OutputPath,
        then: Callable[[Sizes], None],
        failed: Callable[[BaseException], None],
    ) -> int | None:
        """Compute the size of the pruned checkpoint. A newer call replaces an older one.

        Returns the ticket of the job, None without a session.
        """
        if self.session is None:
            return None

        def done(result: object) -> None:
            then(result)  # type: ignore[arg-type]

        return self.bridge.run(sizes_job(self.session, target), done, failed)

    def run_job(
        self, lane: str, work: Callable[[Monitor], Result], then: Callable[[Result], None]
    ) -> int:
        """Run `work` urgently on the engine's thread; a newer job of a lane replaces an older one.

        Returns the ticket of the job. `then` gets the result on the GUI thread.
        """
        return self._run(Job(deferred("Drawing"), work, lane=lane, urgent=True), then)

    def stop(self) -> None:
        """Stop the engine without waiting. Call `close` after the bridge has emitted `ended`."""
        self.bridge.stop()

    def close(self, *, hurry: bool = False) -> bool:
        """End the engine, close the checkpoints and release their data.

        Args:
            hurry: do not wait for a job that only reads.

        Returns:
            Whether the engine ended. If not, it may still read, and nothing is closed.
        """
        if not self.bridge.close(hurry=hurry):
            return False
        if self.session is not None:
            self._closing.append(self.session.checkpoint)
        if self.other is not None:
            self._closing.append(self.other.checkpoint)
        for checkpoint in self._closing:
            checkpoint.close()
        self.session = self.resolved = self.draft = self.other = None
        self._closing.clear()
        return True

    def _run(self, job: Job, then: Callable[[Result], None]) -> int:
        def done(result: object) -> None:
            then(result)  # type: ignore[arg-type]

        return self.bridge.run(job, done, lambda error: self.failed.emit(tr(job.title), error))

    def _warmed_up(self, problems: tuple[PluginError, ...]) -> None:
        self.methods_renewed.emit()
        self.ready.emit()
        for job in compile_jobs():
            self._run(job, lambda _: None)
        for problem in problems:
            self.fail(deferred("Loading installed methods"), problem)

    def _methods_loaded(self, methods: list[type[Method]]) -> None:
        self.edit(lambda session: session.renew_methods())
        self.methods_loaded.emit(methods)

    def _on_resolve_dropped(self, event: Event) -> None:
        # A resolve job that a newer one replaced is also dropped, but has an older ticket.
        if isinstance(event, Dropped) and event.ticket == self._resolve_ticket:
            self.resolving_stopped.emit()

    def _opened(self, session: Session) -> None:
        if self.session is not None:
            self._close(self.session.checkpoint)
        self.session = session
        self.resolved = None
        self.draft = None
        self.chosen = None
        self.opened.emit()
        self.resolve()

    def _close(self, checkpoint: Checkpoint) -> None:
        """Queue the closing of a checkpoint after the jobs that still read from it."""
        self._closing.append(checkpoint)
        title = deferred("Closing {name}", name=checkpoint.path.name)
        job = Job(title, lambda _: checkpoint.close())
        self._run(job, lambda _: self._closing.remove(checkpoint))

    def _set_other(self, other: Resolution) -> None:
        if self.other is not None:
            self._close(self.other.checkpoint)
        self.other = other
        self.other_changed.emit()

    def _set_resolved(self, resolved: Resolved) -> None:
        session = self.session
        if session is not None and resolved.resolution.checkpoint is session.checkpoint:
            self.resolved = resolved
            self.resolved_changed.emit()
