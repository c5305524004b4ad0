"""The legend under a picture: which colour is which step, and how much it pruned."""

from __future__ import annotations

from html import escape
from typing import Protocol

from PySide6.QtWidgets import QLabel

from prune_gui.gui.panels.wording import sparsity
from prune_gui.gui.theme import Colours
from prune_gui.recipe.codes import KEPT

MOST = 12
"""Colours that are named; the others are only counted."""


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
        parts = [(colours.kept, "kept", kept), (colours.steps[0], "pruned", total - kept)]
        rest = []
    else:
        parts = [
            (colours.of(code, subject.draft), subject.title(code), count)
            for code, count in counts[:MOST]
        ]
        rest = counts[MOST:]
    if rest:
        parts.append((colours.grid, f"{len(rest)} more", sum(count for _, count in rest)))
    shown = [
        f'<span style="color: {colour}">■</span>&nbsp;{_unbroken(title, count, total)}'
        for colour, title, count in parts
    ]
    if marks:
        shown.append(f"○&nbsp;{marks:,}&nbsp;lone&nbsp;{'cell' if marks == 1 else 'cells'}")
    return " &nbsp; &nbsp; ".join(shown)


def _unbroken(title: str, count: int, total: int) -> str:
    text = f"{title} {count:,} ({sparsity(count, total)})"
    return escape(text).replace(" ", "&nbsp;")


class Legend(QLabel):
    """Shows the legend of a subject; wraps where the window is narrow."""

    def __init__(self) -> None:
        super().__init__(wordWrap=True)
        self.setAccessibleName("Legend")
        self.setContentsMargins(8, 0, 8, 4)

    def show_subject(
        self, subject: Counted, colours: Colours, *, plain: bool = False, marks: int = 0
    ) -> None:
        """Show the legend of a subject."""
        self.setText(legend(subject, colours, plain=plain, marks=marks))
