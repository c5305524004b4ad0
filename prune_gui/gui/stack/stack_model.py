"""The Qt model of the steps of the recipe."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from prune_gui.errors import RecipeError
from prune_gui.gui import formatting
from prune_gui.gui.draft.amount_fields import share_error
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.recipe import Step
from prune_gui.recipe.amounts import has_amount, with_amount
from prune_gui.session.changes import Changes

if TYPE_CHECKING:
    from prune_gui.recipe import Outcome

    FormatNotes = Callable[[Mapping[str, str]], list[str]]
    from prune_gui.worker.jobs import Resolved

Index = QModelIndex | QPersistentModelIndex
Role = Qt.ItemDataRole
Kind = Literal["limits", "warnings"]  # the two kinds of notes on a step; see `Outcome`


UNCHECKED: Final = Qt.CheckState.Unchecked


class StepRole(enum.IntEnum):
    """Custom data roles of a row.

    `LIMITS`, `WARNINGS` and `SHARE` keep the old values until the new outcome is known. `SHARE` is
    the share of the targets that the step prunes, or None. `TITLE` is without the amount, which is
    `AMOUNT` as text, and the edit role as a number; "" if all targets have their own.
    """

    TARGETS = Role.UserRole
    OUTCOME = Role.UserRole + 1
    FAILED = Role.UserRole + 2
    WARNINGS = Role.UserRole + 3
    KNOWN = Role.UserRole + 4
    LIMITS = Role.UserRole + 5
    TITLE = Role.UserRole + 6
    AMOUNT = Role.UserRole + 7
    SHARE = Role.UserRole + 8


class StackModel(QAbstractListModel):
    """The model of the steps of the session and their outcomes; edits go to the workbench."""

    def __init__(self, workbench: Workbench, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._steps: tuple[Step, ...] = ()
        self._last_outcomes: dict[int, Outcome] = {}  # by row: the last known outcome
        self._notes_cache: dict[
            tuple[int, FormatNotes, Kind], tuple[Mapping[str, str], list[str]]
        ] = {}
        workbench.changed.connect(self._on_changed)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        return 0 if parent.isValid() else len(self._steps)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return the flags of an item: steps are checkable, and can be dragged between others.

        Those with an amount are editable, unless all targets have their own.
        """
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        editable = self._has_amount(index.row())
        return (
            (Qt.ItemFlag.ItemIsEditable if editable else Qt.ItemFlag.NoItemFlags)
            | Qt.ItemFlag.ItemIsEnabled
            | Qt.ItemFlag.ItemIsSelectable
            | Qt.ItemFlag.ItemIsUserCheckable
            | Qt.ItemFlag.ItemIsDragEnabled
            | Qt.ItemFlag.ItemNeverHasChildren
        )

    def supportedDropActions(self) -> Qt.DropAction:  # noqa: N802
        return Qt.DropAction.MoveAction

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:  # noqa: ANN401 - as Qt has it
        if not index.isValid():
            return None
        row = index.row()
        step = self._steps[row]
        outcome, failed = self._outcome(row)
        match role:
            case Role.DisplayRole:
                return formatting.title(step)
            case Role.EditRole:
                return dict(step.method).get("amount")
            case StepRole.TITLE:
                return formatting.title_without_amount(step)
            case StepRole.AMOUNT:
                return formatting.amount(step) if self._has_amount(row) else ""
            case StepRole.SHARE:
                pruned, total = (
                    self._last_outcomes[row].total if row in self._last_outcomes else (0, 0)
                )
                return pruned / total if total else None
            case Role.CheckStateRole:
                return Qt.CheckState.Checked if step.enabled else UNCHECKED
            case Role.AccessibleTextRole | Role.ToolTipRole:
                notes = self._all_notes(row) if self._resolved else []
                lines = (f"{row + 1}. {formatting.title(step)}", formatting.targets(step), outcome)
                wrap = formatting.wrapped if role == Role.ToolTipRole else str
                return "\n".join(map(wrap, [*lines, *notes]))
            case StepRole.TARGETS:
                return formatting.targets(step)
            case StepRole.OUTCOME:
                return outcome
            case StepRole.FAILED:
                return failed
            case StepRole.LIMITS:
                return self._notes(row, formatting.short_notes, "limits")
            case StepRole.WARNINGS:
                return self._notes(row, formatting.short_notes, "warnings")
            case StepRole.KNOWN:
                return self._resolved is not None
        return None

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
            self._last_outcomes = {}
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
        if len(new) < len(old):
            self.beginRemoveRows(QModelIndex(), head, head + len(old) - len(new) - 1)
            self._set_steps(new)
            self.endRemoveRows()
        elif len(new) > len(old):
            self.beginInsertRows(QModelIndex(), head, head + len(new) - len(old) - 1)
            self._set_steps(new)
            self.endInsertRows()
        else:
            self._set_steps(new)
        self._outcomes_changed()

    def _set_steps(self, steps: tuple[Step, ...]) -> None:
        """Set the steps. A known outcome moves with its step, or stays in the row of an edit."""
        old, outcomes = self._steps, self._last_outcomes
        before = {id(step): outcomes[row] for row, step in enumerate(old) if row in outcomes}
        self._steps, self._last_outcomes = steps, {}
        for row, step in enumerate(steps):
            edited = outcomes.get(row) if len(steps) == len(old) else None
            if (outcome := before.get(id(step), edited)) is not None:
                self._last_outcomes[row] = outcome

    def _outcomes_changed(self) -> None:
        if (resolved := self._resolved) is not None:
            self._last_outcomes = dict(enumerate(resolved.resolution.outcomes))
        if self._steps:
            self.dataChanged.emit(self.index(0), self.index(len(self._steps) - 1))

    @property
    def _resolved(self) -> Resolved | None:
        """The resolution of the shown steps; None if it is unknown, or while rows change."""
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None or resolved is None or resolved.recipe is not session.recipe:
            return None
        return resolved if session.steps is self._steps else None

    def _outcome(self, row: int) -> tuple[str, bool]:
        resolved = self._resolved
        if resolved is None:
            return "…", False
        if resolved.error is None or row + 1 < resolved.error.step:
            return formatting.outcome(resolved.resolution, row + 1), False
        if row + 1 == resolved.error.step:
            return resolved.error.reason, True
        if not self._steps[row].enabled:
            return tr("switched off"), False
        return tr("waits for step {number}", number=resolved.error.step), False

    def _has_amount(self, row: int) -> bool:
        outcome = self._last_outcomes.get(row)
        is_common = outcome is None or outcome.has_common_amount
        return is_common and has_amount(self._steps[row].method)

    def _all_notes(self, row: int) -> list[str]:
        kinds: tuple[Kind, ...] = ("limits", "warnings")
        return [note for kind in kinds for note in self._notes(row, formatting.notes, kind)]

    def _notes(self, row: int, format_notes: FormatNotes, kind: Kind) -> list[str]:
        if row not in self._last_outcomes:
            return []
        outcome, key = self._last_outcomes[row], (row, format_notes, kind)
        notes = outcome.limits if kind == "limits" else outcome.warnings
        cached = self._notes_cache.get(key)
        if cached is None or cached[0] is not notes:
            cached = self._notes_cache[key] = notes, format_notes(notes)
        return cached[1]
