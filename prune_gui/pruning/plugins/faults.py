"""Errors of a plug-in: as text for the user, and as messages between processes."""

from __future__ import annotations

import logging
from typing import Any, Final

from prune_gui.errors import one_line
from prune_gui.language import deferred, tr

log = logging.getLogger(__name__)

MAX_TEXT_LENGTH: Final = 300
"""Maximum length, in characters, of text from a plug-in."""

Value = str | int | None

MESSAGES: Final = {
    "raised": deferred("{it} raised {kind}: {told}"),
    "raised_bare": deferred("{it} raised {kind}"),
    "exit": deferred("{it} called sys.exit"),
    "syntax": deferred("{it} is not valid Python, see line {line}: {reason}"),
    "pruning_type": deferred(
        "{it} has the PRUNING_TYPE {kind!r}: set it to 'unstructured', 'structured' or 'global'"
    ),
    "no_dim": deferred("{it} is 'structured', but has no `dim`: set self.dim in its __init__"),
    "parameter_type": deferred(
        "{it} has a parameter {name!r} that a recipe cannot store: annotate it as int, float, "
        "bool, str or Literal[...]"
    ),
    "parameter_name": deferred(
        "{it} has a parameter {name!r}, a name that every step uses: rename it"
    ),
    "default": deferred(
        "{it} has a parameter {name!r} whose default is not a value of its type: {reason}"
    ),
    "no_mask": deferred("{it} returned a {kind} in place of a mask"),
    "shape": deferred("{it} received scores of shape {shown}, but returned a mask of shape {made}"),
    "values": deferred("{it} returned a mask that holds values other than 0 and 1"),
    "another_mask": deferred(
        "{it} returns different masks under the same seed: draw random numbers from torch's "
        "default generator, and keep no state between calls"
    ),
    "too_large": deferred("{it} requires {lack}; use another method, or close other programs"),
    "too_large_as_one": deferred(
        "{it} requires {lack}; use fewer targets, or scope local, or close other programs"
    ),
    "no_start": deferred("{it} cannot be run, since its process does not start: {reason}"),
    "no_scores": deferred("{it} cannot receive its scores: {reason}"),
    "exit_code": deferred("{it} ended its process with exit code {status}"),
    "signal": deferred("{it} ended its process by the signal {signal}"),
    "no_answer": deferred("{it} closed the connection to this program"),
    "bad_answer": deferred("{it} corrupted the output of its process, which cannot be read"),
    "time": deferred("{it} took longer than {seconds:,} s and was stopped"),
}
"""By code, which is sent between processes; `Fault.of` fills in ``{it}``."""


class Fault(Exception):  # noqa: N818 - internal to this package
    """An error of a plug-in."""

    def __init__(self, code: str, **fields: Value) -> None:
        super().__init__(code, fields)
        self.code = code
        self.fields = fields

    @classmethod
    def received(cls, code: str, fields: dict[str, Value]) -> Fault:
        """Return the fault that another process reports; raise if it has no such message."""
        for name, value in fields.items():
            if not isinstance(value, Value):
                raise TypeError(f"a fault with a {type(value).__name__}")
            fields[name] = one_line(value, MAX_TEXT_LENGTH) if isinstance(value, str) else value
        fault = cls(code, **fields)
        fault.of("")
        return fault

    def of(self, it: object) -> str:
        """Return the message, with `it` as the name of the plug-in."""
        return tr(MESSAGES[self.code], it=it, **self.fields)


class Raised(Fault):
    """The plug-in raised an exception."""


class ReportedFault(Fault):
    """A fault that the process of the plug-in reported itself, and after which it continues."""


def raise_fault(reply: dict[str, Any]) -> None:
    """Raise the fault that a reply reports, if any, and log its traceback."""
    if "fault" not in reply:
        return
    try:
        fault = ReportedFault.received(reply["fault"], reply["fields"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Fault("bad_answer") from error
    if trace := reply.get("trace"):
        log.info("The code of a plug-in failed\n%s", trace)
    raise fault
