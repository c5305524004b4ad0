"""A box to choose what the stack is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSizePolicy, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.language import tr
from prune_gui.session import Resolver

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Recipe, Resolution
    from prune_gui.session import Session
    from prune_gui.session.changes import Changes

MAX_NAME_LENGTH: Final = 60


@dataclass(frozen=True, slots=True)
class NamedState:
    """A named state of the stack."""

    name: str


StateKey = int | NamedState | Literal["stack", "other", "ask"]
"""The state after some number of steps; a named state; the stack without the draft; the other
checkpoint; or "ask" to choose another checkpoint.
"""


@dataclass(frozen=True, slots=True)
class ComparedState:
    """A state to compare with.

    Attributes:
        base: the resolution that the state is taken from.
        steps: number of its steps that are applied; None for all.
        text: name of the state in the box.
    """

    base: Resolution
    steps: int | None
    text: str

    def resolution(self) -> Resolution:
        """Return the resolution of the state. The time grows with the number of parameters."""
        from prune_gui.audit.diff.comparison import until  # torch: slow to import

        return self.base if self.steps is None else until(self.base, self.steps)

    def same_as(self, other: ComparedState | None) -> bool:
        """Return whether both are the same state."""
        return other is not None and self.base is other.base and self.steps == other.steps


class ComparisonPicker(QWidget):
    """Offers the file, the stack up to each of its steps, named states, and other checkpoints.

    Args:
        workbench: provides the stack, and opens another checkpoint.
        ask: returns the path of another checkpoint, given a parent and the folder to start in.

    Signals:
        changed: the user chose another state.
    """

    changed = Signal()

    def __init__(self, workbench: Workbench, ask: Callable[[QWidget, Path], Path | None]) -> None:
        super().__init__()
        self._workbench = workbench
        self._ask = ask
        self._choices_shown: list[tuple[str, StateKey]] = []
        self._chosen_key: StateKey = 0
        self._resolved_state: tuple[Recipe, Resolution] | None = None  # of the chosen named state
        self._box = ElidedComboBox()
        self._box.setAccessibleName(tr("What to compare with"))
        self._box.setToolTip(tr("What to compare the stack with"))
        self._box.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self._box.setMinimumContentsLength(14)
        self._box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        label = QLabel(tr("Left:"))
        label.setBuddy(self._box)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(label)
        layout.addWidget(self._box, 1)
        self._box.activated.connect(self._activated)
        workbench.changed.connect(self._on_changed)

    @property
    def chosen(self) -> ComparedState | None:
        """The chosen state; None while there is nothing to compare with."""
        resolved, other = self._workbench.resolved, self._workbench.comparison.resolution
        text, key = self._box.currentText(), self._box.currentData()
        if key == "other" and other is not None:
            return ComparedState(other, None, text)
        if isinstance(key, NamedState) and self._resolved_state is not None:
            return ComparedState(self._resolved_state[1], None, text)
        if resolved is None or key is None:
            return None
        return ComparedState(resolved.resolution, key if isinstance(key, int) else None, text)

    def _on_changed(self, changes: Changes) -> None:
        if changes.recipe and not changes.file:  # named states may have changed
            self.offer()

    def offer(self) -> None:
        """Update the choices; the chosen one stays chosen if it still exists."""
        choices = list(self._choices())
        if choices != self._choices_shown:
            self._choices_shown = choices
            self._box.clear()
            for text, key in choices:
                self._box.addItem(text, key)
        self._select()

    def choose_other(self) -> None:
        """Choose the other checkpoint, which has just been opened."""
        self._chosen_key = "other"
        self.offer()

    def _choices(self) -> list[tuple[str, StateKey]]:
        resolved, other = self._workbench.resolved, self._workbench.comparison.resolution
        steps = resolved.resolution.recipe.steps if resolved is not None else ()
        choices: list[tuple[str, StateKey]] = [(tr("The original file"), 0)]
        choices += [
            (
                tr(
                    "The stack up to step {number}: {method}",
                    number=number,
                    method=one_line(tr(step.method.title)),
                ),
                number,
            )
            for number, step in enumerate(steps[:-1], start=1)
        ]
        if steps:
            choices.append((tr("The stack without the draft"), "stack"))
        choices += [
            (tr("Named state: {name}", name=one_line(name, MAX_NAME_LENGTH)), NamedState(name))
            for name in self._states()
        ]
        if other is not None:
            choices.append((one_line(other.checkpoint.path.name, MAX_NAME_LENGTH), "other"))
        return [*choices, (tr("Another checkpoint…"), "ask")]

    def _states(self) -> Mapping[str, Recipe]:
        session = self._workbench.session
        return {} if session is None else session.named_states

    def _select(self) -> None:
        keys = [key for _, key in self._choices_shown]
        resolved_recipe = self._resolved_state is not None and self._resolved_state[0]
        outdated = (
            isinstance(self._chosen_key, NamedState)
            and self._states().get(self._chosen_key.name) is not resolved_recipe
        )
        # The step may be gone, or the name may belong to another state.
        if self._chosen_key not in keys or outdated:
            self._chosen_key = "stack" if "stack" in keys else 0
        self._box.setCurrentIndex(keys.index(self._chosen_key))

    def _activated(self) -> None:
        key, session = self._box.currentData(), self._workbench.session
        if key != "ask" and not isinstance(key, NamedState):
            self._chosen_key = key
            self.changed.emit()
            return
        self._select()
        if session is None:
            return
        if isinstance(key, NamedState):
            self._resolve(session, key)
            return
        path = self._ask(self, session.checkpoint.path.absolute().parent)
        if path is not None:
            self._workbench.comparison.open(path)

    def _resolve(self, session: Session, named_state: NamedState) -> None:
        """Resolve a named state on the engine, then choose it."""
        recipe = session.named_states[named_state.name]

        def work(monitor: Monitor) -> Resolution:
            return Resolver(session.checkpoint).resolve(recipe, monitor)

        def show_result(resolution: Resolution) -> None:
            if session is self._workbench.session:
                self._chosen_key, self._resolved_state = named_state, (recipe, resolution)
                self.offer()
                self.changed.emit()

        self._workbench.bridge.run_job("compare.state", work, show_result)
