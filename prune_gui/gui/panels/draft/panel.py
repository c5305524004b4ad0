"""The form of the draft: a step that every view shows before it is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.panels.draft.amount_from_cut import (
    DraggedAmount,
    Setting,
    field_for_rank,
    field_for_score,
    field_for_weight,
)
from prune_gui.gui.panels.draft.form import MethodForm, row_label, summary
from prune_gui.gui.panels.draft.manual_channels import drafted_channels, listed
from prune_gui.gui.panels.draft.targets_field import TargetsField
from prune_gui.gui.widgets.fit_scroll_area import FitScrollArea
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.gui.workbench import Workbench
from prune_gui.language import later, tr
from prune_gui.pruning.methods import METHODS, Method
from prune_gui.recipe import Step

IDLE: Final = later("Change something, or turn on Preview.")
FindSetting = Callable[..., Setting | None]
"""One of the functions of `cut`, without what it is told of the draft."""
LEAST_HEIGHT: Final = 120
"""Of the fields, in pixels; they scroll where there is no room for all."""


class DraftPanel(QWidget):
    """Method, targets and parameters of a step to add, or of one that is edited.

    There is a draft while *Preview* is on. It comes on when the user changes something and goes
    off once the step is added, so that the same amount is not shown a second time on top.

    Signals:
        added: the draft became a step.
        outcome_changed: what the draft comes to, and so whether it can be added.
    """

    added = Signal()
    outcome_changed = Signal()

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._editing: tuple[int, Step] | None = None
        self._by_hand = False
        self._dragged: FindSetting | None = None
        self._cutting: int | None = None
        self._told = False  # whether it says what a draft comes to, this one or the last

        self._heading = QLabel()
        font = self._heading.font()
        font.setBold(True)
        self._heading.setFont(font)
        self.method = QComboBox()
        self.method.setAccessibleName(tr("Method"))
        self._list_methods()
        self.method.activated.connect(self._change_method)
        self._summary = QLabel()
        self._summary.setWordWrap(True)
        self.targets = TargetsField(workbench)
        self.targets.changed.connect(self._targets_changed)
        self.form = MethodForm()
        self.form.changed.connect(self._touched)
        self.preview = QCheckBox(tr("Previe&w"))
        self.preview.setToolTip(tr("Show in every view what this step would do"))
        self.preview.toggled.connect(self._update)
        self._outcome = Message()
        keep_room(self._outcome, lines=2)
        self._outcome.setAccessibleName(tr("What the step would do"))
        self._remarks = Message()
        self.commit = QPushButton()
        self.commit.clicked.connect(self.add)
        self.cancel = QPushButton(tr("Cancel"))
        self.cancel.clicked.connect(self.stop_editing)
        self._lay_out()

        workbench.methods_renewed.connect(self._renew_methods)
        workbench.methods_loaded.connect(self._offer)
        workbench.opened.connect(self._opened)
        workbench.edited.connect(self._recipe_changed)
        workbench.resolved_changed.connect(self._show_outcome)
        workbench.resolved_changed.connect(self._follow_drag)
        workbench.resolving_stopped.connect(self._say_stopped)
        self._show_mode()
        self._use_method()
        self._opened()

    @property
    def editing(self) -> bool:
        """Whether the form holds a step of the recipe, not one to add."""
        return self._editing is not None

    def edit(self, index: int) -> None:
        """Load a step of the recipe, to change it in its place."""
        session = self._workbench.session
        assert session is not None
        step = session.steps[index]
        self._editing = index, step
        self._show_step(step)
        self._turn_preview(on=True)
        self.method.setFocus(Qt.FocusReason.ShortcutFocusReason)  # or Fusion would not show it

    def stop_editing(self) -> None:
        """Leave the step that is edited as it is."""
        if self._editing is not None:
            self._editing = None
            self._show_mode()
            self._turn_preview(on=False)
            self.targets.follow_again()

    def add(self) -> None:
        """Make the draft a step of the recipe."""
        if self.commit.isEnabled():
            self._workbench.commit_draft()
            if self._editing is None:
                self._turn_preview(on=False)
                if self._by_hand:
                    self.targets.follow_again()
            else:
                self.stop_editing()
            self.added.emit()

    def target(self, names: frozenset[str]) -> None:
        """Take these parameters as the targets, whatever was typed."""
        self.targets.following.setChecked(True)
        self.targets.follow(names)
        self._turn_preview(on=True)

    def cut_at(self, threshold: float) -> None:
        """Change the draft so that entries up to this absolute weight go."""
        self._cut_at(partial(field_for_weight, value=threshold))

    def cut_at_score(self, score: float) -> None:
        """Change the draft so that entries up to this score go, by the scores it ranks by."""
        self._cut_at(partial(field_for_score, value=score))

    def cut_at_rank(self, rank: float) -> None:
        """Change the draft so that channels up to this rank go."""
        self._cut_at(partial(field_for_rank, value=rank))

    def _cut_at(self, find: FindSetting) -> None:
        """Find out which value of which field makes a cut, and set it.

        One cut after the other: what the last one came to is shown before the next is looked for,
        so that a hand that moves faster than the engine does not starve the views.
        """
        bench = self._workbench
        session, draft, number = bench.session, bench.draft, bench.draft_number
        unseen = bench.resolved is not None and bench.resolved.draft != draft
        if unseen or bench.bridge.waits_for(self._cutting):
            self._dragged = find
            return
        if not (session and bench.shown and draft and number and bench.chosen):
            return
        if bench.chosen not in bench.shown.outcomes[number - 1].pruned:
            return  # the cut was in the picture of the parameter before
        moved = DraggedAmount(session, draft.step, bench.shown, number, bench.chosen)

        def then(found: Setting | None) -> None:
            before = bench.draft
            if found is not None and before and before.step.method.name == draft.step.method.name:
                self.form.set_value(*found)
            if bench.draft == before:  # nothing is worked out that would be followed by it
                self._follow_drag()

        self._cutting = bench.look("cut", lambda monitor: find(moved, monitor=monitor), then)

    def _follow_drag(self) -> None:
        """Go on to where the cut has been dragged meanwhile."""
        find, self._dragged = self._dragged, None
        if find is not None and self._workbench.draft is not None:
            self._cut_at(find)

    def prune_channels(self, dim: int, channels: frozenset[int]) -> None:
        """Draft a step that prunes these channels, beside those that the draft prunes already."""
        self._list_channels(dim, (drafted_channels(self._workbench, dim) or frozenset()) | channels)

    def protect_channels(self, dim: int, channels: frozenset[int]) -> None:
        """Take these channels out of those that the draft prunes; no others go in their place."""
        drafted = drafted_channels(self._workbench, dim)
        if drafted is not None:
            self._list_channels(dim, drafted - channels)

    def _list_channels(self, dim: int, channels: frozenset[int]) -> None:
        name = self._workbench.chosen
        assert name is not None
        if not channels:
            self._turn_preview(on=False)
            return
        step = listed(channels, dim, name, self._workbench)
        self._show_step(step)
        self._by_hand = True
        self._turn_preview(on=True)

    def _show_step(self, step: Step) -> None:
        self.method.setCurrentIndex(self.method.findData(step.method.name))
        self.form.show_method(step.method)
        self._order_tabs()
        self.targets.show_patterns(step.targets)
        self._show_mode()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self._show_mode()
        super().changeEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Leave the step that is edited by Escape, as by Cancel."""
        if event.key() == Qt.Key.Key_Escape and self.editing:
            self.stop_editing()
        else:
            super().keyPressEvent(event)

    def _lay_out(self) -> None:
        rows = QFormLayout()
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        rows.addRow(row_label(tr("Method"), self.method), self.method)
        rows.addRow(self._summary)
        rows.addRow(row_label(tr("&Targets"), self.targets.line), self.targets)
        fields = QWidget()
        column = QVBoxLayout(fields)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(rows)
        column.addWidget(self.form)
        column.addStretch()
        buttons = QHBoxLayout()
        buttons.addWidget(self.preview)
        buttons.addStretch()
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.commit)
        layout = QVBoxLayout(self)
        layout.addWidget(self._heading)
        layout.addWidget(FitScrollArea(fields, LEAST_HEIGHT))
        layout.addWidget(self._outcome)
        layout.addWidget(self._remarks)
        layout.addLayout(buttons)

    def _opened(self) -> None:
        self.setEnabled(self._workbench.session is not None)
        self._editing = None
        self._show_mode()
        self._turn_preview(on=False)
        self.targets.following.setChecked(True)

    def _recipe_changed(self) -> None:
        session = self._workbench.session
        if session is not None and self._editing is not None:
            index, step = self._editing
            if session.steps[index : index + 1] != (step,):
                self.stop_editing()

    def _show_mode(self) -> None:
        self.cancel.setVisible(self.editing)
        self._heading.setText(
            tr("Editing step {number}", number=self._editing[0] + 1)
            if self._editing
            else tr("Next step")
        )
        self.commit.setText(tr("Appl&y") if self.editing else tr("&Add step"))
        self.commit.setIcon(icon("edit" if self.editing else "add"))
        self._summary.setText(summary(METHODS[self.method.currentData()]))

    def _list_methods(self) -> None:
        chosen = self.method.currentData()
        self.method.clear()
        for name, method in list(METHODS.items()):
            self.method.addItem(one_line(tr(method.title)), name)
            self.method.setItemData(
                self.method.count() - 1, summary(method), Qt.ItemDataRole.ToolTipRole
            )
        self.method.setCurrentIndex(max(self.method.findData(chosen), 0))

    def _renew_methods(self) -> None:
        """List the methods as they are now; the form takes a new version of its own."""
        self._list_methods()
        if METHODS[self.method.currentData()] is not self.form.method_type:
            self._use_method()
            self._show_mode()
            self._update()

    def _offer(self, methods: Sequence[type[Method]]) -> None:
        """List the methods that were loaded, and turn to them unless a step is being edited."""
        self._list_methods()
        if not self.editing:
            self.method.setCurrentIndex(self.method.findData(methods[0].name))
            self._use_method()
            self._show_mode()
            self._update()

    def _change_method(self) -> None:
        self._use_method()
        self._show_mode()
        self._touched()

    def _use_method(self) -> None:
        self.form.use(METHODS[self.method.currentData()])
        self._order_tabs()

    def _order_tabs(self) -> None:
        """Let the tab key go from the top to the bottom, through rows that are newly made too."""
        before = (self.method, self.targets.line, self.targets.following)
        after = (self.preview, self.cancel, self.commit)
        for one, next_one in pairwise((*before, *self.form.inputs, *after)):
            QWidget.setTabOrder(one, next_one)

    def _targets_changed(self, by_user: bool) -> None:
        self._by_hand = False
        if by_user:
            self._touched()
        else:
            self._update()

    def _touched(self) -> None:
        if self.preview.isChecked():
            self._update()
        else:
            self.preview.setChecked(True)

    def _turn_preview(self, *, on: bool) -> None:
        self.preview.blockSignals(True)
        self.preview.setChecked(on)
        self.preview.blockSignals(False)
        self._update()

    def _update(self) -> None:
        index = self._editing[0] if self._editing else None
        step = self._step()
        self._workbench.set_draft(step if self.preview.isChecked() else None, index)
        self._show_outcome()

    def _step(self) -> Step | None:
        session = self._workbench.session
        beside = session and (session.recipe_path or session.checkpoint.path)
        method = self.form.method(beside.parent if beside else None)
        targets = self.targets.patterns()
        if method is None or not targets:
            return None
        enabled = self._editing[1].enabled if self._editing else True
        return Step(method=method, targets=targets, enabled=enabled)

    def _say_stopped(self) -> None:
        self._told = False
        self._outcome.say(tr("Stopped. Press F5 to work it out again."))

    def _show_outcome(self) -> None:
        draft, resolved = self._workbench.draft, self._workbench.resolved
        session = self._workbench.session
        known = None
        if resolved is not None and session is not None and resolved.recipe is session.recipe:
            known = resolved if resolved.draft == draft else None
        preview = known.preview if known else None
        self.commit.setEnabled(
            preview is not None or (self._editing is not None and draft is not None)
        )
        remarks = []
        if not self.preview.isChecked():
            self._outcome.say(tr(IDLE), warning=False)
        elif draft is None:
            self._outcome.say(
                "" if self.targets.patterns() else tr("Choose parameters, or type globs.")
            )
        elif known is None and self._told:  # nothing is to jump while a slider moves
            self._outcome.fade()
            self._remarks.fade()
            self.outcome_changed.emit()
            return
        elif known is None:
            self._outcome.say(tr("Working it out …"), warning=False)
        elif preview is None:
            self._outcome.say(known.draft_error or "")
        else:
            number = known.draft_number or 0
            self._outcome.say(formatting.prospect(preview, number), warning=False)
            remarks = formatting.notes(preview.outcomes[number - 1])
            remarks += [known.draft_error] if known.draft_error else []
        self._told = self.preview.isChecked() and known is not None
        self._remarks.say("\n".join(remarks))
        self.outcome_changed.emit()
