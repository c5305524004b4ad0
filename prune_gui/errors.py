"""Every error that input can cause, as a person should read it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from prune_gui.language import tr

LONGEST: Final = 590
"""Characters of a message, whatever the names in it."""
INDENT: Final = "    "
BLANKS: Final = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
"""Are shown as they are: some languages have them between the digits of a number."""
INVISIBLE: Final = frozenset(
    map(
        chr,
        [
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ],
    )
)
"""Letters and marks that Unicode counts as printable, though nothing is to be seen of them."""
MAX_MARKS: Final = 4
"""Combining marks on one letter. No writing needs more; hundreds cover the lines around them."""


class PruneGuiError(Exception):
    """Base of every error that input can cause.

    The message is one sentence or two for a person: what happened, to which file or parameter,
    and what to do about it. The window and the command line show it as it stands: one line of
    bounded length, though names in it may hold anything.

    Args:
        message: in the language in use.
        code: lines of Python for the person to run elsewhere, which follow the message.
    """

    def __init__(self, message: str, code: Sequence[str] = ()) -> None:
        lines = "".join(f"\n{INDENT}{line}" for line in code)
        super().__init__(one_line(message, LONGEST - len(lines)) + lines)


class CheckpointError(PruneGuiError):
    """A checkpoint cannot be opened, read or written."""


class RecipeError(PruneGuiError):
    """A recipe cannot be read, or cannot be carried out on this checkpoint; one bounded line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class StepError(RecipeError):
    """One step of a recipe cannot be carried out.

    Attributes:
        step: its number, from 1.
        reason: why, without the number.
    """

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(tr("Step {number}: {reason}", number=step, reason=reason))
        self.step = step
        self.reason = one_line(reason)


class PluginError(PruneGuiError):
    """A plug-in cannot be loaded, or what it holds is no pruning method."""


class Cancelled(PruneGuiError):  # noqa: N818 - what happened, and no mistake
    """The user stopped the work; everything is as it was before it began."""

    def __init__(self) -> None:
        super().__init__(tr("Cancelled; nothing was changed."))


def one_line(text: str, most: int = LONGEST) -> str:
    r"""Return a text from anywhere as it can be shown in one line without being misread.

    Plain text is returned as it is. What does not print (control and format characters, as of
    colours, line ends and the direction of writing; lone surrogates; blanks other than the usual
    ones), what cannot be seen, and marks that pile up are spelled out: "\x1b", "\n", "\u202e".

    Args:
        text: of a file, a person or a library.
        most: how many characters to return; the middle of a longer text is left out.
    """
    text = _shortened(text, most)
    if text.isascii() and text.isprintable():
        return text
    return _shortened("".join(_spelled_out(text)), most)


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 3]}...{text[-end:]}"


def _spelled_out(text: str) -> Iterator[str]:
    marks = 0
    for sign in text:
        marks = marks + 1 if unicodedata.category(sign) in ("Mn", "Me") else 0
        prints = sign.isprintable() or sign in BLANKS
        if prints and sign not in INVISIBLE and marks <= MAX_MARKS:
            yield sign
        else:
            yield sign.encode("unicode_escape").decode()
