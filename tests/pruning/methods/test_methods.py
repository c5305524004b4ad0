"""The parameters of the methods: validation, messages and texts, and what a dragged cut sets."""

import math
from dataclasses import dataclass
from typing import Annotated

import pytest
from foreign import untranslated
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticKnownError

from prune_gui.pruning.methods import METHODS, Method
from prune_gui.pruning.methods.base import UnitCounts
from prune_gui.pruning.methods.fields import FieldText, text_of
from prune_gui.pruning.validation_messages import MESSAGES, validation_message

INVALID = {
    "l1_unstructured": (
        *({"amount": amount} for amount in (True, math.nan, -0.1, 1.5, -1, "half", None)),
        {"importance": "a", "moved_from": "b"},
        {"score": "balanced", "importance": "a"},
        {"score": "ria", "moved_from": "b"},
    ),
    "threshold": [{"value": value} for value in (True, -0.1, math.nan, math.inf, "much", None)],
    "n_m": ({"n": 5}, {"n": -1}, {"m": 0}, {"n": 3, "m": 2}),
    "block": ({"height": 0}, {"width": -1}, {"n": "two"}),
}


@pytest.mark.parametrize(
    ("name", "parameters"), [(name, each) for name, some in INVALID.items() for each in some]
)
def test_invalid_parameters_are_refused(name, parameters):
    with pytest.raises(ValidationError):
        METHODS[name].model_validate(parameters)


def test_methods_with_amounts_1_and_1_0_differ():
    one, everything = (METHODS["l1_unstructured"].model_validate({"amount": a}) for a in (1, 1.0))
    assert one != everything
    assert one == METHODS["l1_unstructured"].model_validate({"amount": 1})
    assert len({one, everything}) == 2


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_and_field_has_its_texts(method: type[Method]):
    assert method.__doc__
    for field in method.model_fields.values():
        assert field.description
        assert text_of(field).label


@pytest.mark.parametrize("n", [0, 0.5, 1, 2, 3, "inf", "-inf", "fro", "nuc"])
def test_every_norm_order_round_trips_through_json(n):
    method = METHODS["ln_structured"].model_validate({"n": n})
    assert METHODS["ln_structured"].model_validate(method.model_dump(mode="json")) == method
    assert method.model_dump(mode="json")["n"] == n


@pytest.mark.parametrize(
    ("name", "parameters", "scope", "kind"),
    [
        ("l1_unstructured", {"scope": "row"}, "row", "weights"),
        ("l1_unstructured", {"importance": "scores.pt"}, "local", "scores"),
        ("ln_structured", {"scope": "global"}, "global", "weights"),
        ("lamp", {}, "global", "lamp"),
        ("lamp", {"moved_from": "before.pt"}, "global", "lamp_of_scores"),
        ("lamp", {"score": "ria"}, "global", "lamp_of_scores"),
        ("n_m", {"score": "balanced"}, "group", "scores"),
        ("balanced", {}, "global", "lamp_of_scores"),
        ("balanced", {"over": "row"}, "row", "scores"),
        ("random_unstructured", {}, "local", "random"),
        ("random_structured", {}, "local", "random"),
        ("channels", {"channels": "1"}, "local", None),
        ("identity", {}, "local", None),
    ],
)
def test_scope_and_kind_of_the_scores_depend_on_the_method_and_its_fields(
    name, parameters, scope, kind
):
    method = METHODS[name](**parameters)
    assert (method.ranking_scope, method.score_kind) == (scope, kind)


Inner = Annotated[int, FieldText(label="inner", values={"1": "one"})]


class Model(BaseModel):
    inner: Inner = 0
    outer: Annotated[Inner, FieldText(label="outer", show=lambda _, value: f"<{value}>")] = 0
    plain: int = 0


def text(name: str) -> FieldText:
    return text_of(Model.model_fields[name])


def test_the_outermost_texts_count():
    assert [text(name).label for name in Model.model_fields] == ["inner", "outer", ""]


def test_a_value_is_shown_by_its_text_or_with_the_name_of_the_field():
    assert text("inner").in_title(None, "inner", 1) == "one"
    assert text("inner").in_title(None, "inner", 2) == "inner 2"
    assert text("outer").in_title(None, "outer", 2) == "<2>"
    assert text("plain").in_title(None, "plain", 2) == "plain 2"


