"""The refusal of a file that a parser did not expect: one message, whatever was raised."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from prune_gui.errors import CheckpointError, PruneGuiError
from prune_gui.language import deferred, tr
from prune_gui.memory import is_out_of_memory

log = logging.getLogger(__name__)


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
            tr(
                "{name} cannot be read: it is damaged, or of a form that this program does not "
                "know. Download the file again, or save it again with the program that made it.",
                name=path.name,
            )
        ) from error


def refusing_read(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a checkpoint that reads within `refusing`."""

    @wraps(read)
    def guarded(checkpoint: Any, *arguments: object) -> Any:  # noqa: ANN401 - any method
        with refusing(checkpoint.path):
            return read(checkpoint, *arguments)

    return guarded
