"""Every error that input can cause, with a message for the user."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Final

from prune_gui.language import deferred, tr
from prune_gui.redaction import redacted

MAX_MESSAGE_CHARS: Final = 590
"""Maximum number of characters of a message, including names from files."""
BLANKS: Final = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
"""Shown unchanged, because some languages put them between the digits of a number."""
INVISIBLE: Final = {
    *map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159)),
    *map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))),
}
"""Characters that Unicode classifies as printable although they are invisible."""
MAX_MARKS: Final = 4
"""Maximum combining marks per letter. No script needs more; hundreds cover adjacent lines."""


class PruneGuiError(Exception):
    """Base of every error that input can cause.

    The message is one or two sentences for the user: what happened, to which file or parameter,
    and what to do about it. The window and the command line show it unchanged. It is one line of
    bounded length even if names in it contain arbitrary characters.

    Args:
        message: in English, with the names of its fields, or translated already; see `tr`.
        fields: what is filled in.

    Attributes:
        brief: the message with the names of files in place of their paths, which hide the cause.
        details: what to show on demand: the message with the paths, the output of a process.
    """

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(one_line(tr(message, **fields)))
        names = {key: one.name if isinstance(one, PurePath) else one for key, one in fields.items()}
        self.brief = one_line(tr(message, **names))
        self.details = "" if self.brief == str(self) else str(self)

    @classmethod
    @contextmanager
    def on_os_error(cls, message: str, /, **fields: object) -> Iterator[None]:
        """Raise this error for an OSError in the block; `{reason}` is what the system says."""
        try:
            yield
        except OSError as error:
            raise cls(message, **fields, reason=error.strerror or error) from error


class CheckpointError(PruneGuiError):
    """A checkpoint cannot be opened, read or written."""


class RecipeError(PruneGuiError):
    """A recipe cannot be read or cannot be applied to this checkpoint."""


class StepError(RecipeError):
    """One step of a recipe cannot be applied."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(deferred("Step {number}: {reason}", number=step, reason=reason))
        self.step = step
        self.reason = one_line(reason)


class JobError(PruneGuiError):
    """The work folder of a job cannot be used."""


class PartsMissingError(JobError):
    """A stage needs the files of parts that have not done their share."""


class RecordingError(PruneGuiError):
    """Statistics of a model cannot be recorded or saved."""


class ReconstructionError(PruneGuiError):
    """A network cannot be reconstructed block by block."""


class TrainingError(PruneGuiError):
    """The masks of a run of training cannot be made, kept or loaded."""


class PluginError(PruneGuiError):
    """A plug-in cannot be loaded or defines no pruning method."""


class EvaluationError(PruneGuiError):
    """An evaluator cannot be run, or its result cannot be used; `details` is its output."""

    def __init__(self, message: str, /, *, details: str = "", **fields: object) -> None:
        super().__init__(message, **fields)
        self.details = details or self.details


class DeviceError(PruneGuiError):
    """There is no device of a name to compute on."""


class ClusterError(PruneGuiError):
    """A cluster cannot be reached, or was lost."""


class Cancelled(PruneGuiError):  # noqa: N818 - an outcome, not an error
    """The user cancelled the work; nothing was changed."""

    def __init__(self) -> None:
        super().__init__(deferred("Cancelled; nothing was changed."))


def one_line(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    r"""Return an untrusted text as one line that cannot be misread.

    Plain text is returned unchanged. These are escaped, as in "\x1b", "\n", "\u202e":

    - unprintable characters: control and format characters (colours, line ends, writing
      direction), lone surrogates, and white space other than the space and `BLANKS`;
    - invisible characters (`INVISIBLE`);
    - combining marks beyond `MAX_MARKS` on one letter.

    Passwords and signatures in URLs are hidden (see `redacted`).
    """
    text = _shortened(text, limit)
    if text.isascii() and text.isprintable():
        return text
    return _shortened("".join(_escape(text)), limit)


def valid_text(text: str) -> str:
    r"""Return a text with escapes, as in "\ud800", in place of lone surrogates.

    JSON and pickles can hold these, files of text cannot. In JSON, the escape means the surrogate.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _shortened(text: str, limit: int) -> str:
    """Return a text without secrets, also after what is left out or escaped has made it a URL."""
    text = redacted(text)
    return (
        text if len(text) <= limit else _elide_middle(redacted(_elide_middle(text, limit)), limit)
    )


def _elide_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - end - 3]}...{text[-end:]}"


def _escape(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        is_printable = character.isprintable() or character in BLANKS
        if is_printable and character not in INVISIBLE and marks <= MAX_MARKS:
            yield character
        else:
            yield character.encode("unicode_escape").decode()
