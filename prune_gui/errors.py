"""Every error that input can cause, as a person should read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prune_gui.language import tr

LONGEST: Final = 590
"""Characters of a message about a checkpoint, whatever the names in it."""
INDENT: Final = "    "


class PruneGuiError(Exception):
    """Base of every error that input can cause.

    The message is one sentence or two for a person: what happened, to which file or parameter,
    and what to do about it. The window and the command line show it as it stands.
    """


class CheckpointError(PruneGuiError):
    """A checkpoint cannot be opened, read or written.

    The message is one line of bounded length, though names in it may hold anything. Lines of
    Python, for the person to run elsewhere, can follow it.
    """

    def __init__(self, message: str, code: Sequence[str] = ()) -> None:
        lines = "".join(f"\n{INDENT}{line}" for line in code)
        super().__init__(one_line(message, LONGEST - len(lines)) + lines)


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
    """A plug-in cannot be loaded, or what it holds is no pruning method; one bounded line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Cancelled(PruneGuiError):  # noqa: N818 - what happened, and no mistake
    """The user stopped the work; everything is as it was before it began."""

    def __init__(self) -> None:
        super().__init__(tr("Cancelled; nothing was changed."))


def one_line(text: str, most: int = LONGEST) -> str:
    """Return a text with control characters spelled out, and the middle cut out of a long one."""
    if not text.isprintable():
        text = "".join(
            sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
        )
    if len(text) > most:
        end = most // 3
        text = f"{text[: most - end - 3]}...{text[-end:]}"
    return text
