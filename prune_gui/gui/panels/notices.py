"""Notices with a button that acts on them: zeros, the original, a recording, a change on disk."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Final

from PySide6.QtCore import QFileSystemWatcher, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton, QWidget

from prune_gui.errors import one_line
from prune_gui.file_stamps import FileStamps
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr, trn
from prune_gui.resources import resource
from prune_gui.session import Settings
from prune_gui.session.changes import Changes
from prune_gui.session.draft_request import StepRequest
from prune_gui.session.subjects import file_text
from prune_gui.worker.jobs import original_job

MAX_RECORDING_CHARS: Final = 40  # limit of a shown file name
SETTLE_DELAY_MS: Final = 500
"""Time without a change after which a file counts as completely written."""
MAX_NAME_CHARS: Final = 60  # limit of a shown file name


class Notice(QWidget):
    """A message, a button that acts on it, and one that hides it; hidden at first."""

    def __init__(self, workbench: Workbench, action: str, tool_tip: str) -> None:
        super().__init__()
        self._workbench = workbench
        self._is_closed = False
        self._text = ""
        self._label = ElidedLabel(tr("Notice"), wrapped=True)
        self.button = QPushButton(action)
        self.button.setToolTip(tool_tip)
        tip = tr("Hide this notice until the file is opened again")
        self._close = layouts.tool_button("", self._hide_for_good, tip, icon="cancel", flat=True)
        self._close.setAccessibleName(tr("Hide this notice"))
        parts, margin = ((self._label, 1), self.button, self._close), (GAP_PX, TIGHT_PX) * 2
        self._lines = layouts.column(layouts.row(*parts), of=self, margin=margin, gap=TIGHT_PX)
        workbench.changed.connect(self._on_changed)
        self.hide()

    @abstractmethod
    def _wanted_text(self) -> str:
        """Return what the notice says now; "" for nothing."""

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._is_closed = False
        if changes.file or changes.zeros or changes.recipe or changes.resolution:
            self.say(self._wanted_text())

    @property
    def text(self) -> str:
        return "" if self.isHidden() else self._text

    def say(self, text: str) -> None:
        """Show a message, unless the user closed the notice; "" to hide it."""
        self._text = text
        self._label.say(text, tip=text)
        self.setVisible(bool(text) and not self._is_closed)

    def _hide_for_good(self) -> None:
        self._is_closed = True
        self.hide()


class ZeroNotice(Notice):
    """Visible while many zeros do not count as pruned."""

    def __init__(self, workbench: Workbench, treat_as_pruned: QAction) -> None:
        super().__init__(workbench, tr("Treat as pruned"), treat_as_pruned.toolTip())
        self.button.clicked.connect(treat_as_pruned.trigger)

    def _wanted_text(self) -> str:
        session, zeros = self._workbench.session, self._workbench.unpruned_zeros
        is_wanted = session is not None and session.recipe.start == "dense" and zeros > 0
        return session.file_zeros.summary() if session is not None and is_wanted else ""


class OriginalNotice(Notice):
    """Visible for a file with recorded steps until its original is chosen."""

    choice_wanted = Signal()  # the user wants to choose a file, because none was found
    taken = Signal()  # the user wants to compare with the file that was found

    def __init__(self, workbench: Workbench) -> None:
        tip = tr(
            "The checkpoint before pruning becomes the reference: kept energy is relative to it"
        )
        super().__init__(workbench, "", tip)
        self._found: Path | None = None
        self._is_searched = False
        self._search: int | None = None  # the ticket of the job that looks for the original
        self.button.clicked.connect(self._compare)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._stop()
            self._found = None
            self._is_searched = False
        if (changes.file or changes.zeros) and self._wanted_text():
            self._look()
        super()._on_changed(changes)
        if changes.comparison:
            self.say(self._wanted_text())

    def _look(self) -> None:
        """Look for the original once, after the zeros of the file are counted."""
        session, bench = self._workbench.session, self._workbench
        if session is None or self._is_searched or self._is_closed:
            return
        if session.file_zeros.is_complete or not session.checkpoint.is_fetched:
            self._is_searched = True
            demo = resource("demo", "digits_cnn.safetensors")  # is not among the recent files
            known = [*map(Path, Settings.load().recent), demo]
            job = original_job(session, known)
            self._search = bench.bridge.run(job, self._offer, lambda _: self._offer(None))

    def _stop(self) -> None:
        if self._search is not None:
            self._workbench.bridge.cancel(self._search)
        self._search = None

    def _offer(self, found: Path | None) -> None:
        self._found, self._search = found, None
        self.say(self._wanted_text())

    def _wanted_text(self) -> str:
        session, button = self._workbench.session, tr("Choose the reference…")
        if session is None or session.reference_path is not None:
            return ""
        if not (session.past_steps and session.is_pruned):
            return ""
        if self._found is not None:
            button = tr("Compare with the original: {name}", name=file_text(self._found))
        self.button.setText(escape_mnemonics(button))
        if self._search is not None:
            return tr("This file was pruned. Looking for the original…")
        return tr("This file was pruned.")

    def _hide_for_good(self) -> None:
        super()._hide_for_good()
        self._stop()

    def _compare(self) -> None:
        if self._found is None:
            self._stop()
            self.choice_wanted.emit()
        else:
            self._workbench.comparison.set_reference(self._found)
            self.taken.emit()


class CorrectionNotice(Notice):
    """Visible while the stack prunes, has no correction, and a recording for one is at hand."""

    def __init__(self, workbench: Workbench) -> None:
        tip = tr("Draft a step that corrects the kept weights with the recorded inputs of layers")
        super().__init__(workbench, tr("Draft correction"), tip)
        self.button.clicked.connect(self._draft)

    def _wanted_text(self) -> str:
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None or resolved is None or session.correction is None:
            return ""
        steps, drafted = session.steps, self._workbench.draft.current
        planned = (*steps, drafted.step) if drafted is not None else steps
        is_corrected = any(step.method.corrects for step in planned)
        if is_corrected or not resolved.resolution.total[0]:
            return ""
        method = session.correction.method
        [path] = method.files.values()
        return tr(
            "{method} can correct kept weights with the recording {name}.",
            name=one_line(Path(path).name, MAX_RECORDING_CHARS),
            method=tr(method.title),
        )

    def _draft(self) -> None:
        if (correction := self._workbench.opened.correction) is not None:
            self._workbench.draft_wanted.emit(StepRequest(correction))


class ReloadNotice(QWidget):
    """Watches the files of the open checkpoint; visible from a change until the reload."""

    def __init__(self, workbench: Workbench, reload: QAction) -> None:
        super().__init__()
        self._workbench = workbench
        self._stamps = FileStamps()
        self._watcher = QFileSystemWatcher(self)
        self._settle_timer = QTimer(self, singleShot=True, interval=SETTLE_DELAY_MS)
        self._settle_timer.timeout.connect(self._look)
        self._watcher.fileChanged.connect(self._settle_timer.start)
        self._watcher.directoryChanged.connect(self._settle_timer.start)
        self._text = Message()
        self._text.setWordWrap(False)
        button = layouts.tool_button(tr("Reload"), reload.trigger, reload.toolTip())
        layouts.row(self._text, button, of=self, margin=0)
        workbench.changed.connect(self._on_changed)
        self.hide()

    @property
    def text(self) -> str:
        return "" if self.isHidden() else self._text.text()

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._watch()

    def _watch(self) -> None:
        """Watch the files of the checkpoint, and their folders, which report replaced files."""
        session = self._workbench.opened
        self.hide()
        self._settle_timer.stop()
        if watched := self._watcher.files() + self._watcher.directories():
            self._watcher.removePaths(watched)
        self._stamps = session.stamps
        files = [path.absolute() for path, state in session.stamps.states if state]
        folders = dict.fromkeys(path.parent for path in files)
        self._watcher.addPaths([str(path) for path in (*files, *folders)])
        self._look()

    def _look(self) -> None:
        changed = self._stamps.changed()
        if changed:
            name, more = one_line(changed[0].name, MAX_NAME_CHARS), len(changed) - 1
            text = tr("Changed on disk: {name}", name=name)
            if more:
                text = trn(
                    "Changed on disk: {name} and {count:,} more file",
                    "Changed on disk: {name} and {count:,} more files",
                    more,
                    name=name,
                )
            self._text.say(text)
        self.setVisible(bool(changed))
        unwatched = {str(path.absolute()) for path in changed} - set(self._watcher.files())
        if unwatched:
            self._watcher.addPaths(sorted(unwatched))
