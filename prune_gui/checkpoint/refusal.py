"""Why a file is not opened: of a format that is not supported, or not what its parser expects."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

from prune_gui.errors import CheckpointError, PruneGuiError, one_line
from prune_gui.language import deferred, tr
from prune_gui.memory import is_out_of_memory

log = logging.getLogger(__name__)
OTHER_FORMATS: Final = {
    (0, b"version https://git-lfs"): deferred(
        "{name} is a Git LFS pointer, not the weights. Run `git lfs pull`."
    ),
    (0, b"\x93NUMPY"): deferred(
        "{name} is a single NumPy array. Save it with numpy.savez, which keeps names."
    ),
    (0, b"\x1f\x8b"): deferred("{name} is a gzip archive. Unpack it first."),
    (0, b"7z\xbc\xaf\x27\x1c"): deferred("{name} is a 7z archive. Unpack it first."),
    (0, b"BZh"): deferred("{name} is a bzip2 archive. Unpack it first."),
    (0, b"\xfd7zXZ"): deferred("{name} is an xz archive. Unpack it first."),
    (0, b"\x28\xb5\x2f\xfd"): deferred("{name} is a zstd archive. Unpack it first."),
    (0, b"Rar!"): deferred("{name} is a RAR archive. Unpack it first."),
    (257, b"ustar"): deferred("{name} is a tar archive. Unpack it first."),
    (4, b"TFL3"): deferred(
        "{name} is a TensorFlow Lite model. Save the weights with the program that made it."
    ),
}
"""What the user can do with unsupported formats, by the offset of their magic bytes, and these."""
ONNX_FIELD: Final = b"\x08"
"""The tag of the protocol buffer field that every ONNX model starts with."""
WEB_PAGE_STARTS: Final = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")
INVALID: Final = deferred(
    "{name} cannot be opened: {problem}. Download the file again, or save it again with {program}."
)
MAX_CLAIM_CHARS: Final = 400


class FalseClaimError(Exception):
    """A fault of a file, as its parser finds it.

    Attributes:
        claim: the fault as the end of a sentence, to be translated with `tr` when it is shown.
        foreign: the names of code in the pickle before the fault.
    """

    def __init__(self, claim: str, /, **fields: object) -> None:
        self.claim = deferred(claim, **fields)
        super().__init__(self.claim)
        self.foreign: tuple[str, ...] = ()


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Convert what the parsers of a file do not expect to a refusal, and log it as an error.

    What the system reports, such as a lack of memory or a library, is left to the caller.
    """
    try:
        yield
    except (PruneGuiError, OSError, ImportError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        log.exception("%s cannot be read", path)
        raise CheckpointError(
            "{name} cannot be read: it is damaged, or of a form that this program does not "
            "know. Download the file again, or save it again with the program that made it.",
            name=path.name,
        ) from error


def refusing_read(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a checkpoint that reads within `refusing`."""

    @wraps(read)
    def guarded(checkpoint: Any, *arguments: object) -> Any:  # noqa: ANN401 - any method
        with refusing(checkpoint.path):
            return read(checkpoint, *arguments)

    return guarded


def refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; the `object_pairs_hook` of parsers that need unique keys."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        [(duplicate, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise FalseClaimError(
            "{key!r} appears more than once, so it is ambiguous which one counts",
            key=duplicate[:200],
        )
    return unique


def invalid_file(
    path: Path, claim: FalseClaimError, program: str, refusal: str = INVALID
) -> CheckpointError:
    """Return the message that refuses a damaged file; `program` could write it again."""
    problem = one_line(tr(claim.claim), MAX_CLAIM_CHARS)
    return CheckpointError(refusal, name=path.name, problem=problem, program=program)


def explanation(path: Path, start: bytes) -> str:
    """Return the format of the unsupported file `{name}` and what the user can do; "" if unknown.

    The message is for `tr`.
    """
    if not start.strip(b"\0"):
        return deferred(
            "{name} contains only zero bytes (an interrupted download or a disk failure). Download "
            "the file again."
        )
    for (offset, magic), message in OTHER_FORMATS.items():
        if start.startswith(magic, offset):
            return message
    if start.startswith(ONNX_FIELD) and (path.suffix.lower() == ".onnx" or b"torch" in start[:64]):
        return deferred("{name} is an ONNX model. Save the weights with the program that made it.")
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(WEB_PAGE_STARTS):
        return deferred(
            "{name} is a web page or a response of a server, not the weights. Download the file "
            "again."
        )
    if text.startswith(b"{"):
        return deferred(
            "{name} is a JSON text, not the weights. Open the checkpoint file in the same folder."
        )
    return ""
