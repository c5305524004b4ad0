"""The legend under a picture: which colour is which step, and how much it pruned."""

from __future__ import annotations

import re
from html import escape
from typing import Final, Protocol

from PySide6.QtWidgets import QLabel

from prune_gui.gui.panels.wording import sparsity
from prune_gui.gui.theme import Colours
from prune_gui.language import tr, trn
from prune_gui.recipe.codes import KEPT

SPACE: Final = "&nbsp;&nbsp;&nbsp;&nbsp; "
"""Between the parts of a legend; a line ends after it, so that all of them begin in line."""
MOST = 12
"""Colours that are named; the others are only counted."""
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
    return WIDE.sub("\N{WORD JOINER}\\g<0>\N{WORD JOINER}", escape(text)).replace(" ", "&nbsp;")


class Legend(QLabel):
    """Shows the legend of a subject; wraps where the window is narrow."""

    def __init__(self) -> None:
        super().__init__(wordWrap=True)
        self.setAccessibleName(tr("Legend"))
        self.setContentsMargins(8, 0, 8, 4)

    def show_subject(
        self, subject: Counted, colours: Colours, *, plain: bool = False, marks: int = 0
    ) -> None:
        """Show the legend of a subject."""
        self.setText(legend(subject, colours, plain=plain, marks=marks))
