"""What the window shows, and what becomes of what the user does; panels meet here only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal

from prune_gui.errors import RecipeError
from prune_gui.gui.bridge import Bridge
from prune_gui.language import later, tr
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
    """The open session, what it resolves to, the draft step, and the chosen parameter.

    Panels read its attributes and listen to its signals; they call its methods with what the user
    wants. Every change of the recipe goes through `edit`.

    Attributes:
        session: None until a checkpoint is open.
        resolved: what the recipe and the draft come to; lags behind them while the engine works.
        draft: the step in the form, shown in every view as if it were added; None if there is none.
        before: whether the views show the file as it is, without the stack and the draft.
        chosen: the name of the parameter that the views show.
        other: another checkpoint to compare with, its zeros as pruned; None until one is asked for.

    Signals:
        ready: the engine's libraries are loaded, and the methods of installed packages.
        methods_loaded: (methods) a file that the user named offers them.
        methods_renewed: other methods than before can be chosen.
        opened: a session took the place of another, or of none.
        edited: the recipe, its history or its file changed.
        resolved_changed: `resolved` is new, or `before` is.
        resolving_stopped: the user cancelled it; `resolved` stays behind the recipe and the draft.
        chosen_changed: another parameter is shown.
        other_changed: `other` is another one.
        saved: (path) a file was written.
        copied: (note) something is on the clipboard; the note says what, for the user.
        failed: (what was tried, error) something could not be done.
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
        self._left: list[Checkpoint] = []  # that are to be closed once nothing reads from them
        self._resolving: int | None = None
        self.bridge.happened.connect(self._notice_stop)

    @property
    def shown(self) -> Resolution | None:
        """What the views show: the stack and the draft after it, if that can be carried out."""
        if self.resolved is None:
            return None
        if self.before:
            return self.resolved.before
        return self.resolved.preview or self.resolved.resolution

    @property
    def draft_number(self) -> int | None:
        """The number that the draft would have as a step; None unless `shown` has it."""
        return self.resolved.draft_number if self.resolved and not self.before else None

    def warm_up(self) -> None:
        """Load the engine's libraries behind the window."""
        self._run(warm_up_job(), self._warmed_up)

    def load(self, work: Callable[[], None], then: Callable[[], None]) -> int:
        """Have the engine import what the window needs, which would hold the window up."""
        return self._run(Job(later("Starting the engine"), lambda _: work()), lambda _: then())

    def use_threads(self, count: int | None) -> None:
        """Have the engine work on so many threads; None for as many as torch takes by itself."""
        self._run(threads_job(count), lambda _: None)

    def show_before(self, *, on: bool) -> None:
        """Show the file as it is, or again what the recipe and the draft come to."""
        if on != self.before:
            self.before = on
            self.resolved_changed.emit()

    def fail(self, tried: str, error: Exception) -> None:
        """Say that something could not be done, and log it; what fails on the engine is logged."""
        log.warning("%s: %s", tried, error)
        self.failed.emit(tr(tried), error)

    def load_methods(self, path: Path) -> None:
        """Run a Python file and offer its methods; whoever calls has asked the user."""
        self._run(methods_job(path), self._methods_loaded)

    def renew_methods(self) -> None:
        """Take all methods as they are now: a file was loaded in another window."""
        self.edit(lambda session: session.renew_methods())
        self.methods_renewed.emit()

    def open(self, path: Path, recipe_path: Path | None = None, state: str | None = None) -> int:
        """Open a checkpoint in place of the one there is, which stays until it succeeds."""
        return self._run(open_job(path, recipe_path, state), self._opened)

    def reload(self) -> None:
        """Open the checkpoint anew, and go on with the recipe there is and its history."""
        before = self.session
        if before is None:
            return

        def reloaded(session: Session) -> None:
            if self.session is before:
                self.go_on(session)
            else:  # another one was opened meanwhile
                session.checkpoint.close()

        checkpoint = before.checkpoint
        self._run(open_job(checkpoint.path, state=checkpoint.state_dict or None), reloaded)

    def prepare(self, path: Path, then: Callable[[Session], None]) -> None:
        """Open another checkpoint for `then`, which passes it to `go_on` or closes it."""
        self._run(open_job(path), then)

    def go_on(self, session: Session) -> None:
        """Go on with the recipe there is, and the parameter shown, in another session."""
        chosen = self.chosen
        if self.session is not None:
            session.take_over(self.session)
        self._opened(session)
        if chosen in session.checkpoint.tensors:
            self.choose(chosen)

    def use_recipe(self, recipe: Recipe, path: Path) -> None:
        """Take the steps of a recipe file in place of the ones there are."""
        self.edit(lambda session: session.use_recipe(recipe, path))

    def edit(self, act: Callable[[Session], None]) -> None:
        """Change the recipe: `act` calls a method of the session."""
        if self.session is None:
            return
        try:
            act(self.session)
        except RecipeError as error:
            self.fail(later("Changing the recipe"), error)
            return
        self.edited.emit()
        self.resolve()

    def set_draft(self, step: Step | None, replaces: int | None = None) -> None:
        """Show `step` as if it were added, or as if it were in the place of another."""
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
        """Work out what the recipe and the draft come to."""
        if self.session is not None:
            job = resolve_job(self.session, self.draft)
            self._resolving = self._run(job, self._set_resolved)

    def choose(self, name: str | None) -> None:
        """Show another parameter; a name that a picture has from the file before is left alone."""
        known = self.session.checkpoint.tensors if self.session else ()
        if name != self.chosen and (name is None or name in known):
            self.chosen = name
            self.chosen_changed.emit()

    def choose_beside(self, by: int) -> None:
        """Show the next parameter of the file that can be pruned, or with -1 the one before."""
        if self.session is None or self.chosen is None:
            return
        tensors = self.session.checkpoint.tensors
        names = list(tensors)
        place = names.index(self.chosen) + by
        while 0 <= place < len(names):
            if tensors[names[place]].not_prunable is None:
                self.choose(names[place])
                return
            place += by

    def compare_with(self, path: Path) -> None:
        """Open another checkpoint to compare with, in place of the one there is."""
        self._run(compare_job(path), self._set_other)

    def save(
        self, out: Path, form: Form, *, overwrite: bool, shard_size: int | None = None
    ) -> int | None:
        """Write the pruned checkpoint."""
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

    def measure(
        self,
        target: OutputPath,
        then: Callable[[Sizes], None],
        failed: Callable[[BaseException], None],
    ) -> int | None:
        """Work out how large the pruned checkpoint would be; the latest target wins."""
        if self.session is None:
            return None

        def done(result: object) -> None:
            then(result)  # type: ignore[arg-type]

        return self.bridge.run(sizes_job(self.session, target), done, failed)

    def look(
        self, lane: str, work: Callable[[Monitor], Result], then: Callable[[Result], None]
    ) -> int:
        """Compute something to look at on the engine's thread; a newer look of a lane wins."""
        return self._run(Job(later("Drawing"), work, lane=lane, urgent=True), then)

    def stop(self) -> None:
        """Have the engine end, and do not wait for it: `close` when the bridge has `ended`."""
        self.bridge.stop()

    def close(self, *, hurry: bool = False) -> bool:
        """End the engine, close the checkpoint and let go of what is known of it.

        Args:
            hurry: do not wait for a job that only reads.

        Returns:
            Whether the engine ended; if not, it may still read, and all stays as it is.
        """
        if not self.bridge.close(hurry=hurry):
            return False
        if self.session is not None:
            self._left.append(self.session.checkpoint)
        if self.other is not None:
            self._left.append(self.other.checkpoint)
        for checkpoint in self._left:
            checkpoint.close()
        self.session = self.resolved = self.draft = self.other = None
        self._left.clear()
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
            self.fail(later("Loading installed methods"), problem)

    def _methods_loaded(self, methods: list[type[Method]]) -> None:
        self.edit(lambda session: session.renew_methods())
        self.methods_loaded.emit(methods)

    def _notice_stop(self, event: Event) -> None:
        # A newer job of the lane has a ticket of its own: then this one was not the last word.
        if isinstance(event, Dropped) and event.ticket == self._resolving:
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
        """Close a checkpoint behind the jobs that still read from it."""
        self._left.append(checkpoint)
        title = later("Closing {name}", name=checkpoint.path.name)
        job = Job(title, lambda _: checkpoint.close())
        self._run(job, lambda _: self._left.remove(checkpoint))

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
