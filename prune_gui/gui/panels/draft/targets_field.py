"""The field for the targets of the draft: globs that follow the selection, or are typed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from prune_gui.checkpoint.module_types import is_usually_pruned
from prune_gui.errors import RecipeError
from prune_gui.gui.panels.condition_completer import ConditionCompleter, conditions_help
from prune_gui.gui.widgets.elided_line_edit import ElidedLineEdit
from prune_gui.gui.widgets.icons import icon
from prune_gui.gui.widgets.message import keep_room
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr, trn
from prune_gui.recipe import patterns_for, select
from prune_gui.recipe.selector import Pattern, patterns_in

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor


MAX_LINE_CHARS = 1 << 20
"""Limit of the line. Qt's default of 32,767 would cut off targets."""


class TargetsField(QWidget):
    """A line edit for globs, a button to follow the selection, and the number of matches.

    Signals:
        changed: (by_user) the globs changed.
    """

    changed = Signal(bool)

    def __init__(self, workbench: Workbench, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._selection: frozenset[str] = frozenset()
        self.line = ElidedLineEdit()
        self.line.setAccessibleName(tr("Targets: globs for parameter names"))
        self.line.setPlaceholderText("encoder.*.weight, !*.bias")
        self.line.setToolTip(
            tr(
                "Globs for parameter names, separated by commas; ! excludes.\n"
                "{conditions}\nThey follow the selection in the tree until you type here.",
                conditions=conditions_help(),
            )
        )
        self.line.setMaxLength(MAX_LINE_CHARS)
        self.line.setAcceptDrops(False)  # the window handles dropped files
        ConditionCompleter(self.line, workbench, parts=r"[\s,!]")
        self.line.textEdited.connect(self._typed)
        self.following = QToolButton()
        self.following.setCheckable(True)
        self.following.setChecked(True)
        self.following.setText(tr("Follow"))
        self.following.setAccessibleName(tr("Follow the selection"))
        self.following.setToolTip(tr("The targets follow the selection in the tree"))
        self.following.setIcon(icon("link"))
        self.following.toggled.connect(self._toggled)
        self.count = QLabel()
        self.count.setWordWrap(True)
        keep_room(self.count, lines=2)
        self.count.setAccessibleName(tr("Number of parameters that match the targets"))
        row = QHBoxLayout()
        row.addWidget(self.line)
        row.addWidget(self.following)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(row)
        layout.addWidget(self.count)

    def patterns(self) -> tuple[str, ...]:
        """Return the globs; () while they are invalid."""
        try:
            return _valid_patterns(self.line.text())
        except RecipeError:
            return ()

    @property
    def error(self) -> str:
        """Why the globs are invalid; "" if they are valid."""
        try:
            _valid_patterns(self.line.text())
        except RecipeError as error:
            return str(error)
        return ""

    def show_patterns(self, patterns: Iterable[str]) -> None:
        """Show globs, and stop following the selection. Does not signal."""
        self._set_following(following=False)
        self._show(patterns)

    def follow(self, names: frozenset[str]) -> None:
        """Set the selected parameters."""
        self._selection = names
        if self.following.isChecked():
            self._write_selection()

    def follow_again(self) -> None:
        """Discard typed globs, and follow the selection again."""
        self._set_following(following=True)
        self._write_selection()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        if event.type() == QEvent.Type.PaletteChange:
            self.following.setIcon(icon("link"))
        super().changeEvent(event)

    def _toggled(self, following: bool) -> None:
        if following:
            self._write_selection()

    def _typed(self, _: str) -> None:
        self._set_following(following=False)
        self._count()
        self.changed.emit(True)

    def _set_following(self, *, following: bool) -> None:
        self.following.blockSignals(True)
        self.following.setChecked(following)
        self.following.blockSignals(False)

    def _write_selection(self) -> None:
        session, names = self._workbench.session, self._selection
        if session is None:
            return
        tensors = session.checkpoint.tensors

        def work(monitor: Monitor) -> tuple[str, ...]:
            monitor.advance()
            return patterns_for(names, tensors.values())

        def then(patterns: tuple[str, ...]) -> None:
            if session is self._workbench.session and self.following.isChecked():
                self._show(patterns)
                self.changed.emit(False)

        self._workbench.bridge.run_job("patterns", work, then)

    def _show(self, patterns: Iterable[str]) -> None:
        self.line.setText(", ".join(patterns))
        self.line.setCursorPosition(0)
        self._count()

    def _count(self) -> None:
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None:
            return
        try:
            patterns = _valid_patterns(self.line.text())
        except RecipeError as error:
            self.count.setText(str(error))
            return
        checkpoint = session.checkpoint
        counts = resolved.resolution.counts if resolved else {}

        def work(monitor: Monitor) -> tuple[int, int, bool]:
            monitor.advance()
            tensors, module_types = (
                checkpoint.tensors.values(),
                partial(getattr, checkpoint, "module_types"),
            )
            chosen = select(patterns, tensors, counts, module_types) if patterns else []
            chosen = [tensor for tensor in chosen if not tensor.not_prunable]
            return (
                len(chosen),
                sum(tensor.numel for tensor in chosen),
                all(map(is_usually_pruned, chosen)),
            )

        def then(result: tuple[int, int, bool]) -> None:
            number, elements, usual = result
            self.count.setText(
                tr(
                    "{count:,} parameters, {entries:,} weights; no biases, norms or embeddings",
                    count=number,
                    entries=elements,
                )
                if usual and number > 1 and self.following.isChecked()
                else trn(
                    "{count:,} parameter, {entries:,} weights",
                    "{count:,} parameters, {entries:,} weights",
                    number,
                    entries=elements,
                )
            )

        self._workbench.bridge.run_job("targets", work, then)


def _valid_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns in a line.

    Raises:
        RecipeError: a pattern is invalid.
    """
    patterns = patterns_in(text)
    for pattern in patterns:
        Pattern.parse(pattern)
    return patterns
