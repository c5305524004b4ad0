"""The field for the targets of the draft: globs that follow the selection, or are typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSignalBlocker,
    QStringListModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QMouseEvent, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QCompleter,
    QLineEdit,
    QToolButton,
    QWidget,
)

from prune_gui.checkpoint.tree import is_usually_pruned
from prune_gui.errors import RecipeError
from prune_gui.gui.draft.fields import UndoBeyond
from prune_gui.gui.formatting import wrapped
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLineEdit
from prune_gui.gui.widgets.message import Message, keep_room
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, colours, set_icon
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr, trn
from prune_gui.recipe import patterns_for, select
from prune_gui.recipe.selector import Pattern, condition_examples, condition_words, patterns_in

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method


MAX_LINE_CHARS = 1 << 20
"""Limit of the line. Qt's default of 32,767 would cut off targets."""
NO_WORD: Final = "\0"
"""A word that no condition begins with. An empty word would be completed to all conditions."""


class TargetsField(QWidget):
    """The globs in a line edit, and the number of matches."""

    changed = Signal(bool)  # (by_user) the globs changed

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self._workbench = workbench
        self._selection: frozenset[str] = frozenset()
        self._pending: frozenset[str] | None = None
        self._when_known: Callable[[], None] | None = None
        self._method: type[Method] | None = None
        self._protected: frozenset[str] = frozenset()
        name = tr("Targets: globs for parameter names")
        tip = tr(
            "Globs for parameter names, separated by commas; ! excludes.\n"
            "{conditions}\nThey follow the selection in the tree until you type here.",
            conditions=conditions_help(),
        )
        self.line = layouts.described(ElidedLineEdit(), name, tip)  # it has all globs
        self.line.setPlaceholderText("encoder.*.weight, !*.bias")
        self.line.setMaxLength(MAX_LINE_CHARS)
        self.line.setAcceptDrops(False)  # the window handles dropped files
        UndoBeyond(self.line)
        self.line.textEdited.connect(self._typed)
        self.line.textChanged.connect(lambda: self.line.setPalette(QPalette()))
        self.line.editingFinished.connect(self._end_typing)
        self.following = layouts.described(
            QToolButton(),
            tr("Follow the selection"),
            tr("The targets follow the selection in the tree"),
        )
        self.following.setText(tr("Follow"))
        self.following.setCheckable(True)
        self.following.setChecked(True)
        self.following.toggled.connect(self._toggled)
        self.count = Message()
        keep_room(self.count, lines=2)
        ConditionCompleter(self.line, workbench, r"[\s,!]", self.count)
        self.count.setAccessibleName(tr("Number of parameters that match the targets"))
        set_icon(self.following, "link")
        layouts.column(
            layouts.row(self.line, self.following), self.count, of=self, margin=0, gap=TIGHT_PX
        )

    def patterns(self) -> tuple[str, ...]:
        """Return the globs; () while they are invalid."""
        return () if self.error else patterns_in(self.line.text())

    @property
    def error(self) -> str:
        """Why the globs cannot be targets; "" if they can."""
        try:
            for pattern in self.typed:
                Pattern.parse(pattern)
        except RecipeError as error:
            return str(error)
        return "" if self.typed else tr("Choose parameters, or type globs.")

    def use(self, method: type[Method]) -> None:
        """Count and describe the targets as a method takes them; see `select`."""
        if method is not self._method:
            self._method = method
            self._count()

    def protect(self, names: frozenset[str]) -> None:
        if names != self._protected:
            self._protected = names
            self._count()

    def when_known(self, action: Callable[[], None]) -> None:
        """Call `action` when no globs are being computed, at once or later.

        It is not called if the targets are changed before.
        """
        if self._pending is None:
            action()
        else:
            self._when_known = action

    def show_patterns(self, patterns: Iterable[str]) -> None:
        """Show globs, and stop following the selection. Does not signal."""
        self._set_following(following=False)
        self._show(patterns)

    def follow(self, names: frozenset[str]) -> None:
        self._selection = names
        if self.following.isChecked():
            self._write_selection()

    def choose(self, names: frozenset[str]) -> None:
        """Set some parameters as the targets in place of the selection, on behalf of the user."""
        self._set_following(following=False)
        self._write(names, by_user=True)

    @property
    def typed(self) -> tuple[str, ...]:
        """The globs, also while they are invalid."""
        return patterns_in(self.line.text())

    def restore(self, globs: Iterable[str], *, follows: bool) -> None:
        """Show globs as they were, or follow the selection again."""
        self.show_patterns(globs)
        if follows:
            self._set_following(following=True)
            self._write_selection()

    def mark(self) -> None:
        """Give the globs the focus, in the colour of warnings until they change."""
        palette = self.line.palette()
        for role in (QPalette.ColorRole.Highlight, QPalette.ColorRole.Accent):
            palette.setColor(role, QColor(colours(palette).warning))
        self.line.setPalette(palette)
        self.line.setFocus(Qt.FocusReason.OtherFocusReason)  # another reason selects the text

    def _end_typing(self) -> None:
        self.line.setText(", ".join(self.typed))

    def _toggled(self, following: bool) -> None:
        self._await(None)
        if following:
            self._write_selection()
        else:
            self.changed.emit(False)

    def _typed(self) -> None:
        self._set_following(following=False)
        self._count()
        self.changed.emit(True)

    def _set_following(self, *, following: bool) -> None:
        with QSignalBlocker(self.following):
            self.following.setChecked(following)
        self._await(None)

    def _await(self, names: frozenset[str] | None) -> None:
        """Note the parameters whose globs are being computed; None if the line has all globs."""
        self._pending, self._when_known = names, None

    def _write_selection(self) -> None:
        self._write(self._selection, by_user=False)

    def _write(self, names: frozenset[str], *, by_user: bool) -> None:
        session = self._workbench.session
        if session is None:
            return
        tensors = session.checkpoint.tensors
        self._await(names)
        if not self.typed:
            self.count.say("")  # globs are to come, which may wait for the engine

        def work(monitor: Monitor) -> tuple[str, ...]:
            monitor.advance()
            return patterns_for(names, tensors.values())

        def then(patterns: tuple[str, ...]) -> None:
            if session is self._workbench.session and self._pending is names:
                action = self._when_known
                self._await(None)
                self._show(patterns)
                self.changed.emit(by_user)
                if action is not None:
                    action()

        self._workbench.bridge.run_job("patterns", work, then)

    def _show(self, patterns: Iterable[str]) -> None:
        self.line.setText(", ".join(patterns))
        self.line.setCursorPosition(0)
        self._count()

    def _count(self) -> None:
        session, resolved = self._workbench.session, self._workbench.resolved
        if session is None:
            return
        if error := self.error:
            self.count.say(error)
            return
        patterns, protected = self.patterns(), self._protected
        every_kind = self._method is not None and self._method.takes_every_kind
        checkpoint = session.checkpoint
        counts = resolved.resolution.counts if resolved else {}

        def work(monitor: Monitor) -> list[TensorInfo]:
            monitor.advance()
            tensors = checkpoint.tensors.values()
            module_types = partial(getattr, checkpoint, "module_types")
            chosen = select(patterns, tensors, counts, module_types, every_kind=every_kind)
            return [tensor for tensor in chosen if patterns and not tensor.not_prunable]

        def then(chosen: list[TensorInfo]) -> None:
            if patterns == self.patterns():  # others may have been typed since
                self._describe(chosen, [one.name for one in chosen if one.name in protected])

        self._workbench.bridge.run_job("targets", work, then)

    def _describe(self, chosen: list[TensorInfo], protected: list[str]) -> None:
        pruned = [tensor for tensor in chosen if tensor.name not in protected]
        weights = sum(tensor.numel for tensor in pruned)
        text = trn(
            "{count:,} parameter, {entries:,} weights",
            "{count:,} parameters, {entries:,} weights",
            len(pruned),
            entries=weights,
        )
        note = ""
        if protected:
            message = deferred("{count:,} of {all:,} parameters, {entries:,} weights")
            text = tr(message, count=len(pruned), all=len(chosen), entries=weights)
            note = trn("{count:,} protected", "{count:,} protected", len(protected))
        elif self._method is not None and self._method.is_coupled:
            text = trn("{count:,} parameter", "{count:,} parameters", len(pruned))
            note = tr("their units are pruned in all tensors that have them, also biases")
        elif len(chosen) > 1 and self.following.isChecked() and all(map(is_usually_pruned, chosen)):
            note = tr("no biases, norms or embeddings")
        text = tr("{text}; {note}", text=text, note=note) if note else text
        self.count.say(text, warning=not pruned)
        self.count.setToolTip(wrapped(", ".join(protected)))


