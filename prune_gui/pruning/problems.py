"""What pydantic finds wrong with a value, in the language of whoever gave the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prune_gui.language import later, tr, trn

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MESSAGES: Final = {
    "bool_parsing": later("Input should be a valid boolean, unable to interpret input"),
    "bool_type": later("Input should be a valid boolean"),
    "extra_forbidden": later("Extra inputs are not permitted"),
    "finite_number": later("Input should be a finite number"),
    "float_parsing": later("Input should be a valid number, unable to parse string as a number"),
    "float_type": later("Input should be a valid number"),
    "greater_than": later("Input should be greater than {gt:g}"),
    "greater_than_equal": later("Input should be greater than or equal to {ge:g}"),
    "int_type": later("Input should be a valid integer"),
    "less_than": later("Input should be less than {lt:g}"),
    "less_than_equal": later("Input should be less than or equal to {le:g}"),
    "literal_error": later("Input should be {expected}"),
    "missing": later("Field required"),
    "model_type": later("Input should be a valid dictionary or instance of {class_name}"),
    "string_type": later("Input should be a valid string"),
    "tuple_type": later("Input should be a valid tuple"),
}
"""By the type of the problem. What is not here is said in pydantic's English."""


def in_words(problem: ErrorDetails) -> str:
    """Return what is wrong with a value, as pydantic says it in English.

    Of a validator of this program that is what it raised, and nothing else.
    """
    kind, context = problem["type"], problem.get("ctx", {})
    match kind:
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return tr(MESSAGES[kind], expected=_choice(context["expected"]))
        case "string_too_short":
            return trn(
                "String should have at least {count} character",
                "String should have at least {count} characters",
                context["min_length"],
            )
        case "too_short":
            return trn(
                "There should be at least {count} item, not {actual}",
                "There should be at least {count} items, not {actual}",
                context["min_length"],
                actual=context["actual_length"],
            )
        case "too_long":
            return trn(
                "There should be at most {count} item, not {actual}",
                "There should be at most {count} items, not {actual}",
                context["max_length"],
                actual=context["actual_length"],
            )
    return tr(MESSAGES[kind], **context) if kind in MESSAGES else problem["msg"]


def _choice(expected: str) -> str:
    """Return words such as "'a', 'b' or 'c'" in the language in use."""
    others, _, last = expected.rpartition(" or ")
    return tr("{others} or {last}", others=others, last=last) if others else last
