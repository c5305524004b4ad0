"""The panel of the draft: a step that every view previews before it is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QCheckBox, QLabel, QPushButton, QWidget

from prune_gui.errors import RecipeError
from prune_gui.gui import formatting
from prune_gui.gui.draft.form import MethodBox, MethodForm, row_label, summary
from prune_gui.gui.draft.targets_field import TargetsField
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.frames import FitScrollArea
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.gui.widgets.theme import bold, icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods import METHODS, Method
from prune_gui.pruning.methods.base import Setting
from prune_gui.recipe import Step
from prune_gui.recipe.amounts import Amount, allocated, with_own_amount, with_shares_of
from prune_gui.session.amount_from_cut import FIELD_FOR, DraggedAmount, FindSetting
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import (
    AmountRequest,
    ChannelRequest,
    CutRequest,
    DraftRequest,
    SharesRequest,
    StepRequest,
    TargetsRequest,
    UnitRequest,
    listed,
    listed_units,
)
from prune_gui.worker.jobs import Draft

UPDATE_INTERVAL_MS: Final = 25
"""Minimum interval between two updates of the draft while the user changes the form.

A mouse can report a slider more often than the screen shows it; each update takes processor time
from the engine.
"""
IDLE: Final = deferred("Change a setting, or turn on Preview.")
MIN_FIELDS_HEIGHT_PX: Final = 120
"""Minimum height of the scroll area with the fields."""


class DraftPanel(QWidget):
    """The form for method, targets and fields of a step to add or to edit.

    There is a draft while *Preview* is checked. A change in the form checks it; adding the step
    unchecks it, so that the views do not show the same step twice.
    """

    added = Signal()  # the draft became a step
    offer_changed = Signal()  # whether it is previewed, is edited or can be added has changed

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._editing: tuple[int, Step] | None = None
        self._is_made_by_view = False
        self._shows_outcome = False  # that of the current or of the previous draft

        self._heading = QLabel()
        self._heading.setFont(bold(self._heading.font()))
        self.method = MethodBox()
        self.method.activated.connect(self._use_method)
        self.method.activated.connect(self._changed_by_user)
        self._summary = layouts.remark()
        self.targets = TargetsField(workbench)
        self.targets.changed.connect(self._targets_changed)
        self.form = MethodForm()
        self.form.changed.connect(self._changed_by_user)
        self._cuts = CutFollower(workbench, self.form)
        self.preview = QCheckBox(tr("Previe&w"))
        self.preview.setToolTip(tr("Show in every view what this step would do"))
        self.preview.toggled.connect(self._update)
        self._outcome = layouts.described(Message(), tr("Effect of the step"))
        keep_room(self._outcome, lines=2)
        self._limits, self._remarks = Message(), Message()
        self.commit = QPushButton()
        self.commit.clicked.connect(self.add)
        self.cancel = layouts.button(tr("Cancel"), self.stop_editing)
        rows = layouts.form(
            (row_label(tr("Method"), self.method), self.method),
            self._summary,
            (row_label(tr("&Targets"), self.targets.chips), self.targets),
        )
        fields = QWidget()
        layouts.column(rows, self.form, layouts.STRETCH, of=fields, margin=0)
        scrolled = FitScrollArea(fields, MIN_FIELDS_HEIGHT_PX)
        messages = self._outcome, self._limits, self._remarks
        buttons = layouts.row(self.preview, layouts.STRETCH, self.cancel, self.commit)
        layouts.column(self._heading, scrolled, *messages, buttons, of=self)

        self._is_outdated = False
        self._offered = (False, False, False)
        self._update_timer = QTimer(self, singleShot=True, interval=UPDATE_INTERVAL_MS)
        self._update_timer.timeout.connect(self._catch_up)
        workbench.changed.connect(self._on_changed)
        workbench.methods_loaded.connect(self._offer)
        self._opened()

    @property
    def editing(self) -> bool:
        return self._editing is not None

    def edit(self, index: int, *, focus: bool = True) -> None:
        """Load a step of the recipe into the form, to replace it; give the form the focus."""
        session = self._workbench.session
        assert session is not None
        step = session.steps[index]
        self._editing = index, step
        self._show_step(step)
        self._turn_preview(on=True)
        if focus:  # for other reasons, Fusion draws no focus frame
            self.method.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _load(self, number: int | None) -> None:
        """Load a step into the form, unless it is in it; None for the draft, which is."""
        if number is not None and (self._editing is None or self._editing[0] + 1 != number):
            self.edit(number - 1, focus=False)

    def edit_with_amount(self, index: int, amount: Amount) -> None:
        self.edit(index)
        self.form.set_value("amount", amount)
        self._update()

    def stop_editing(self) -> None:
        if self._editing is not None:
            self._reset()

    def add(self) -> None:
        """Add the draft to the recipe, or replace the edited step by it.

        If the globs of the selected parameters are being computed, the draft is added when they
        are known.
        """
        self.targets.when_known(self._add)

    def _add(self) -> None:
        step = self._step()
        if step is None or not self.commit.isEnabled():
            return
        draft = Draft(step, self._editing[0] if self._editing else None)
        self._workbench.edit(lambda session: self._workbench.draft.commit(session, draft))
        if self.editing or self._is_made_by_view:
            self._reset()
        else:
            self._turn_preview(on=False)
        self.added.emit()

    def _reset(self) -> None:
        """Begin a new draft: the first method with its defaults, for the selected parameters."""
        self._editing, self._is_made_by_view = None, False
        self.method.choose(next(iter(METHODS)))
        self.form.reset(METHODS[self.method.currentData()])
        self._show_mode()
        self._turn_preview(on=False)
        self.targets.follow_again()

    def target(self, names: frozenset[str]) -> None:
        """Set parameters as the targets, until the user follows the selection again."""
        self.targets.choose(names)
        self._turn_preview(on=True)

    def change(self, request: DraftRequest) -> None:
        """Change the draft as the user wants it in a view."""
        bench = self._workbench
        match request:
            case CutRequest():
                self._load(request.step)
                own = {"group": request.group} if request.group else {}
                self._cuts.apply(partial(FIELD_FOR[request.quantity], value=request.value, **own))
            case StepRequest(step):
                self._draft_made(step)
            case TargetsRequest(names):
                self.target(names)
            case AmountRequest():
                self._load(request.step)
                method = self.form.method()
                if method is not None and method.takes_own_amounts:
                    amounts = with_own_amount(method.own_amounts, request.name, request.amount)
                    self.form.set_value("amounts", amounts)
            case SharesRequest(number):
                self.take_shares(number)
            case ChannelRequest(dim) if bench.session and bench.chosen:
                channels = request.changed(bench.drafted_channels(dim))
                file = bench.session.checkpoint
                self._list(channels, partial(listed, dim=dim, name=bench.chosen, checkpoint=file))
            case UnitRequest(group) if bench.session:
                units = request.changed(bench.drafted_units(group))
                file = bench.session.checkpoint
                self._list(units, partial(listed_units, group=group, checkpoint=file))

    def _list(
        self, numbers: frozenset[int] | None, to_step: Callable[[frozenset[int]], Step]
    ) -> None:
        """Draft listed channels or units; begin a new draft without any; None: no change."""
        if numbers:
            self._draft_made(to_step(numbers))
        elif numbers is not None:
            self._reset()

    def take_shares(self, number: int | None) -> None:
        """Draft a step with the shares that another step, which it replaces, or the draft prunes.

        Its method is that of the draft, if there is one.
        """
        workbench = self._workbench
        shown, draft = workbench.shown, workbench.draft.current
        number = number or workbench.draft_number
        if shown is None or number is None or number > len(shown.outcomes):
            return
        method = (draft.step if draft else shown.recipe.steps[number - 1]).method
        try:
            step = with_shares_of(shown, number, allocated(method))
        except RecipeError as error:
            workbench.fail(deferred("Taking the shares of a step"), error)
            return
        self._load(None if number == workbench.draft_number else number)
        self._show_step(step)
        self._turn_preview(on=True)

    def _draft_made(self, step: Step) -> None:
        """Show a step that a view makes, as the draft; for other targets, there is a new one."""
        self._show_step(step)
        self._is_made_by_view = True
        self._turn_preview(on=True)

    def _show_step(self, step: Step) -> None:
        self.method.choose(step.method.name)
        self.form.show_method(step.method)
        self.targets.show_patterns(step.targets)
        self._show_mode()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            self._show_mode()
        super().changeEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape and self.editing:
            self.stop_editing()
        else:
            super().keyPressEvent(event)

    def _on_changed(self, changes: Changes) -> None:
        if changes.methods:
            self._renew_methods()
        if changes.file:
            self._opened()
        elif changes.recipe and self._workbench.session is not None and self._editing is not None:
            index, step = self._editing
            if self._workbench.session.steps[index : index + 1] != (step,):
                self.stop_editing()
        if changes.resolution:
            self._show_outcome()
            self._cuts.catch_up()
        if changes.stopped:
            self._shows_outcome = False
            self._outcome.say(tr("Stopped. Press F5 to recompute."))

    def _opened(self) -> None:
        self.setEnabled(self._workbench.session is not None)
        self._reset()

    def _show_mode(self) -> None:
        """Show the chosen method, and whether a step is edited."""
        self.cancel.setVisible(self.editing)
        self._heading.setText(
            tr("Editing step {number}", number=self._editing[0] + 1)
            if self._editing
            else tr("Next step")
        )
        self.commit.setText(tr("Appl&y") if self.editing else tr("&Add step"))
        self.commit.setIcon(icon("edit" if self.editing else "add"))
        method = METHODS[self.method.currentData()]
        self._summary.setText(summary(method))
        self.targets.take_every_kind(on=method.takes_every_kind)
        # The tab order is from the top to the bottom, including new rows.
        targets = self.targets
        before = (self.method, targets.chips, targets.line, targets.following, targets.use_filtered)
        after = (self.preview, self.cancel, self.commit)
        for widget, next_widget in pairwise((*before, *self.form.inputs, *after)):
            QWidget.setTabOrder(widget, next_widget)

    def _renew_methods(self) -> None:
        """List the current methods, and update the form if its method was replaced."""
        self.method.list_methods()
        if METHODS[self.method.currentData()] is not self.form.method_type:
            self._use_method()
            self._update()

    def _offer(self, methods: Sequence[type[Method]]) -> None:
        """List loaded methods, and select the first of them unless a step is being edited."""
        self.method.list_methods()
        if not self.editing:
            self.method.choose(methods[0].name)
            self._use_method()
            self._update()

    def _use_method(self) -> None:
        self.form.use(METHODS[self.method.currentData()])
        self._show_mode()

    def _targets_changed(self, by_user: bool) -> None:
        if by_user:
            self._is_made_by_view = False
            self._changed_by_user()
        elif self._is_made_by_view:
            self._reset()  # the channels are those of another parameter
        else:
            self._update()

    def _changed_by_user(self) -> None:
        if not self.preview.isChecked():
            self.preview.setChecked(True)
        elif self._update_timer.isActive():
            self._is_outdated = True
        else:
            self._update()
            self._update_timer.start()

    def _catch_up(self) -> None:
        if self._is_outdated:
            self._update()
            self._update_timer.start()

    def _turn_preview(self, *, on: bool) -> None:
        with QSignalBlocker(self.preview):
            self.preview.setChecked(on)
        self._update()

    def _update(self) -> None:
        self._is_outdated = False
        index = self._editing[0] if self._editing else None
        step = self._step()
        self._workbench.draft.set(step if self.preview.isChecked() else None, index)
        self._show_outcome()

    def _step(self) -> Step | None:
        session = self._workbench.session
        file = session and (session.recipe_path or session.checkpoint.path)
        method = self.form.method(file.parent if file else None)
        targets = self.targets.patterns()
        if method is None or not targets:
            return None
        enabled = self._editing[1].enabled if self._editing else True
        return Step(method=method, targets=targets, enabled=enabled)

    def _offer_commit(self, error: str | None) -> str:
        """Enable *Add step* if the draft is valid; return why it is not, "" if it is."""
        if self._workbench.session is None:
            obstacle = tr("Open a checkpoint first.")
        elif not self.targets.patterns():
            obstacle = self.targets.error or tr("Choose parameters, or type globs.")
        elif self._step() is None:
            obstacle = tr("Correct the highlighted settings first.")
        else:
            obstacle = "" if self.editing else error or ""
        self.commit.setEnabled(not obstacle)
        done = tr("Add this step to the stack  (Ctrl+Return)")
        if self.editing:
            done = tr("Apply the changes to the step  (Ctrl+Return)")
        self.commit.setToolTip(formatting.wrapped(obstacle) if obstacle else done)
        return obstacle

    def _show_outcome(self) -> None:
        draft, resolved = self._workbench.draft.current, self._workbench.resolved
        session = self._workbench.session
        current = None
        if resolved is not None and session is not None and resolved.recipe is session.recipe:
            current = resolved if resolved.draft == draft else None
        preview = current.preview if current else None
        error = current.draft_error if current and preview is None else None
        obstacle = self._offer_commit(error)
        remarks, limits = [], []
        if not self.preview.isChecked():
            self._outcome.say(tr(IDLE), warning=False)
        elif draft is None:
            self._outcome.say(obstacle)
        elif current is None and self._shows_outcome:  # keep the layout stable while a slider moves
            for message in (self._outcome, self._limits, self._remarks):
                message.fade()
            self._tell_offer()
            return
        elif current is None:
            self._outcome.say(tr("Computing …"), warning=False)
        elif preview is None:
            self._outcome.say(current.draft_error or "")
        else:
            number = current.draft_number or 0
            self._outcome.say(formatting.prospect(preview, number), warning=False)
            outcome = preview.outcomes[number - 1]
            limits = formatting.notes(outcome.limits)
            remarks = formatting.notes(outcome.warnings)
            remarks += [current.draft_error] if current.draft_error else []
        self._shows_outcome = self.preview.isChecked() and current is not None
        self._limits.say("\n".join(limits), warning=False)
        self._remarks.say("\n".join(remarks))
        self._tell_offer()

    def _tell_offer(self) -> None:
        """Emit `offer_changed`, unless nothing has changed, as while a slider moves."""
        before = self._offered
        self._offered = self.preview.isChecked(), self.editing, self.commit.isEnabled()
        if self._offered != before:
            self.offer_changed.emit()


class CutFollower:
    """Computes the setting for each dragged cut on the engine's thread.

    The next cut waits until the outcome of the previous one is shown, so that fast dragging does
    not block updates of the views. Of several waiting cuts, only the latest is computed.
    """

    def __init__(self, workbench: Workbench, form: MethodForm) -> None:
        self._workbench = workbench
        self._form = form
        self._pending: FindSetting | None = None
        self._ticket: int | None = None

    def apply(self, find: FindSetting) -> None:
        workbench = self._workbench
        session, draft, number = workbench.session, workbench.draft.current, workbench.draft_number
        outdated = workbench.resolved is not None and workbench.resolved.draft != draft
        if outdated or workbench.bridge.waits_for(self._ticket):
            self._pending = find
            return
        if not (session and workbench.shown and draft and number and workbench.chosen):
            return
        if workbench.chosen not in workbench.shown.outcomes[number - 1].pruned:
            return  # the cut was dragged in a picture of the previous parameter
        moved = DraggedAmount(session, draft.step, workbench.shown, number, workbench.chosen)

        def then(setting: Setting | None) -> None:
            before = workbench.draft.current
            if setting is not None and before and before.step.method.name == draft.step.method.name:
                self._form.set_value(*moved.for_parameter(setting))
            if workbench.draft.current == before:  # no new outcome follows to trigger this
                self.catch_up()

        self._ticket = workbench.bridge.run_job(
            "cut", lambda monitor: find(moved, monitor=monitor), then
        )

    def catch_up(self) -> None:
        """Handle the latest cut that was dragged while the previous one was computed."""
        find, self._pending = self._pending, None
        if find is not None and self._workbench.draft.current is not None:
            self.apply(find)
