"""The evaluator of a window, and what it is evaluating."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from prune_gui.engine import Dropped, Event, Failed, Finished, Job, Reported
from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.evaluation_jobs import close_job, stored_job
from prune_gui.evaluation.metrics import Metric
from prune_gui.evaluation.spec import DEMO, EvaluatorChoice, choice_for
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.number_formats import sparsity
from prune_gui.session.changes import Changes

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Evaluator
    from prune_gui.evaluation.evaluation_jobs import EvaluatedRecipe
    from prune_gui.evaluation.spec import EvaluatorSpec
    from prune_gui.recipe import Recipe
    from prune_gui.session import Session

MakeJob = Callable[["Evaluator", Metric], Job]
"""Returns the job of a run with the evaluator and the metric."""


class EvaluationRun(QObject):
    """A running job of the evaluator."""

    found = Signal(object)  # (found) the job has reported something
    finished = Signal(object)  # (result) the job has ended without an error
    ended = Signal(str, str)  # (error, details) the job has ended; "" if no error ended it


class Evaluations(QObject):
    """Chooses the evaluator, asks for consent, and runs one job with it at a time."""

    chosen = Signal()  # another evaluator was chosen, so that no result is valid any more
    metric_changed = Signal()  # another metric was chosen, or `metrics` has changed
    running_changed = Signal()  # `run` has changed
    failed = Signal(str, str)  # (message, details) the evaluator cannot be used
    start_changed = Signal()  # runs start elsewhere, or the stack or the draft has changed

    def __init__(
        self,
        workbench: Workbench,
        preferences: Preferences,
        agree: Callable[[EvaluatorSpec], bool],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._preferences = preferences
        self._agree = agree
        self._evaluator: Evaluator | None = None
        self._reader: Evaluator | None = None
        self._made_from: tuple[EvaluatorChoice, str] | None = None
        self._ticket: int | None = None
        self.choice: EvaluatorChoice | None = None  # the chosen evaluator; None if there is none
        self.metrics: tuple[str, ...] = ()  # the names of the numbers that it has returned so far
        self.run: EvaluationRun | None = None  # the job that runs; None if there is none
        self.after_stack = False  # whether runs start after the stack, or from the file
        workbench.bridge.happened.connect(self._follow)
        workbench.bridge.at_end(self._close)
        workbench.changed.connect(self._on_changed)

    @property
    def metric(self) -> Metric:
        choice = self.choice
        return Metric(choice.metric, choice.better, choice.name) if choice else Metric()

    @property
    def recent(self) -> tuple[EvaluatorChoice, ...]:
        """The evaluators to offer, latest first."""
        session, recent = self._workbench.session, self._preferences.now.evaluators
        is_demo = session is not None and choice_for(session.checkpoint, ()) == DEMO
        return (DEMO, *recent) if is_demo else recent

    def begin(self) -> None:
        """Choose the evaluator that suits the open checkpoint, unless the user has chosen one."""
        session = self._workbench.session
        if session is None:
            return
        first = choice_for(session.checkpoint, self._preferences.now.evaluators)
        if self.choice is None or DEMO in (self.choice, first):
            self.choose(first)

    def choose(self, choice: EvaluatorChoice | None) -> None:
        before, self.choice = self.choice, choice
        if choice is not None and not choice.is_shipped:
            now = self._preferences.now.with_evaluator(choice)
            self._preferences.change("evaluators", now.evaluators)
        if before == choice:
            return
        if _without_metric(before) != _without_metric(choice):
            self.cancel()
            self.metrics, self._reader = (), None
            self.chosen.emit()
        self.metric_changed.emit()

    def start_after(self, *, stack: bool) -> None:
        """Let runs start after the stack, or from the file."""
        self.after_stack = stack
        self.start_changed.emit()

    def base(self, session: Session) -> Recipe:
        """Return the recipe that runs start with."""
        return session.recipe if self.after_stack else session.recipe.with_steps(())

    @property
    def starts(self) -> tuple[str, str]:
        """What runs can start with, as texts: the file, and the stack with its sparsity."""
        resolved, stack = self._workbench.resolved, tr("the stack")
        if resolved is not None:
            pruned, total = resolved.resolution.total
            stack = tr("the stack ({sparsity})", sparsity=sparsity(pruned, total))
        return tr("the file"), stack

    def choose_metric(self, name: str) -> None:
        if self.choice is not None and name != self.choice.metric:
            self.choose(self.choice.model_copy(update={"metric": name}))

    def note(self, evaluation: Evaluation | None) -> None:
        """Learn the names of the metrics from a result."""
        if evaluation is not None and tuple(evaluation.metrics) != self.metrics:
            self.metrics = tuple(evaluation.metrics)
            self.metric_changed.emit()

    def start(self, make_job: MakeJob) -> EvaluationRun | None:
        """Run a job; None if the evaluator cannot be used, or the user does not consent."""
        if self.choice is None or self.run is not None:
            return None
        try:
            evaluator = self._current(self.choice)
        except PruneGuiError as error:
            self.failed.emit(error.brief, error.details)
            return None
        digest = evaluator.spec.code_digest()
        if not self.choice.is_shipped and not evaluator.database.has_consent(digest):
            if not self._agree(evaluator.spec):
                return None
            evaluator.database.give_consent(digest)
        self.failed.emit("", "")
        self.run = run = EvaluationRun(self)
        job = make_job(evaluator, self.metric)
        self._ticket = self._workbench.bridge.run(job, lambda _: None, lambda _: None)
        self.running_changed.emit()
        return run

    def look_up(
        self,
        session: Session,
        recipes: Sequence[Recipe],
        then: Callable[[list[EvaluatedRecipe]], None],
    ) -> None:
        """Look for the stored results of recipes; `then` gets those that are found."""
        choice = self.choice
        if choice is None or not choice.use_stored:
            return
        try:
            reader = self._reader or choice.make()
        except PruneGuiError as error:
            self.failed.emit(error.brief, error.details)
            return
        self._reader = reader

        def use(found: list[EvaluatedRecipe]) -> None:
            if self._reader is reader and self._workbench.session is session:
                for outcome in found:
                    self.note(outcome.evaluation)
                then(found)

        self._workbench.bridge.run(stored_job(reader, session.checkpoint, recipes), use)

    def cancel(self) -> None:
        """Cancel the run; the processes of the evaluator are ended."""
        if self._ticket is not None:
            self._workbench.bridge.cancel(self._ticket)
            self._end()

    def _current(self, choice: EvaluatorChoice) -> Evaluator:
        """Return the evaluator; a new one if the choice or the files have changed."""
        made = choice.make()
        made_from = choice.model_copy(update={"metric": None}), made.spec.digest()
        if self._evaluator is not None and self._made_from == made_from:
            return self._evaluator
        old = self._evaluator
        self._evaluator, self._made_from, self._reader = made, made_from, None
        if old is not None:
            self._workbench.bridge.run(close_job(old), lambda _: None)
            self.chosen.emit()  # it may have other files than before
        return made

    def _close(self) -> None:
        """End the process of the evaluator, after the last job."""
        if self._evaluator is not None:
            self._evaluator.close()

    def _follow(self, event: Event) -> None:
        if event.ticket != self._ticket or self.run is None:
            return
        if isinstance(event, Reported):
            self._take(event.found)
        elif isinstance(event, Failed) and isinstance(event.error, PruneGuiError):
            self._end(event.error.brief, event.error.details)
        elif isinstance(event, Finished | Failed | Dropped):
            if isinstance(event, Finished):
                self.run.finished.emit(event.result)
            elif isinstance(event, Failed):
                self._workbench.failed.emit(tr(event.job.title), event.error)
            self._end()

    def _take(self, found: object) -> None:
        from prune_gui.isolated.watching import Status  # loaded by the job that reports it

        if self.run is not None and not isinstance(found, Status):
            self.note(getattr(found, "evaluation", None))
            self.run.found.emit(found)

    def _end(self, error: str = "", details: str = "") -> None:
        run, self.run, self._ticket = self.run, None, None
        if run is not None:
            run.ended.emit(error, details)
            run.deleteLater()
        self.running_changed.emit()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.cancel()
            self.begin()
        if changes.recipe or changes.resolution:
            self.start_changed.emit()


def _without_metric(choice: EvaluatorChoice | None) -> EvaluatorChoice | None:
    return choice and choice.model_copy(update={"metric": None})
