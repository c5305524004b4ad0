"""The panel of the draft: a step that every view previews before it is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from prune_gui.errors import RecipeError
from prune_gui.gui import formatting
from prune_gui.gui.draft.fields import WheelToScroll
from prune_gui.gui.draft.form import (
    CutFollower,
    MethodBox,
    MethodForm,
    choose_units,
    row_label,
    summary,
)
from prune_gui.gui.draft.targets_field import TargetsField
from prune_gui.gui.views.controls import switch
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.frames import FitScrollArea
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.gui.widgets.theme import bold, set_icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods import METHODS, Method
from prune_gui.recipe import Step
from prune_gui.recipe.amounts import Amount, allocated, with_own_amount, with_shares_of
from prune_gui.session import Session
from prune_gui.session.amount_from_cut import FIELD_FOR
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
from prune_gui.session.history import DraftState
from prune_gui.worker.jobs import Resolved

UPDATE_INTERVAL_MS: Final = 25
"""Minimum interval between updates of the draft: each takes processor time from the engine."""
MIN_FIELDS_HEIGHT_PX: Final = 120  # minimum height of the scroll area with the fields


class DraftPanel(QWidget):
    """The form for method, targets and fields of a step to add or to edit.

    There is a draft while *Preview* is checked. A change in the form checks it, and adding the step
    unchecks it.
    """

    added = Signal()  # the draft became a step
    offer_changed = Signal()  # whether it is previewed or edited has changed

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._table: Path | None = None  # the architecture table of the units that are offered
        self._shown: DraftState | None = None  # what the form shows, as the history has it

        self._heading = QLabel()
        self._heading.setFont(bold(self._heading.font()))
        self.method = MethodBox()
        WheelToScroll(self).watch(self.method)
        self.method.activated.connect(self._use_method)
        self.method.activated.connect(self._changed_by_user)
        self.targets = TargetsField(workbench)
        self.targets.changed.connect(self._targets_changed)
        self.form = MethodForm()
        self.form.changed.connect(self._changed_by_user)
        self._cuts = CutFollower(workbench, self.form)
        tip = tr("Show in every view what this step would do")
        self.preview = switch(tr("Previe&w"), tip, lambda: self._update())
        self.outcome = OutcomeText()
        self.commit = QPushButton()
        self.commit.clicked.connect(self.add)
        tip = tr("Leave the step as it is; the draft of the next step returns")
        self.cancel = layouts.button(tr("Cancel"), lambda: self.stop_editing(), tip)
        rows = layouts.form(
            (row_label(tr("Method"), self.method), self.method),
            (row_label(tr("&Targets"), self.targets.line), self.targets),
        )
        fields = QWidget()
        layouts.column(rows, self.form, layouts.STRETCH, of=fields, margin=0)
        self._scrolled = FitScrollArea(fields, MIN_FIELDS_HEIGHT_PX)
        self._scrolled.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        buttons = layouts.row(self.preview, layouts.STRETCH, self.cancel, self.commit)
        layouts.column(self._heading, (self._scrolled, 1), self.outcome, buttons, of=self)

        self._is_outdated = False
        self._offered = (False, False)
        self._update_timer = QTimer(self, singleShot=True, interval=UPDATE_INTERVAL_MS)
        self._update_timer.timeout.connect(self._catch_up)
        workbench.changed.connect(self._on_changed)
        workbench.methods_loaded.connect(self._offer)
        workbench.draft_wanted.connect(self.change)
        self._opened()

    @property
    def _editing(self) -> int | None:
        """Index of the step that the draft is to replace."""
        session = self._workbench.session
        return session.draft.editing if session is not None and session.draft is not None else None

    @property
    def editing(self) -> bool:
        return self._editing is not None

    def edit(self, index: int, *, focus: bool = True) -> None:
        """Put the draft aside, and load a step of the recipe into the form, to replace it."""
        self._change(lambda session: session.edit_step(index))
        self._scrolled.ensureVisible(0, 0)
        if focus:  # for other reasons, Fusion draws no focus frame
            self.method.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _load(self, number: int | None) -> bool:
        """Load a step into the form, unless it is in it; None for the draft, which is.

        Return whether there is such a step: a picture may be older than the stack.
        """
        if number is not None and self._editing != number - 1:
            if number > len(self._workbench.opened.steps):
                return False
            self.edit(number - 1, focus=False)
        return True

    def edit_with_amount(self, index: int, amount: Amount) -> None:
        self.edit(index)
        self.form.set_value("amount", amount)
        self._update()

    def stop_editing(self) -> None:
        if self.editing:
            self._bring_back()

    def _bring_back(self) -> None:
        """Show the draft that was put aside, or else begin a new one."""
        session = self._workbench.session
        if session is not None and session.draft is not None and session.draft.aside is not None:
            self._change(lambda session: session.end_draft())
        else:
            self._reset()

    def _change(self, act: Callable[[Session], None]) -> None:
        """Change the draft, which the form then shows, by a method of the session."""
        self._catch_up()
        self._workbench.draft.change(act)

    def add(self) -> None:
        """Add the draft, or apply it to the edited step, when its globs are known.

        If it is incomplete, show what is missing.
        """
        self.targets.when_known(self._add)

    def _add(self) -> None:
        self._update(amend=not self._is_outdated)
        if self._step() is None or self.obstacle:
            self._show_missing()
            return
        self._workbench.edit(lambda session: session.commit_draft())
        self.added.emit()

    def _reset(self, *, amend: bool = False) -> None:
        """Begin a new draft: the first method with its defaults, for the selected parameters."""
        self.method.choose(next(iter(METHODS)))
        self.form.reset(METHODS[self.method.currentData()])
        self.targets.restore(self.targets.typed, follows=True)
        with QSignalBlocker(self.preview):
            self.preview.setChecked(False)
        self._note(self._state(None), amend=amend)
        self._show_mode()

    def _show(self, state: DraftState) -> None:
        """Show a draft as it was, also one that is incomplete or that edits a step."""
        self._workbench.draft.merging.stop()
        self._is_outdated = False
        made = type(state.step.method) if state.step else METHODS.get(state.method)
        if made is None or made is not METHODS.get(state.method):  # its file was loaded again
            self._reset(amend=True)
            return
        self._shown = state
        self.method.choose(state.method)
        self.form.use(made)
        self.form.show_values(state.values)
        self.targets.restore(state.targets, follows=state.follows)
        with QSignalBlocker(self.preview):
            self.preview.setChecked(state.previewed)
        self._show_mode()
        self._step()  # marks what is missing
        self._show_outcome()

    def _state(self, before: DraftState | None) -> DraftState:
        """Return what the form shows, as a change of a draft; None: as a new one."""
        is_previewed = self.preview.isChecked()
        made = DraftState(
            self._step(),
            self.method.currentData(),
            self.form.values,
            self.targets.typed,
            follows=self.targets.following.isChecked(),
            previewed=is_previewed,
            is_set_up=is_previewed or (before is not None and before.is_set_up),
        )
        if before is None:
            return made
        is_views = before.made_by_view and made.targets == before.targets
        return replace(made, made_by_view=is_views, editing=before.editing, aside=before.aside)

    def change(self, request: DraftRequest) -> None:
        bench = self._workbench
        match request:
            case CutRequest():
                if not self._load(request.step):
                    return
                own = {"group": request.group} if request.group else {}
                self._cuts.apply(partial(FIELD_FOR[request.quantity], value=request.value, **own))
            case StepRequest(step):
                self._change(lambda session: session.draft_step(step))
            case TargetsRequest(names):
                self.targets.choose(names)
            case AmountRequest():
                method = self.form.method() if self._load(request.step) else None
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
        """Draft listed channels or units; end that draft without any; None: no change."""
        if numbers:
            self._change(lambda session: session.draft_step(to_step(numbers)))
        elif numbers is not None:
            self._bring_back()

    def take_shares(self, number: int | None) -> None:
        """Draft a step with the shares that a step, which it replaces, or the draft prunes."""
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
        if self._load(None if number == workbench.draft_number else number):
            self._show_step(step)
        with QSignalBlocker(self.preview):
            self.preview.setChecked(True)
        self._update()

    def _show_step(self, step: Step) -> None:
        self.method.choose(step.method.name)
        self.form.show_method(step.method)
        self.targets.show_patterns(step.targets)
        self._show_mode()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape and self.editing:
            self.stop_editing()
        else:
            super().keyPressEvent(event)

    def _on_changed(self, changes: Changes) -> None:
        session = self._workbench.session
        if changes.methods:
            self._renew_methods()
        if changes.file:
            self._opened()
        elif session is not None and session.draft is not None and session.draft != self._shown:
            self._show(session.draft)  # undone or redone, for example
        if changes.recipe and session is not None:
            self.targets.protect(session.protected)
            if session.recipe.table_path != self._table:
                self._table = session.recipe.table_path
                self._offer_units()
        if changes.resolution:
            self._show_outcome()
            self._cuts.catch_up()
        if changes.stopped:
            self.outcome.say(tr("Stopped. Press F5 to recompute."))

    def _opened(self) -> None:
        session = self._workbench.session
        self.setEnabled(session is not None)
        if session is not None and session.draft is not None:
            self._show(session.draft)  # the file was loaded again
        else:
            self._reset(amend=True)

    def _show_mode(self) -> None:
        self.cancel.setVisible(self.editing)
        if (editing := self._editing) is not None:
            heading = tr("Editing step {number}", number=editing + 1)
            text, icon_name = tr("Appl&y"), "edit"
            tip = tr("Apply the changes to the step  (Ctrl+Return)")
        else:
            heading = tr("Next step")
            text, icon_name = tr("&Add step"), "add"
            tip = tr("Add this step to the stack  (Ctrl+Return)")
        self._heading.setText(heading)
        self.commit.setText(text)
        set_icon(self.commit, icon_name)
        self.commit.setToolTip(tip)
        method = METHODS[self.method.currentData()]
        self.method.setToolTip(formatting.wrapped(summary(method)))
        self.targets.use(method)
        # The tab order is from the top to the bottom, including new rows.
        before = (self.method, self.targets.line, self.targets.following)
        after = (self.preview, self.cancel, self.commit)
        for widget, next_widget in pairwise((*before, *self.form.inputs, *after)):
            QWidget.setTabOrder(widget, next_widget)

    def _renew_methods(self) -> None:
        self.method.list_methods()
        if METHODS[self.method.currentData()] is not self.form.method_type:
            self._use_method()
            self._update()

    def _offer(self, methods: Sequence[type[Method]]) -> None:
        """List loaded methods, and select the first of them unless there is a draft."""
        self.method.list_methods()
        if not self.preview.isChecked():
            self.method.choose(methods[0].name)
            self._use_method()
            self._update(amend=True)

    def _use_method(self) -> None:
        self.form.use(METHODS[self.method.currentData()])
        self._show_mode()
        self._offer_units()

    def _offer_units(self) -> None:
        choose_units(self._workbench, self.form, lambda: self._update(amend=True))

    def _targets_changed(self, by_user: bool) -> None:
        if by_user:
            self._changed_by_user()
        elif self._shown is not None and self._shown.made_by_view:
            self._bring_back()  # the channels are those of another parameter
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

    def _update(self, *, amend: bool = False) -> None:
        self._is_outdated = False
        session = self._workbench.session
        self._note(self._state(session.draft if session is not None else None), amend=amend)

    def _note(self, state: DraftState, *, amend: bool) -> None:
        self._shown = state
        self._workbench.draft.note(state, amend=amend)
        self._show_outcome()

    def _step(self) -> Step | None:
        session = self._workbench.session
        file = session and (session.recipe_path or session.checkpoint.path)
        method = self.form.method(file.parent if file else None)
        targets = self.targets.patterns()
        if method is None or not targets:
            return None
        editing = self._editing
        enabled = editing is None or session is None or session.steps[editing].enabled
        return Step(method=method, targets=targets, enabled=enabled)

    @property
    def obstacle(self) -> str:
        """Why the draft cannot become a step; "" if it can, or if that is not known yet."""
        if error := self.targets.error:
            return error
        if (problem := self.form.problem) is not None:
            return problem[1]
        resolved = self._resolved()
        failed = resolved is not None and resolved.preview is None and not self.editing
        return resolved.draft_error or "" if resolved and failed else ""

    def _show_obstacle(self) -> None:
        self.outcome.say(self.obstacle if not self.targets.error else "")  # is below the targets

    def _show_missing(self) -> None:
        self._show_obstacle()
        if self.targets.error:
            self.targets.mark()
        elif (problem := self.form.problem) is not None:
            problem[0].setFocus(Qt.FocusReason.ShortcutFocusReason)
        if (focused := self.focusWidget()) is not None:
            self._scrolled.ensureWidgetVisible(focused)

    def _resolved(self) -> Resolved | None:
        """Return the resolution with the draft; None until it is known."""
        resolved, session = self._workbench.resolved, self._workbench.session
        if resolved is None or session is None or resolved.recipe is not session.recipe:
            return None
        return resolved if resolved.draft == self._workbench.draft.current else None

    def _show_outcome(self) -> None:
        if not self.preview.isChecked():
            self.outcome.say("")
        elif self._workbench.draft.current is None:
            self._show_obstacle()
        elif (resolved := self._resolved()) is None:
            self.outcome.wait()
        else:
            self.outcome.show_outcome(resolved)
        offered = self.preview.isChecked(), self.editing
        if offered != self._offered:  # not while a slider moves
            self._offered = offered
            self.offer_changed.emit()


class OutcomeText(QWidget):
    """Says what a step would do, the limits that it meets, and remarks; or why it cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.effect = layouts.described(Message(), tr("Effect of the step"))
        keep_room(self.effect, lines=2)
        self.limits, self.remarks = Message(), Message()
        self._messages = self.effect, self.limits, self.remarks
        self._is_outcome = False  # of this draft, or of the one before a change
        layouts.column(*self._messages, of=self, margin=0)

    def say(self, text: str, *, warning: bool = True) -> None:
        self._is_outcome = False
        self._show(text, warning=warning)

    def wait(self) -> None:
        """Await the outcome; the previous one stays meanwhile, so that nothing moves."""
        if not self._is_outcome:
            self._show(tr("Computing …"), warning=False)
            return
        for message in self._messages:
            message.fade()

    def show_outcome(self, resolved: Resolved) -> None:
        """Show the outcome of the draft, or the error in it."""
        self._is_outcome = True
        preview, number, error = resolved.preview, resolved.draft_number, resolved.draft_error
        if preview is None or number is None:
            self._show(error or "")
            return
        idle, outcome = formatting.idle_reason(preview, number), preview.outcomes[number - 1]
        self.effect.say(
            idle or formatting.prospect(preview, number), warning=False, caution=bool(idle)
        )
        self.limits.say("\n".join(formatting.notes(outcome.limits)), warning=False)
        protected = preview.protected  # the text below the targets counts these
        warnings = {name: note for name, note in outcome.warnings.items() if name not in protected}
        remarks = [*formatting.notes(warnings), *filter(None, [error])]
        self.remarks.say("\n".join(remarks))

    def _show(self, text: str, *, warning: bool = True) -> None:
        self.effect.say(text, warning=warning)
        self.limits.say("")
        self.remarks.say("")