class ConditionCompleter(QCompleter):
    """Completes the word before the cursor to a condition that some parameter satisfies.

    The list of conditions does not cover the widget `below` the line.
    """

    def __init__(self, line: QLineEdit, workbench: Workbench, parts: str, below: QWidget) -> None:
        super().__init__(line)
        self._line, self._workbench, self._separators = line, workbench, parts
        self._below = below
        self._words_checkpoint: Checkpoint | None = None
        self._words: list[str] = []
        self._before = self._typed = self._after = ""
        self._offered = QStringListModel(self)
        self.setModel(self._offered)
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        line.setCompleter(self)
        line.textEdited.connect(self._load_words)
        line.textEdited.connect(self._offer)
        taken = Qt.ConnectionType.QueuedConnection  # after the line has the completed text
        self.activated.connect(lambda: line.textEdited.emit(line.text()), taken)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Move the list below `below`, and let a click outside press a button."""
        if isinstance(watched, QAbstractItemView):
            if event.type() in (QEvent.Type.Show, QEvent.Type.Move) and self._below.isVisible():
                line = self._line.mapToGlobal(self._line.rect().topLeft()).y()
                lowest = line + self._line.height() + self._below.minimumHeight() + GAP_PX
                if line < watched.y() < lowest:
                    watched.move(watched.x(), lowest)
            elif event.type() == QEvent.Type.MouseButtonPress and not watched.underMouse():
                watched.hide()
                pressed = QApplication.widgetAt(cast(QMouseEvent, event).globalPosition().toPoint())
                if isinstance(pressed, QAbstractButton):
                    pressed.click()
                return True
        return super().eventFilter(watched, event)

    def splitPath(self, path: str) -> list[str]:  # noqa: N802
        """Return the word before the cursor, or `NO_WORD`, as the only part."""
        return [self._typed or NO_WORD]

    def pathFromIndex(self, index: QModelIndex | QPersistentModelIndex) -> str:  # noqa: N802
        """Return the line with the word completed; it may show another completion already."""
        return self._before + super().pathFromIndex(index) + self._after

    def _offer(self) -> None:
        """Offer all conditions but the one that is typed."""
        text, cursor = self._line.text(), self._line.cursorPosition()
        self._typed = re.split(self._separators, text[:cursor])[-1]
        self._before, self._after = text[: cursor - len(self._typed)], text[cursor:]
        typed = self._typed.casefold()
        self._offered.setStringList([word for word in self._words if word.casefold() != typed])

    def _load_words(self) -> None:
        session = self._workbench.session
        if session is None or session.checkpoint is self._words_checkpoint:
            return
        self._words_checkpoint = checkpoint = session.checkpoint
        self._words = []

        def then(conditions: list[str]) -> None:
            if checkpoint is self._words_checkpoint:
                self._words = conditions
                self._offer()

        self._workbench.bridge.run_job("terms", lambda _: condition_words(checkpoint), then)


def conditions_help() -> str:
    """Return a sentence with one condition of each field."""
    return tr("Conditions narrow it down: {examples}.", examples=condition_examples())
