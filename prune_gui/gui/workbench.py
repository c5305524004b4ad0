"""The state of a window and its changes; the only link between the panels."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from prune_gui.engine import Dropped, Event, Failed
from prune_gui.errors import ClusterError, RecipeError
from prune_gui.gui.bridge import Bridge
from prune_gui.gui.comparison import Comparison
from prune_gui.gui.session_files import SessionFiles, ZeroCounter
from prune_gui.language import deferred, tr
from prune_gui.recipe.amounts import has_amount
from prune_gui.session.changes import OPENED, Changes, changed_parameters
from prune_gui.session.draft_request import drafted_channels, drafted_units
from prune_gui.session.subjects import model_subject_of, subject_of
from prune_gui.worker import jobs
from prune_gui.worker.jobs import Draft, Resolved

if TYPE_CHECKING:
    from prune_gui.errors import PluginError
    from prune_gui.gui.cluster import Cluster
    from prune_gui.pruning.layouts import CoupledGroup
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Resolution, Step
    from prune_gui.session import Session
    from prune_gui.session.history import DraftState
    from prune_gui.session.subjects import ModelSubject, Subject
    from prune_gui.statistics.file_zeros import Counts, FileZeros


MERGE_DELAY_MS: Final = 1000
"""Changes of the same field of the draft with shorter delays are one undo entry."""
PAINT_MS: Final = 60
"""Time in which the window paints a file that was opened."""

log = logging.getLogger(__name__)


class Workbench(QObject):
    """Owns the parts of a window's state, joins them, and announces every change of them.

    Panels read the state, connect to `changed`, and call the methods for what the user does. Every
    change of the recipe goes through `edit`.
    """

    changed = Signal(object)  # (changes) the state changed; a `Changes` record
    ready = Signal()  # the engine's libraries and the methods of installed packages are loaded
    loops_missing = Signal()  # some loops of the engine are not compiled yet
    methods_loaded = Signal(object)  # (methods) the pruning methods of a file were loaded
    saved = Signal(object)  # (path) a file was written
    noted = Signal(str)  # (note) something happened that the status bar says
    draft_wanted = Signal(object)  # (DraftRequest) the user wants the draft changed
    failed = Signal(str, object)  # (what was tried, error) an operation failed

    def __init__(self, cluster: Cluster | None = None) -> None:
        super().__init__()
        self.cluster = cluster  # the cluster of the settings; None for this machine
        self.bridge = Bridge(cluster, self)
        self.files = SessionFiles(self.bridge, self)
        self.draft = DraftController(lambda: self.session, self)
        self.comparison = Comparison(self)
        self.zero_counter = ZeroCounter(self.bridge, self)
        self.resolved: Resolved | None = None  # out of date while the engine works
        self.chosen: str | None = None  # the name of the parameter that the views show
        self.chosen_group: CoupledGroup | None = None  # of it, if the user chose one
        self.resolve_ticket: int | None = None  # of the last job that resolves the recipe
        self._unpruned: tuple[Counts | None, FileZeros | None, int] = None, None, 0
        self.bridge.failed.connect(self._on_failed)
        self.bridge.happened.connect(self._on_resolve_ended)
        if cluster is not None:
            cluster.moved.connect(self.resolve)
        self.files.opened.connect(self._on_opened)
        self.files.saved.connect(self.announce_saved)
        self.draft.changed.connect(self._on_draft_changed)
        self.draft.original_toggled.connect(self._on_original_toggled)
        self.draft.noted.connect(lambda: self.changed.emit(Changes(draft=True)))
        self.comparison.changed.connect(lambda: self.changed.emit(Changes(comparison=True)))
        self.zero_counter.counted.connect(lambda: self.changed.emit(Changes(zeros=True)))

    @property
    def session(self) -> Session | None:
        """The open session; None until a checkpoint is open."""
        return self.files.session

    @property
    def opened(self) -> Session:
        """The open session, for what is offered only while a checkpoint is open."""
        assert self.files.session is not None
        return self.files.session

    @property
    def shown(self) -> Resolution | None:
        """The resolution that the views show: with the draft, if it can be resolved."""
        if self.resolved is None:
            return None
        if self.draft.shows_original:
            return self.resolved.before
        return self.resolved.preview or self.resolved.resolution

    @property
    def draft_number(self) -> int | None:
        """The number of the draft as a step, from 1; None if `shown` does not include it."""
        if self.resolved is None or self.draft.shows_original:
            return None
        return self.resolved.draft_number

    @property
    def subject(self) -> Subject | str:
        """The parameter that the views show, or a message that says why there is none."""
        masks = self.resolved.masks if self.resolved is not None else None
        return subject_of(self.session, self.shown, self.chosen, self.draft_number, masks)

    @property
    def model_subject(self) -> ModelSubject | str:
        """All parameters, or a message that says why there are none."""
        reference = self.comparison.reference
        return model_subject_of(self.session, self.shown, self.draft_number, reference)

    @property
    def steps_with_amount(self) -> Iterator[tuple[int, Step]]:
        """The enabled steps of the recipe whose amount counts, with their indices, from 0.

        A step with targets that all have their own amounts is left out, if it is resolved.
        """
        steps = self.session.steps if self.session is not None else ()
        is_current = self.resolved is not None and self.resolved.recipe.steps == steps
        outcomes = self.resolved.resolution.outcomes if self.resolved and is_current else ()
        for index, step in enumerate(steps):
            is_common = index >= len(outcomes) or outcomes[index].has_common_amount
            if step.enabled and is_common and has_amount(step.method):
                yield index, step

    @property
    def unpruned_zeros(self) -> int:
        """Number of zeros in the file that do not count as pruned; 0 if they are not noticeable."""
        if self.session is None or self.resolved is None:
            return 0
        before, zeros = self.resolved.before, self.session.file_zeros
        if before.checkpoint is not self.session.checkpoint:
            return 0
        counts, of, unpruned = self._unpruned
        if counts is not before.counts or of is not zeros:
            unpruned = zeros.noticeable(before.counts)
            self._unpruned = before.counts, zeros, unpruned
        return unpruned

    def drafted_channels(self, dim: int) -> frozenset[int] | None:
        """Return the channels of the chosen parameter that the draft prunes along `dim`.

        None if the draft prunes others, too, or is not resolved.
        """
        draft, resolved = self.draft.current, self.resolved
        if draft is None or resolved is None or self.chosen is None or self.session is None:
            return None
        preview, number = resolved.preview_of(draft)
        outcome = preview.outcomes[number - 1] if preview and number else None
        return drafted_channels(draft.step, outcome, dim, self.chosen, self.session.checkpoint)

    def drafted_units(self, group: CoupledGroup) -> frozenset[int] | None:
        """Return the units of a group that the draft prunes; see `drafted_channels`."""
        draft, resolved = self.draft.current, self.resolved
        if draft is None or resolved is None or self.session is None:
            return None
        preview, number = resolved.preview_of(draft)
        return drafted_units(draft.step, preview, number, group, self.session.checkpoint)

    def edit(self, act: Callable[[Session], None]) -> None:
        """Change the recipe: `act` calls a method of the session. Errors go to `failed`."""
        if self.session is None:
            return
        try:
            act(self.session)
        except RecipeError as error:
            self.fail(deferred("Changing the recipe"), error)
            return
        self.changed.emit(Changes(recipe=True))
        self.resolve()

    def resolve(self) -> None:
        if self.session is not None:
            job = jobs.resolve_job(self.session, self.draft.current)
            self.resolve_ticket = self.bridge.run(job, self._set_resolved)

    def _on_draft_changed(self) -> None:
        """Resolve with the draft. Without it, all is known, and no job must end before."""
        resolved = self.resolved
        if (
            self.session is None
            or self.draft.current is not None
            or resolved is None
            or resolved.recipe != self.session.recipe
        ):
            self.resolve()
        else:
            superseded, self.resolve_ticket = self.resolve_ticket, None
            if superseded is not None:
                self.bridge.cancel(superseded)
            self._set_resolved(resolved.without_draft())

    def choose(self, name: str | None, group: CoupledGroup | None = None) -> None:
        """Show another parameter. A name that the open checkpoint does not have is ignored.

        A picture of the previous checkpoint may still send such names.
        """
        known = self.session.checkpoint.tensors if self.session else ()
        is_other = name != self.chosen or (group is not None and group != self.chosen_group)
        if is_other and (name is None or name in known):
            self.chosen, self.chosen_group = name, group
            self.changed.emit(Changes(selection=True))

    def choose_adjacent(self, by: int) -> None:
        """Show the next prunable parameter of the file (`by` = 1) or the previous one (-1)."""
        if self.session is None or self.chosen is None:
            return
        names = list(self.session.checkpoint.tensors)[::by]
        for name in names[names.index(self.chosen) + 1 :]:
            if self.session.checkpoint.tensors[name].not_prunable is None:
                self.choose(name)
                return

    def warm_up(self) -> None:
        """Load the engine's libraries in the background.

        Imports slow the window down, so that they wait until it has painted a file that is being
        opened.
        """
        painted = threading.Event()
        if self.files.is_opening:
            once = Qt.ConnectionType.SingleShotConnection
            self.files.opened.connect(lambda _: QTimer.singleShot(PAINT_MS, painted.set), once)
        else:
            painted.set()
        self.bridge.run(jobs.warm_up_job(painted), self._warmed_up)

    def load_methods(self, path: Path) -> None:
        self.bridge.run(jobs.methods_job(path), self._methods_loaded)

    def renew_methods(self) -> None:
        """Update the steps to the methods registered now, after another window loaded a file."""
        self.edit(lambda session: session.renew_methods())
        self.changed.emit(Changes(methods=True))

    def announce_saved(self, path: Path) -> None:
        """Announce that the recipe was saved, in a recipe file or within a checkpoint."""
        self.saved.emit(path)
        self.changed.emit(Changes(saved=True))

    def fail(self, tried: str, error: Exception) -> None:
        """Log an error and emit `failed`. Failed jobs are logged by the engine."""
        log.warning("%s: %s", tried, error)
        self.failed.emit(tr(tried), error)

    def close(self, *, hurry: bool = False) -> bool:
        """End the engine, close the checkpoints and release their data."""
        self.draft.merging.stop()
        if not self.bridge.close(hurry=hurry):
            return False
        self.files.close()
        self.comparison.close()
        self.resolved = None
        return True

    def _on_opened(self, continued: bool) -> None:
        chosen, self.chosen, self.chosen_group = self.chosen, None, None
        self.resolved = None
        self.comparison.take_session(continued=continued)
        self.changed.emit(OPENED)
        self.resolve()
        if self.session is not None:
            self.zero_counter.count(self.session)
        if continued and chosen is not None:
            self.choose(chosen)

    def _on_original_toggled(self) -> None:
        names, resolved = None, self.resolved
        if resolved is not None:
            names = changed_parameters(resolved.before, resolved.preview or resolved.resolution)
        self.changed.emit(Changes(resolution=True, parameters=names))

    def _on_failed(self, tried: str, error: BaseException) -> None:
        """Emit `failed`; say it less prominently if the cluster failed before for this reason."""
        if isinstance(error, ClusterError) and self.cluster and not self.cluster.is_new(error):
            self.noted.emit(str(error))
        else:
            self.failed.emit(tried, error)

    def _on_resolve_ended(self, event: Event) -> None:
        # A resolve job that a newer one replaced is also dropped, but has an older ticket.
        if event.ticket != self.resolve_ticket:
            return
        is_cluster_lost = isinstance(event, Failed) and isinstance(event.error, ClusterError)
        if isinstance(event, Dropped) or is_cluster_lost:
            self.changed.emit(Changes(stopped=True))

    def _set_resolved(self, resolved: Resolved) -> None:
        if self.session is None or resolved.resolution.checkpoint is not self.session.checkpoint:
            return
        if resolved.draft is not None and self.draft.current is None:
            resolved = resolved.without_draft()  # it was turned off meanwhile
        before, self.resolved = self.shown, resolved
        # The user may resolve the same recipe again to update everything from the files.
        names = changed_parameters(before, self.shown) if self.shown is not before else None
        self.changed.emit(Changes(resolution=True, parameters=names))

    def _warmed_up(self, problems: tuple[PluginError, ...]) -> None:
        self.changed.emit(Changes(methods=True))
        self.bridge.run(jobs.import_job(), self._libraries_loaded)
        for problem in problems:
            self.fail(deferred("Loading installed methods"), problem)

    def _libraries_loaded(self, _: None) -> None:
        self.ready.emit()
        for job in jobs.compile_jobs():
            self.bridge.run(job, lambda missing: self.loops_missing.emit() if missing else None)

    def _methods_loaded(self, methods: list[type[Method]]) -> None:
        self.edit(lambda session: session.renew_methods())
        self.methods_loaded.emit(methods)


class DraftController(QObject):
    """Sets, previews and commits the draft."""

    changed = Signal()  # `current` changed, so that the recipe must be resolved with it
    original_toggled = Signal()  # `shows_original` changed
    noted = Signal()  # the draft was changed, which can be undone

    def __init__(
        self, session: Callable[[], Session | None], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self.shows_original = False  # whether the views show the file unchanged
        self._changed: frozenset[str] = frozenset()  # by the last change
        self.merging = QTimer(self, singleShot=True, interval=MERGE_DELAY_MS)
        self.merging.timeout.connect(self.noted)

    @property
    def current(self) -> Draft | None:
        """The step that every view shows as if it were added, or as if it replaced another."""
        session = self._session()
        state = session.draft if session is not None else None
        if state is None or state.step is None or not state.previewed:
            return None
        return Draft(state.step, state.editing)

    def note(self, state: DraftState, *, amend: bool) -> None:
        """Keep what the form shows in the history, to undo what the user changed."""
        session = self._session()
        if session is None or state == session.draft:
            return
        shown = self.current
        changed = state.changed(session.draft) if session.draft else frozenset()
        amend = amend or not changed
        merge = changed == self._changed and self.merging.isActive()
        session.note_draft(state, merge=merge, amend=amend)
        if not amend:
            self._changed = changed
            self.merging.start()
            if session.draft is not state:  # it is what it was before
                self.merging.stop()
            if not merge:
                self.noted.emit()
        if self.current != shown:
            self.changed.emit()

    def change(self, act: Callable[[Session], None]) -> None:
        """Change the draft as one undo entry: `act` calls a method of the session."""
        session = self._session()
        if session is None:
            return
        shown = self.current
        self.merging.stop()
        act(session)
        self.noted.emit()
        if self.current != shown:
            self.changed.emit()

    def show_original(self, *, on: bool) -> None:
        if on != self.shows_original:
            self.shows_original = on
            self.original_toggled.emit()
