"""What the draft would do, below its form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from prune_gui.gui import formatting
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.worker.jobs import Resolved


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
