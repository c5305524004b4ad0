"""The legend below a picture: the colour of each step, and how much the step pruned."""

from __future__ import annotations

import re
from html import escape
from typing import Final, Protocol

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy

from prune_gui.errors import one_line
from prune_gui.gui.formatting import sparsity
from prune_gui.gui.widgets.theme import Colours
from prune_gui.language import tr, trn
from prune_gui.recipe.pruned_by_codes import KEPT

SEPARATOR: Final = "&nbsp;&nbsp; "
"""Separator of legend items. Lines break after it, so that all lines start with an item."""
MAX_NAMED_COLOURS = 12
"""Maximum number of colours with a name; the others are counted together."""
MAX_VISIBLE_LINES: Final = 5
"""Maximum number of lines that are visible at once; more are scrolled."""
BREAKABLE_CHARACTERS: Final = re.compile("[\u2e80-\uffef]")
"""Characters of scripts that allow a line break after every character."""


class HasCounts(Protocol):
    """What a legend can describe."""

    @property
    def draft(self) -> int | None:
        """Step number of the draft; None without a draft."""

    def counts(self) -> dict[int, int]:
        """Return the number of elements by code."""

    def title(self, code: int) -> str:
        """Return the name of a code."""


def legend(subject: HasCounts, colours: Colours, *, plain: bool = False, marks: int = 0) -> str:
    """Return the legend of a picture as rich text, with an item per colour that occurs.

    Args:
        subject: provides the counts and the names.
        colours: colours of the theme.
        plain: whether all steps have the colour of the first.
        marks: number of cells with a ring around them.
    """
    counts = list(subject.counts().items())
    total = sum(count for _, count in counts)
    if plain:
        kept = subject.counts().get(KEPT, 0)
        parts = [(colours.kept, tr("kept"), kept), (colours.steps[0], tr("pruned"), total - kept)]
        rest = []
    else:
        parts = [
            (colours.of(code, subject.draft), subject.title(code), count)
            for code, count in counts[:MAX_NAMED_COLOURS]
        ]
        rest = counts[MAX_NAMED_COLOURS:]
    if rest:
        more = tr("{count:,} more", count=len(rest))
        parts.append((colours.grid, more, sum(count for _, count in rest)))
    items = [
        f'<span style="color: {colour}">■</span>&nbsp;{unbroken(counted(title, count, total))}'
        for colour, title, count in parts
    ]
    if marks:
        items.append(unbroken(trn("○ {count:,} lone cell", "○ {count:,} lone cells", marks)))
    return SEPARATOR.join(items)


def counted(title: str, count: int, total: int) -> str:
    """Return a name with the number of its elements and their share of all."""
    share = sparsity(count, total)
    return tr("{what} {count:,} ({share})", what=title, count=count, share=share)


def unbroken(text: str) -> str:
    """Return a text as rich text in which no line breaks."""
    text = escape(one_line(text))
    return BREAKABLE_CHARACTERS.sub("\N{WORD JOINER}\\g<0>\N{WORD JOINER}", text).replace(
        " ", "&nbsp;"
    )


class Legend(QScrollArea):
    """Shows the legend of a subject; wraps in a narrow window, and scrolls if it is long."""

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self._label = QLabel(wordWrap=True, textFormat=Qt.TextFormat.RichText)
        self._label.setAccessibleName(tr("Legend"))
        self._label.setContentsMargins(8, 0, 8, 4)
        self.setWidget(self._label)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # tabbing to it would show nothing
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def text(self) -> str:
        """Return the legend as rich text."""
        return self._label.text()

    def setText(self, text: str) -> None:  # noqa: N802 - like QLabel
        """Show a legend, given as rich text."""
        if text != self.text():
            self._label.setText(text)
            self.updateGeometry()
            self._update_scroll_bar()

    def clear(self) -> None:
        """Remove the legend."""
        self.setText("")

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Return the height of all lines, limited to `MAX_VISIBLE_LINES`."""
        margins = self._label.contentsMargins()
        lines = MAX_VISIBLE_LINES * self._label.fontMetrics().lineSpacing()
        return min(self._label.heightForWidth(width), lines + margins.top() + margins.bottom())

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of all lines, with the height limited to `MAX_VISIBLE_LINES`."""
        hint = self._label.sizeHint()
        return QSize(hint.width(), self.heightForWidth(hint.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return a minimum width that fits an item, because the legend does not scroll sideways."""
        scroll_bar_width = self.verticalScrollBar().sizeHint().width()
        return QSize(self._label.minimumSizeHint().width() + scroll_bar_width, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show the scroll bar if the lines no longer fit."""
        super().resizeEvent(event)
        self._update_scroll_bar()

    def _update_scroll_bar(self) -> None:
        """Show the scroll bar only if the lines do not fit.

        Qt's own policy can keep a scroll bar whose only cause is the width that it takes itself.
        """
        overflows = self._label.heightForWidth(self.width()) > self.height()
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAlwaysOn if overflows else policy.ScrollBarAlwaysOff
        )

    def show_subject(
        self, subject: HasCounts, colours: Colours, *, plain: bool = False, marks: int = 0
    ) -> None:
        """Show the legend of a subject."""
        self.setText(legend(subject, colours, plain=plain, marks=marks))
