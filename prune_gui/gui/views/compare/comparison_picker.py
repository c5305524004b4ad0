"""Choosing what to compare the stack with."""

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

LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class Named:
    """A state of the stack that the user named."""

    name: str


Moment = int | Named | Literal["stack", "other", "ask"]
"""After so many steps, or after all; a named state; another checkpoint, or one to be asked for."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A moment to compare with.

    Attributes:
        base: what it is a moment of.
        steps: after how many of its steps; None for all.
        text: what to call it.
    """

    base: Resolution
    steps: int | None
    text: str

    def resolution(self) -> Resolution:
        """Return what is pruned by then. Takes longer for more parameters."""
        from prune_gui.audit.diff.comparison import until

        return self.base if self.steps is None else until(self.base, self.steps)

    def same_as(self, other: Comparison | None) -> bool:
        """Tell whether both are one moment."""
        return other is not None and self.base is other.base and self.steps == other.steps


class ComparisonPicker(QWidget):
    """Offers the file, the stack up to each of its steps, named states, and other checkpoints.

    Args:
        workbench: whose stack is offered, and which opens another checkpoint.
        ask: asks for the path of another checkpoint, given a folder to begin in.

    Signals:
        changed: the user chose another moment.
    """

    changed = Signal()

    def __init__(self, workbench: Workbench, ask: Callable[[QWidget, Path], Path | None]) -> None:
        super().__init__()
        self._workbench = workbench
        self._ask = ask
        self._offered: list[tuple[str, Moment]] = []
        self._wanted: Moment = 0
        self._state: tuple[Recipe, Resolution] | None = None  # of the named state that is chosen
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
        workbench.edited.connect(self.offer)  # a state was named, or forgotten

    @property
    def chosen(self) -> Comparison | None:
        """The moment that is chosen; None before there is anything to compare with."""
        resolved, other = self._workbench.resolved, self._workbench.other
        text, moment = self._box.currentText(), self._box.currentData()
        if moment == "other" and other is not None:
            return Comparison(other, None, text)
        if isinstance(moment, Named) and self._state is not None:
            return Comparison(self._state[1], None, text)
        if resolved is None or moment is None:
            return None
        return Comparison(resolved.resolution, moment if isinstance(moment, int) else None, text)

    def offer(self) -> None:
        """Offer what there is now; the choice stays if it is still there."""
        offered = list(self._moments())
        if offered != self._offered:
            self._offered = offered
            self._box.clear()
            for text, moment in offered:
                self._box.addItem(text, moment)
        self._select()

    def choose_other(self) -> None:
        """Choose the other checkpoint, which has been opened."""
        self._wanted = "other"
        self.offer()

    def _moments(self) -> list[tuple[str, Moment]]:
        resolved, other = self._workbench.resolved, self._workbench.other
        steps = resolved.resolution.recipe.steps if resolved is not None else ()
        found: list[tuple[str, Moment]] = [(tr("The file as it is"), 0)]
        found += [
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
            found.append((tr("The stack without the draft"), "stack"))
        found += [
            (tr("Named state: {name}", name=one_line(name, LONGEST)), Named(name))
            for name in self._states()
        ]
        if other is not None:
            found.append((one_line(other.checkpoint.path.name, LONGEST), "other"))
        return [*found, (tr("Another checkpoint…"), "ask")]

    def _states(self) -> Mapping[str, Recipe]:
        session = self._workbench.session
        return {} if session is None else session.named_states

    def _select(self) -> None:
        moments = [moment for _, moment in self._offered]
        known = self._state is not None and self._state[0]
        gone = (
            isinstance(self._wanted, Named) and self._states().get(self._wanted.name) is not known
        )
        if self._wanted not in moments or gone:  # steps were taken out, or it names another state
            self._wanted = "stack" if "stack" in moments else 0
        self._box.setCurrentIndex(moments.index(self._wanted))

    def _activated(self) -> None:
        moment, session = self._box.currentData(), self._workbench.session
        if moment != "ask" and not isinstance(moment, Named):
            self._wanted = moment
            self.changed.emit()
            return
        self._select()
        if session is None:
            return
        if isinstance(moment, Named):
            self._resolve(session, moment)
            return
        path = self._ask(self, session.checkpoint.path.absolute().parent)
        if path is not None:
            self._workbench.compare_with(path)

    def _resolve(self, session: Session, state: Named) -> None:
        """Have the engine find out what a named state prunes, and choose it then."""
        recipe = session.named_states[state.name]

        def work(monitor: Monitor) -> Resolution:
            return Resolver(session.checkpoint).resolve(recipe, monitor)

        def then(resolution: Resolution) -> None:
            if session is self._workbench.session:
                self._wanted, self._state = state, (recipe, resolution)
                self.offer()
                self.changed.emit()

        self._workbench.look("compare.state", work, then)
