"""The legend under a picture: which colour is which step, and how much it pruned."""

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

SPACE: Final = "&nbsp;&nbsp; "
"""Between the parts of a legend; a line ends after it, so that all of them begin in line."""
MOST = 12
"""Colours that are named; the others are only counted."""
LINES: Final = 5
"""Lines that a legend takes of the room for its picture, at most."""
WIDE: Final = re.compile("[\u2e80-\uffef]")
"""Signs of writings in which a line may end after every sign."""


class Counted(Protocol):
    """What a legend can be of."""

    @property
    def draft(self) -> int | None:
        """The number that the draft has as a step; None without a draft."""

    def counts(self) -> dict[int, int]:
        """Return how many entries each step pruned, by code."""

    def title(self, code: int) -> str:
        """Return what to call entries of a code."""


def legend(subject: Counted, colours: Colours, *, plain: bool = False, marks: int = 0) -> str:
    """Return the legend of a picture as rich text: one part per colour that occurs.

    Args:
        subject: what is pruned.
        colours: of the theme.
        plain: all steps have the colour of the first.
        marks: how many cells have a ring around them.
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
            for code, count in counts[:MOST]
        ]
        rest = counts[MOST:]
    if rest:
        more = tr("{count:,} more", count=len(rest))
        parts.append((colours.grid, more, sum(count for _, count in rest)))
    shown = [
        f'<span style="color: {colour}">■</span>&nbsp;{unbroken(counted(title, count, total))}'
        for colour, title, count in parts
    ]
    if marks:
        shown.append(unbroken(trn("○ {count:,} lone cell", "○ {count:,} lone cells", marks)))
    return SPACE.join(shown)


def counted(title: str, count: int, total: int) -> str:
    """Say how many entries are of a colour, and which share of all."""
    share = sparsity(count, total)
    return tr("{what} {count:,} ({share})", what=title, count=count, share=share)


def unbroken(text: str) -> str:
    """Return a text as rich text whose words stay on one line."""
    text = escape(one_line(text))
    return WIDE.sub("\N{WORD JOINER}\\g<0>\N{WORD JOINER}", text).replace(" ", "&nbsp;")


class Legend(QScrollArea):
    """Shows the legend of a subject; wraps where the window is narrow, scrolls if it is long."""

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self._label = QLabel(wordWrap=True, textFormat=Qt.TextFormat.RichText)
        self._label.setAccessibleName(tr("Legend"))
        self._label.setContentsMargins(8, 0, 8, 4)
        self.setWidget(self._label)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # a stop of the tab key that shows nothing
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def text(self) -> str:
        """Return the legend as rich text."""
        return self._label.text()

    def setText(self, text: str) -> None:  # noqa: N802 - as a label has it
        """Show a legend that is rich text."""
        if text != self.text():
            self._label.setText(text)
            self.updateGeometry()
            self._offer_to_scroll()

    def clear(self) -> None:
        """Show none."""
        self.setText("")

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Return the height of all lines, or of as many as are shown at once."""
        margins = self._label.contentsMargins()
        lines = LINES * self._label.fontMetrics().lineSpacing()
        return min(self._label.heightForWidth(width), lines + margins.top() + margins.bottom())

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of all lines, or of as many as are shown at once."""
        hint = self._label.sizeHint()
        return QSize(hint.width(), self.heightForWidth(hint.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Never narrower than a part of the legend, which does not scroll sideways."""
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self._label.minimumSizeHint().width() + bar, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Scroll if the lines have no room now."""
        super().resizeEvent(event)
        self._offer_to_scroll()

    def _offer_to_scroll(self) -> None:
        """Have a scroll bar if one is needed: Qt keeps one that it takes the room for itself."""
        long = self._label.heightForWidth(self.width()) > self.height()
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAlwaysOn if long else policy.ScrollBarAlwaysOff
        )

    def show_subject(
        self, subject: Counted, colours: Colours, *, plain: bool = False, marks: int = 0
    ) -> None:
        """Show the legend of a subject."""
        self.setText(legend(subject, colours, plain=plain, marks=marks))
