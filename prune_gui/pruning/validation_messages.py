"""Messages for pydantic validation errors, in the language in use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from prune_gui.errors import one_line
from prune_gui.language import deferred, suggestion, tr, trn

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_MESSAGE_LENGTH: Final = 300
"""Maximum length of the message of a validator, in characters."""
MESSAGES: Final = {
    "bool_parsing": deferred("true or false is expected"),
    "bool_type": deferred("true or false is expected"),
    "dict_type": deferred("entries such as encoder.*: 0.5 are expected"),
    "extra_forbidden": deferred("unknown field"),
    "finite_number": deferred("a finite number is expected"),
    "float_parsing": deferred("a number is expected"),
    "float_type": deferred("a number is expected"),
    "greater_than": deferred("a number above {gt:g} is expected"),
    "greater_than_equal": deferred("a number of at least {ge:g} is expected"),
    "int_from_float": deferred("a whole number is expected"),
    "int_parsing": deferred("a whole number is expected"),
    "int_type": deferred("a whole number is expected"),
    "less_than": deferred("a number below {lt:g} is expected"),
    "less_than_equal": deferred("a number of at most {le:g} is expected"),
    "literal_error": deferred("{expected} is expected"),
    "missing": deferred("it is missing"),
    "model_type": deferred("fields such as method: l1_unstructured are expected"),
    "string_type": deferred("text is expected"),
    "tuple_type": deferred("a list such as [a, b] is expected"),
}
"""By error type of pydantic. Other types keep the English message of pydantic."""


def validation_message(problem: ErrorDetails) -> str:
    """Return the message for an error, to be shown after the name of the field."""
    kind, context = problem["type"], problem.get("ctx", {})
    match kind:
        case "value_error":
            return one_line(str(context["error"]).removesuffix("."), MAX_MESSAGE_LENGTH)
        case "literal_error":
            expected = context["expected"]
            message = tr(MESSAGES[kind], expected=_localized_choice(expected))
            return message + suggestion(str(problem["input"]), re.findall("'(.*?)'", expected))
        case "string_too_short":
            return trn(
                "at least {count} character is expected",
                "at least {count} characters are expected",
                context["min_length"],
            )
        case "too_short":
            return trn(
                "at least {count} item is expected, not {actual}",
                "at least {count} items are expected, not {actual}",
                context["min_length"],
                actual=context["actual_length"],
            )
        case "too_long":
            return trn(
                "at most {count} item is expected, not {actual}",
                "at most {count} items are expected, not {actual}",
                context["max_length"],
                actual=context["actual_length"],
            )
    return tr(MESSAGES[kind], **context) if kind in MESSAGES else problem["msg"]


def telling(problems: Sequence[ErrorDetails], depth: int) -> list[ErrorDetails]:
    """Return the errors without those that another error of the same value makes redundant.

    pydantic has one for each type that a value may have; the first `depth` parts of the location of
    an error identify the value. Of a value that may be a number or a word, one error names both.
    """
    types_at: dict[tuple[int | str, ...], set[str]] = {}
    for problem in problems:
        types_at.setdefault(problem["loc"][:depth], set()).add(problem["type"])

    def is_redundant(problem: ErrorDetails) -> bool:
        others = types_at[problem["loc"][:depth]] - {problem["type"]}
        match problem["type"]:
            case "int_type" | "float_type" if "literal_error" in others:
                return True
            case "int_type":
                return not others.isdisjoint({"float_type", "float_parsing"})
            case "too_short":
                return bool(others)
        return False

    def complete(problem: ErrorDetails) -> ErrorDetails:
        kinds = types_at[problem["loc"][:depth]]
        if problem["type"] != "literal_error" or kinds.isdisjoint({"int_type", "float_type"}):
            return problem
        number = tr("a number")
        return {**problem, "ctx": {"expected": f"{number}, {problem['ctx']['expected']}"}}

    return [complete(problem) for problem in problems if not is_redundant(problem)]


def _localized_choice(expected: str) -> str:
    others, _, last = expected.rpartition(" or ")
    return tr("{others} or {last}", others=others, last=last) if others else last
