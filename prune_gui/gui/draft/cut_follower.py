"""Follows cuts that are dragged in a picture, as settings of the form of the draft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.session.amount_from_cut import DraggedAmount, FindSetting

if TYPE_CHECKING:
    from prune_gui.gui.draft.form import MethodForm
    from prune_gui.gui.workbench import Workbench
    from prune_gui.pruning.methods.base import Setting


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
