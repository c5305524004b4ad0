"""The Qt model of the steps of the recipe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, Qt

from prune_gui.errors import RecipeError
from prune_gui.gui import formatting
from prune_gui.gui.draft.amount_fields import share_error
from prune_gui.gui.widgets.table_widgets import Index, Role
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.recipe import Step
from prune_gui.recipe.amounts import has_amount, with_amount
from prune_gui.session.changes import Changes

if TYPE_CHECKING:
    from prune_gui.recipe import Outcome
    from prune_gui.worker.jobs import Resolved

CARD: Final = Role.UserRole  # the role of a `CardContent`
UNCHECKED: Final = Qt.CheckState.Unchecked


@dataclass(frozen=True, slots=True)
class CardContent:
    """What the card of a step shows. Notes and share stay until the new outcome is known."""

    title: str  # without the amount
    amount: str  # "" if the method has none, or all targets have their own
    targets: str
    outcome: str
    tone: str  # the name of the colour of the outcome; "" for a plain text
    is_known: bool
    limits: list[str]
    warnings: list[str]
    share: float | None  # of the targets that the step prunes


class KnownOutcome:
    """An outcome with its notes as texts, which take long to make for many targets."""

    def __init__(self, outcome: Outcome, protected: Collection[str]) -> None:
        self.outcome = outcome
        self._protected = protected

    @cached_property
    def limits(self) -> list[str]:
        """What is as the user wants it: limits that were met, and protected targets."""
        protected = {n: note for n, note in self.outcome.warnings.items() if n in self._protected}
        return formatting.short_notes({**self.outcome.limits, **protected})

    @cached_property
    def warnings(self) -> list[str]:
        own = {n: note for n, note in self.outcome.warnings.items() if n not in self._protected}
        return formatting.short_notes(own)

    @cached_property
    def notes(self) -> list[str]:
        """All notes on the targets, with their names."""
        return formatting.notes(self.outcome.limits) + formatting.notes(self.outcome.warnings)


class StackModel(QAbstractListModel):
    """The model of the steps of the session and their outcomes; edits go to the workbench."""

    def __init__(self, workbench: Workbench, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._steps: tuple[Step, ...] = ()
        self._known: dict[int, KnownOutcome] = {}  # by row: the last known outcome
        workbench.changed.connect(self._on_changed)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        return 0 if parent.isValid() else len(self._steps)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return flags: steps with an amount are editable, unless all targets have their own."""
        flag = Qt.ItemFlag
        if not index.isValid():
            return flag.ItemIsDropEnabled
        flags = flag.ItemIsEnabled | flag.ItemIsSelectable | flag.ItemIsUserCheckable
        flags |= flag.ItemIsDragEnabled | flag.ItemNeverHasChildren
        return flags | flag.ItemIsEditable if self._has_amount(index.row()) else flags

    def supportedDropActions(self) -> Qt.DropAction:  # noqa: N802
        return Qt.DropAction.MoveAction

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        if not index.isValid():
            return None
        row = index.row()
        step = self._steps[row]
        match role:
            case Role.DisplayRole:
                return formatting.title(step)
            case Role.EditRole:
                return dict(step.method).get("amount")
            case Role.CheckStateRole:
                return Qt.CheckState.Checked if step.enabled else UNCHECKED
            case Role.AccessibleTextRole | Role.ToolTipRole:
                notes = self._known[row].notes if self._resolved and row in self._known else []
                heading = f"{row + 1}. {formatting.title(step)}"
                lines = (heading, formatting.targets(step), self._outcome(row)[0], *notes)
                return "\n".join(
                    map(formatting.wrapped if role == Role.ToolTipRole else str, lines)
                )
            case _ if role == CARD:
                return self.card(row)
        return None

    def card(self, row: int) -> CardContent:
        step, known = self._steps[row], self._known.get(row)
        outcome, tone = self._outcome(row)
        pruned, total = known.outcome.total if known else (0, 0)
        return CardContent(
            formatting.title_without_amount(step),
            formatting.amount(step) if self._has_amount(row) else "",
            formatting.targets(step),
            outcome,
            tone,
            self._resolved is not None,
            known.limits if known else [],
            known.warnings if known else [],
            pruned / total if total else None,
        )

    def setData(self, index: Index, value: Any, role: int = Role.EditRole) -> bool:  # noqa: ANN401, N802
        if not index.isValid():
            return False
        row = index.row()
        if role == Role.CheckStateRole:
            enabled = Qt.CheckState(value) != UNCHECKED
            self._workbench.edit(lambda session: session.switch(row, enabled=enabled))
        elif role == Role.EditRole:
            if error := share_error(value):
                self._workbench.fail(deferred("Changing the amount"), RecipeError(error))
                return False
            self._workbench.edit(
                lambda session: session.replace(row, with_amount(session.steps[row], value))
            )
        else:
            return False
        return True

    def moveRows(  # noqa: N802
        self, source: Index, row: int, count: int, destination: Index, before: int
    ) -> bool:
        """Move a step before another one, or to the end. Only a `count` of 1 is supported."""
        target_row = before - 1 if before > row else before
        if count != 1 or target_row == row or not (0 <= row < len(self._steps) > target_row >= 0):
            return False
        if not self.beginMoveRows(QModelIndex(), row, row, QModelIndex(), before):
            return False
        steps = list(self._steps)
        steps.insert(target_row, steps.pop(row))
        self._set_steps(tuple(steps))
        self.endMoveRows()
        self._workbench.edit(lambda session: session.move(row, target_row))
        return True

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._known = {}
        if changes.recipe:
            self._sync()
        elif changes.resolution:
            self._outcomes_changed()

    def _sync(self) -> None:
        """Take over the steps of the session; rows that did not change stay."""
        new = self._workbench.session.steps if self._workbench.session else ()
        old = self._steps
        shorter = min(len(old), len(new))
        head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
        tail = 0
        while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        last = head + abs(len(new) - len(old)) - 1
        if len(new) < len(old):
            self.beginRemoveRows(QModelIndex(), head, last)
        elif len(new) > len(old):
            self.beginInsertRows(QModelIndex(), head, last)
        self._set_steps(new)
        if len(new) < len(old):
            self.endRemoveRows()
        elif len(new) > len(old):
            self.endInsertRows()
        self._outcomes_changed()

    def _set_steps(self, steps: tuple[Step, ...]) -> None:
        """Set the steps. A known outcome moves with its step, or stays in the row of an edit."""
        old, known = self._steps, self._known
        before = {id(step): known[row] for row, step in enumerate(old) if row in known}
        self._steps, self._known = steps, {}
        for row, step in enumerate(steps):
            edited = known.get(row) if len(steps) == len(old) else None
            if (outcome := before.get(id(step), edited)) is not None:
                self._known[row] = outcome

    def _outcomes_changed(self) -> None:
        if (resolved := self._resolved) is not None:
            made = {id(known.outcome): known for known in self._known.values()}
            outcomes, protected = resolved.resolution.outcomes, resolved.resolution.protected
            self._known = {
                row: made.get(id(one)) or KnownOutcome(one, protected)
                for row, one in enumerate(outcomes)
            }
        if self._steps:
            self.dataChanged.emit(self.index(0), self.index(len(self._steps) - 1))

    @property
    def _resolved(self) -> Resolved | None:
        """The resolution of the shown steps; None if it is unknown, or while rows change."""
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None or resolved is None or resolved.recipe is not session.recipe:
            return None
        return resolved if session.steps is self._steps else None

    def _outcome(self, row: int) -> tuple[str, str]:
        resolved = self._resolved
        if resolved is None:
            return "…", ""
        if resolved.error is None or row + 1 < resolved.error.step:
            idle = formatting.idle_reason(resolved.resolution, row + 1)
            return idle or formatting.outcome(
                resolved.resolution, row + 1
            ), "caution" if idle else ""
        if row + 1 == resolved.error.step:
            return resolved.error.reason, "warning"
        if not self._steps[row].enabled:
            return tr("switched off"), ""
        return tr("waits for step {number}", number=resolved.error.step), ""

    def _has_amount(self, row: int) -> bool:
        known = self._known.get(row)
        is_common = known is None or known.outcome.has_common_amount
        return is_common and has_amount(self._steps[row].method)
