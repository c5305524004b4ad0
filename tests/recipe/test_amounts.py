import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import RecipeError
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.recipe.amounts import parse_amounts, with_amount


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("10%, 20 %,30%", (0.1, 0.2, 0.3)),
        ("0.5; .25, 1., 1", (0.5, 0.25, 1.0, 1)),
        ("10% to 50% by 20%", (0.1, 0.3, 0.5)),
        ("10-30% by 10", (0.1, 0.2, 0.3)),
        ("0.1 to 0.3 by 0.1", (0.1, 0.2, 0.3)),
        ("8 To 24 by 8, 24, 100", (8, 16, 24, 100)),
        ("99%, 99.5% – 100% by 0.25%", (0.99, 0.995, 0.9975, 1.0)),  # noqa: RUF001
    ],
)
def test_amounts_are_read_as_a_person_writes_them(text, amounts):
    found = parse_amounts(text)
    assert found == amounts
    assert [type(one) for one in found] == [type(one) for one in amounts]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Write amounts such as"),
        ("10%, much", "'much' is not an amount"),
        ("-5", "'-5' is not an amount"),
        ("101%", "more than 100%"),
        ("1.5", "more than 100%"),
        ("10% to 20%", "is not an amount"),
        ("1 to 5 by 0", "is invalid: the increment"),
        ("50% to 10% by 10%", "Write amounts such as"),
        ("0 to 1e9 by 1", "is not an amount"),
        ("0 to 1000000000 by 1", "more than 1,000 amounts"),
        ("0.1 to 0.2 by 0.000000000000000000000001", "more than 1,000 amounts"),
        ("9" * 5000, "is not an amount"),
        ("1," * 5001, "more than 1,000 amounts"),
    ],
)
def test_an_invalid_amount_gives_a_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_amounts(text)


@given(first=st.integers(0, 1000), steps=st.integers(0, 40), by=st.integers(1, 50))
def test_a_range_of_shares_has_no_rounding_errors(first, steps, by):
    last = first + steps * by
    scale = max(last, 1)
    text = f"{first / 10}% to {last / 10}% by {by / 10}%"
    if scale > 1000:
        with pytest.raises(ValueError, match="more than 100%"):
            parse_amounts(text)
    else:
        wanted = tuple((first + i * by) / 1000 for i in range(steps + 1))
        assert parse_amounts(text) == wanted


def test_a_step_with_another_amount_differs_in_nothing_else():
    method = METHODS["l1_unstructured"](amount=0.5, scope="global")
    step = Step(method=method, targets=("a", "b"), enabled=False)
    other = with_amount(step, 8)
    assert other.method.amount == 8
    assert with_amount(other, 0.5) == step


def test_a_method_that_rejects_an_amount_gives_an_error():
    step = Step(method=METHODS["threshold"](value=0.5), targets=("a",))
    with pytest.raises(RecipeError, match="Threshold has no amount"):
        with_amount(step, 0.5)
    step = Step(method=METHODS["l1_unstructured"](amount=0.5), targets=("a",))
    with pytest.raises(
        RecipeError, match=r"does not accept the amount 1\.5: a share must lie between"
    ):
        with_amount(step, 1.5)
