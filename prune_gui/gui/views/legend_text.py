"""Legends of pictures as rich text: the colour of each step, and how much the step pruned."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final, Protocol

from prune_gui.errors import one_line
from prune_gui.gui.views.maps.tiles import MIN_SHADE
from prune_gui.language import format_number, tr, trn
from prune_gui.number_formats import sparsity, sparsity_share
from prune_gui.raster.colours import Colours, mixed
from prune_gui.recipe.recipe import KEPT, ZERO
from prune_gui.session.subjects import with_zeros

SEPARATOR: Final = "&nbsp;&nbsp; "
"""Separator of legend items. Lines break after it, so that all lines start with an item."""
MAX_NAMED_COLOURS = 12  # maximum number of colours with a name; the others are counted together
RAMP: Final = (*(MIN_SHADE + share * (1 - 2 * MIN_SHADE) for share in (0.25, 0.5, 0.75)), 1.0)
"""How far the colours of cells are from kept if 25, 50, 75 and 100 % are pruned."""
SCALE_STEPS: Final = 6
OUTLINE: Final = "#8a8f96"
"""Visible on both themes, so that the pale colour of kept elements is, too."""
BREAKABLE_CHARACTERS: Final = re.compile("[…\u2e80-\uffef]")
"""Characters that allow a line break after them: the ellipsis, and those of some scripts."""


class HasCounts(Protocol):
    """What a legend can describe."""

    @property
    def draft(self) -> int | None:
        """Step number of the draft; None without a draft."""

    def counts(self) -> dict[int, int]:
        """Return the number of elements by code."""

    def title(self, code: int) -> str:
        """Return the name of a code."""


def legend(
    subject: HasCounts,
    colours: Colours,
    *,
    marks: int = 0,
    zeros: int = 0,
    is_dense: bool = False,
) -> str:
    """Return the legend of a picture as rich text, with an item per colour that occurs.

    Args:
        marks: number of cells with a ring around them.
        zeros: number of zeros in the file that have the colour of `ZERO` where no step prunes
            them. It is shown if there is no step, because steps may prune some of them.
        is_dense: whether cells have several elements; then a step has a ramp from kept to pruned.
    """
    by_code = with_zeros(subject.counts(), zeros)
    counts = list(by_code.items())
    total = sum(count for _, count in counts)

    def item(code: int, text: str) -> str:
        squares = _squares(colours, code, subject.draft, is_dense=is_dense)
        return f"{squares}&nbsp;{unbroken(text)}"

    named, rest = counts[:MAX_NAMED_COLOURS], counts[MAX_NAMED_COLOURS:]
    items = [item(code, counted(subject.title(code), count, total)) for code, count in named]
    if rest:
        more = tr("{count:,} more", count=len(rest))
        others = sum(count for _, count in rest)
        items.append(marked(colours.grid, counted(more, others, total)))
    if zeros and ZERO not in by_code:
        items.insert(1, item(ZERO, subject.title(ZERO)))
    if marks:
        items.append(unbroken(trn("○ {count:,} lone cell", "○ {count:,} lone cells", marks)))
    return SEPARATOR.join(items)


def marked(colour: str, text: str, mark: str = "■") -> str:
    """Return a mark in a colour and a text beside it, as rich text in which no line breaks."""
    return f"{coloured_text(mark, colour)}&nbsp;{unbroken(text)}"


def swatch(colour: str, text: str) -> str:
    """Return an outlined square, because the colour may be pale, and a text beside it."""
    return f"{coloured_text('□', OUTLINE, colour)}&nbsp;{unbroken(text)}"


def scale(what: str, marks: Iterable[tuple[str, str]]) -> str:
    """Return the legend of numbers: what they are, and some of their colours with texts."""
    return SEPARATOR.join([what, *(swatch(*mark) for mark in marks)])


def share_scale(what: str, colours: Colours, largest: float = 1.0) -> str:
    """Return the legend of shares from 0 to the largest one."""
    shares = [index / (SCALE_STEPS - 1) for index in range(SCALE_STEPS)]
    return scale(what, [(colours.share(one), sparsity_share(one * largest)) for one in shares])


def coloured_text(text: str, colour: str, background: str = "transparent") -> str:
    """Return a text in a colour as rich text."""
    return f'<span style="color: {colour}; background: {background}">{text}</span>'


def _squares(colours: Colours, code: int, draft: int | None, *, is_dense: bool) -> str:
    """Return a square in the colour of a code, or several from kept to pruned."""
    if code == KEPT:
        return coloured_text("□", OUTLINE, colours.kept)
    shares = RAMP if is_dense else RAMP[-1:]
    shades = (mixed(colours.kept, colours.of(code, draft), share) for share in shares)
    return "".join(coloured_text("■", shade) for shade in shades)


def cell_meaning(cell: tuple[int, int], low: float = 0.0, high: float = 1.0) -> str:
    """Return what a cell of a mask with several weights shows; shares have colours between ends."""
    return tr(
        "{down:,} \N{MULTIPLICATION SIGN} {across:,} weights per cell, from pale to strong: "
        "{low} % to {high} % pruned",
        down=cell[0],
        across=cell[1],
        low=format_number(100 * low, ".3g"),
        high=format_number(100 * high, ".3g"),
    )


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
