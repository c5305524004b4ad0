"""The two sides that a window compares, the reference, and the checkpoints that they need."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Signal

from prune_gui.engine import Job
from prune_gui.language import deferred, tr
from prune_gui.recipe.resolver import Resolver
from prune_gui.session import kept_recipes
from prune_gui.session.subjects import (
    FILE,
    AfterStep,
    ComparedState,
    NamedState,
    OtherCheckpoint,
    Present,
    Side,
    Stack,
    Which,
    text_of,
)
from prune_gui.worker.jobs import compare_job

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Recipe, Resolution, Step

DEFAULTS: Final[dict[Which, Side]] = {"left": FILE, "right": Present()}
"""The sides to start with, and in place of those that are no longer available."""
MAX_OTHERS: Final = 2
"""Maximum number of other checkpoints that stay open: one for each side."""
REPLACED: Final[dict[Which, str]] = {
    "left": deferred("{side} is no longer available. The left side shows: {other}."),
    "right": deferred("{side} is no longer available. The right side shows: {other}."),
}


class Comparison(QObject):
    """Keeps the chosen sides, and opens and closes the checkpoints that they need."""

    changed = Signal()  # a side or the reference was chosen, or is resolved now

    def __init__(self, source: Workbench) -> None:
        super().__init__(source)
        self._source, self._bridge = source, source.bridge
        self.chosen = dict(DEFAULTS)
        self.notice = ""  # that a side was replaced, until the user chooses one
        self._others: dict[Path, Resolution] = {}
        self._reference: Path | None = None  # of another checkpoint
        self._states: dict[str, tuple[Recipe, Resolution]] = {}
        self._tickets: dict[str, int] = {}  # of the jobs that resolve named states

    @property
    def reference(self) -> Checkpoint | None:
        """The checkpoint before pruning, if it is known and open; the file if it is not pruned."""
        session = self._source.session
        if session is None:
            return None
        if self._reference is not None:
            masks = self.reference_masks
            return masks.checkpoint if masks is not None else None
        is_dense = session.reference_path is not None or not session.is_pruned
        return session.checkpoint if is_dense else None

    @property
    def reference_masks(self) -> Resolution | None:
        """The zeros of the reference, if it is another checkpoint that is open."""
        return self._others.get(self._reference) if self._reference is not None else None

    def set_reference(self, path: Path | None) -> None:
        """Measure kept energy against another checkpoint, and compare with it; None for none."""
        session = self._source.opened
        session.reference_path = path and path.absolute()
        kept_recipes.keep_reference(session)
        if path is not None and isinstance(self.chosen["right"], OtherCheckpoint):
            self.chosen["right"] = DEFAULTS["right"]
        self._take_reference()
        self.changed.emit()

    def _take_reference(self) -> None:
        """Open the reference of the session for the left side, in place of the one before."""
        session, before = self._source.opened, self._reference
        path, own = session.reference_path, session.checkpoint.path.absolute()
        self._reference = None if path in (None, own) else path
        for which, side in self.chosen.items():
            if before not in (None, self._reference) and side == OtherCheckpoint(before):
                self.chosen[which] = DEFAULTS[which]
        if self._reference is not None:
            self.open(self._reference)

    @property
    def sides(self) -> list[Side]:
        steps = self._steps
        differs = bool(steps) and self._source.draft_number is not None
        stack = [Stack()] if differs or Stack() in self.chosen.values() else []
        after_steps = [AfterStep(number) for number in range(1, len(steps) + 1)]
        states, others = map(NamedState, self._session_states), map(OtherCheckpoint, self._others)
        return [FILE, *after_steps, *stack, Present(), *states, *others]

    def text(self, side: Side) -> str:
        return text_of(side, self._steps, drafted=self._source.draft_number is not None)

    def captioned(self, what: str) -> str:
        left, right = (self.text(side) for side in self.chosen.values())
        return tr("{what}. Left: {left}. Right: {right}", what=what, left=left, right=right)

    def state(self, which: Which) -> ComparedState | None:
        """Return what a chosen side is resolved to; None while it is not resolved."""
        side, resolved = self.chosen[which], self._source.resolved
        resolution, steps, draft = None, None, None
        match side:
            case NamedState(name) if name in self._states:
                resolution = self._states[name][1]
            case OtherCheckpoint(path):
                resolution = self._others.get(path)
            case Present():
                resolution, draft = self._source.shown, self._source.draft_number
            case AfterStep() | Stack() if resolved is not None:
                resolution = resolved.resolution
                steps = side.number if isinstance(side, AfterStep) else None
        if resolution is None:
            return None
        return ComparedState(resolution, steps, draft, self.text(side))

    def choose(self, which: Which, side: Side) -> None:
        self.chosen[which], self.notice = side, ""
        self.changed.emit()

    def swap(self) -> None:
        left, right = self.chosen["left"], self.chosen["right"]
        self.chosen = {"left": right, "right": left}
        self.notice = ""
        self.changed.emit()

    def open(self, path: Path, which: Which = "left") -> None:
        """Open a checkpoint, and choose it as a side. A reference that cannot be opened is none."""
        session, job = self._source.session, compare_job(path)

        def opened(resolution: Resolution) -> None:
            if session is not self._source.session:  # another file was opened meanwhile
                self._bridge.close_unused(resolution.checkpoint)
                return
            self._close_other(path)
            self._others[path] = resolution
            self.choose(which, OtherCheckpoint(path))
            # Those opened first are closed, beyond `MAX_OTHERS`, if nothing uses them.
            used = {*self.chosen.values(), OtherCheckpoint(self._reference or path)}
            unused = [p for p in self._others if OtherCheckpoint(p) not in used]
            for other in unused[: max(0, len(self._others) - MAX_OTHERS)]:
                self._close_other(other)

        def failed(error: BaseException) -> None:
            is_reference = path == self._reference and path not in self._others
            if session is not None and session is self._source.session and is_reference:
                session.reference_path = self._reference = None
                self.changed.emit()
            self._bridge.failed.emit(tr(job.title), error)

        self._bridge.run(job, opened, failed)

    def settle(self) -> None:
        """Replace sides that are not available, and resolve named states that are new or changed.

        Call it before the sides are shown.
        """
        if self._source.resolved is None:
            return
        for which, side in self.chosen.items():
            if not self._is_available(side):
                self._replace(which)
            elif isinstance(side, NamedState) and not (
                self._is_resolved(side.name) or self._bridge.waits_for(self._tickets.get(side.name))
            ):
                self._resolve(side.name)

    def take_session(self, *, continued: bool) -> None:
        """Forget the states of the session before, and open the reference of this one."""
        self._states.clear()
        if not continued:
            self.notice = ""
            for which, side in self.chosen.items():
                if not (isinstance(side, OtherCheckpoint) and self._is_comparable(side)):
                    self.chosen[which] = DEFAULTS[which]
        path = self._source.opened.reference_path
        if not continued or path != self._reference or path not in self._others:
            self._take_reference()

    def close(self) -> None:
        """Close the other checkpoints. The engine must have ended."""
        for resolution in self._others.values():
            resolution.checkpoint.close()
        self._others.clear()
        self._states.clear()

    @property
    def _steps(self) -> tuple[Step, ...]:
        resolved = self._source.resolved
        return () if resolved is None else resolved.resolution.recipe.steps

    @property
    def _session_states(self) -> dict[str, Recipe]:
        return self._source.opened.named_states

    def _is_available(self, side: Side) -> bool:
        match side:
            case AfterStep(number):
                return number <= len(self._steps)
            case NamedState(name):
                return name in self._session_states
            case _:
                return True

    def _is_comparable(self, side: OtherCheckpoint) -> bool:
        """Return whether a checkpoint is not that of the session, but of a like network."""
        session, other = self._source.opened, self._others.get(side.path)
        if side.path.absolute() == session.checkpoint.path.absolute():
            return False
        names = session.checkpoint.tensors.keys()
        return other is None or not names.isdisjoint(other.checkpoint.tensors)

    def _replace(self, which: Which) -> None:
        gone, self.chosen[which] = self.chosen[which], DEFAULTS[which]
        other = self.text(self.chosen[which])
        self.notice = tr(REPLACED[which], side=self.text(gone), other=other)

    def _close_other(self, path: Path) -> None:
        if path in self._others:
            self._bridge.close_unused(self._others.pop(path).checkpoint)

    def _is_resolved(self, name: str) -> bool:
        return name in self._states and self._states[name][0] is self._session_states.get(name)

    def _resolve(self, name: str) -> None:
        session, recipe = self._source.opened, self._session_states[name]

        def resolved(resolution: Resolution) -> None:
            if session is self._source.session:
                self._states[name] = recipe, resolution
                self.changed.emit()

        def failed(error: BaseException) -> None:
            self._bridge.failed.emit(tr(job.title), error)
            for which, side in self.chosen.items():
                if side == NamedState(name):
                    self._replace(which)
            self.changed.emit()

        title = deferred("Resolving {name}", name=name)
        work = partial(Resolver(session.checkpoint).resolve, recipe)
        job = Job(title, work, lane=f"compare.state.{name}", urgent=True)
        self._tickets[name] = self._bridge.run(job, resolved, failed)