CONTEXTS = {
    "greater_than": {"gt": 0.5},
    "greater_than_equal": {"ge": 0},
    "less_than": {"lt": 3},
    "less_than_equal": {"le": 1},
    "literal_error": {"expected": "'local', 'global' or 'row'"},
    "model_type": {"class_name": "Recipe"},
}
NUMBERS = (True, -1, 3, 0.5, 7.25, -0.5, math.nan, math.inf)
VALUES = (*NUMBERS, None, "", "odd", [], [1.5], {"a": 1}, b"x")
WORDS = ("fro", "nuc", "output", "input")  # of recipes


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages_contain_no_terms_of_pydantic(kind):
    problem = PydanticKnownError(kind, CONTEXTS.get(kind))
    told = {"type": kind, "msg": problem.message(), "ctx": CONTEXTS.get(kind, {}), "input": 0}
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


@dataclass
class Cut:
    """A cut through 100 elements of weights 1 to 100, 20 of them pruned; 1000 in all targets."""

    ranks_weights: bool = True
    deviation: float = 2.0

    def up_to_weight(self, weight):
        return UnitCounts(int(weight), 80, 100) if self.ranks_weights else None

    def up_to_score(self, score):
        return UnitCounts(int(1000 * score), 800, 1000)

    def own_up_to_weight(self, weight):
        return self.up_to_weight(weight)

    def of_targets(self):
        return UnitCounts(0, 800, 1000)

    def own_pruned_with(self, **fields):
        assert fields["amount_of"] == "remaining"
        return fields["amount"] // 10 if fields["amount"] <= 800 else None

    def score_of(self, weight):
        return weight / 1000 if self.ranks_weights else None

    def standard_deviation(self):
        return self.deviation


@pytest.mark.parametrize(
    ("parameters", "amount"),
    [
        ({"amount": 0.5}, 0.25),
        ({"amount": 0.5, "amount_of": "total"}, 0.2),
        ({"amount": 0.5, "amount_of": "reach"}, 0.4),
        ({"amount": 7}, 20),
        ({"amount": 7, "amount_of": "reach"}, 40),
    ],
)
def test_the_amount_keeps_its_kind_and_its_base(parameters, amount):
    method = METHODS["l1_unstructured"](**parameters)
    setting = method.setting_for_weight(Cut(), 20.0)
    assert setting == ("amount", amount)
    assert type(setting[1]) is type(method.amount)


def test_a_share_of_nothing_is_zero():
    assert METHODS["erk"]().amount_for(UnitCounts(0, 0, 0)) == 0.0


@pytest.mark.parametrize("name", ["l1_unstructured", "lamp", "erk"])
def test_there_is_no_setting_if_the_draft_ranks_no_weights(name):
    assert METHODS[name]().setting_for_weight(Cut(ranks_weights=False), 20.0) is None


def test_a_lamp_cut_is_at_the_score_of_the_weight():
    lamp = METHODS["lamp"]()
    assert lamp.setting_for_weight(Cut(), 20.0) == lamp.setting_for_score(Cut(), 0.02)
    assert lamp.setting_for_weight(Cut(), 20.0) == ("amount", 20 / 800)


@pytest.mark.parametrize(("amount", "expected"), [(0.5, 209 / 800), (5, 209)])
def test_an_erk_amount_is_the_largest_that_prunes_no_more_of_the_target(amount, expected):
    erk = METHODS["erk"](amount=amount)
    assert erk.setting_for_weight(Cut(), 20.0) == ("amount", expected)


def test_a_threshold_is_the_score_itself_or_its_number_of_standard_deviations():
    absolute = METHODS["threshold"](value=1)
    relative = METHODS["threshold"](value=1, relative_to="std")
    for setting in (absolute.setting_for_weight, absolute.setting_for_score):
        assert setting(Cut(), 0.12345678) == ("value", 0.123457)
    for setting in (relative.setting_for_weight, relative.setting_for_score):
        assert setting(Cut(), 0.5) == ("value", 0.25)
    assert relative.setting_for_weight(Cut(deviation=0.0), 0.5) == ("value", 0.5)
