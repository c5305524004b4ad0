"""Messages for validation errors."""

from __future__ import annotations

import math

import pytest
from foreign import untranslated
from pydantic import ValidationError
from pydantic_core import PydanticKnownError

from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.fields import text_of
from prune_gui.pruning.validation_messages import MESSAGES, validation_message

CONTEXTS = {
    "greater_than": {"gt": 0.5},
    "greater_than_equal": {"ge": 0},
    "less_than": {"lt": 3},
    "less_than_equal": {"le": 1},
    "literal_error": {"expected": "'local', 'global' or 'row'"},
    "model_type": {"class_name": "Recipe"},
}
VALUES = (
    None,
    True,
    -1,
    3,
    0.5,
    7.25,
    -0.5,
    math.nan,
    math.inf,
    "",
    "odd",
    [],
    [1.5],
    {"a": 1},
    b"x",
)


WORDS = ("fro", "nuc", "output", "input")  # of recipes


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages_contain_no_terms_of_pydantic(kind):
    problem = PydanticKnownError(kind, CONTEXTS.get(kind))
    told = {"type": kind, "msg": problem.message(), "ctx": CONTEXTS.get(kind, {})}
    assert not {"Input", "valid", "tuple", "dictionary", "instance"} & set(
        validation_message(told).split()
    )
    context = {} if kind == "model_type" else CONTEXTS.get(kind, {})
    assert all(f"{value}" in validation_message(told) for value in context.values())


def problems(method: str, field: str) -> list[str]:
    """Return the messages for invalid values of a field."""
    found = []
    for value in VALUES:
        try:
            METHODS[method].model_validate({field: value})
        except ValidationError as error:
            found += [
                validation_message(one) for one in error.errors() if one["loc"][:1] == (field,)
            ]
    return found


@pytest.mark.usefixtures("foreign_language")
@pytest.mark.parametrize(
    ("method", "field"),
    [(name, field) for name, method in METHODS.items() for field in (*method.model_fields, "odd")],
)
def test_validation_errors_of_fields_are_translated(method, field):
    fields = [one for kind in METHODS.values() for one in kind.model_fields.values()]
    choices = {choice for one in fields for choice in text_of(one).choices}
    told = problems(method, field)
    assert told
    assert [word for text in told for word in untranslated(text, *choices, *WORDS, "odd")] == []
